"""What reads files: good contents of each kind, ways to spoil them, and the reader."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import random
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import scipy.sparse
import torch
from harness import committed, trials
from mutations import change, crafted_json, damage, odd_tensor, odd_value
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula import datasets
from pyro_copula.calibration import simulation_based_calibration
from pyro_copula.cli import graph_tables
from pyro_copula.datasets import sources
from pyro_copula.inference.files import header, read_record

SHORT = pc.Schedule(max_epochs=3, check_every=1, save_every=1)


@dataclass
class Target:
    """One kind of file.

    Attributes:
        seeds: Good contents.
        spoil: Makes a bad one.
        read: Reads a file, and looks at what came out.
    """

    seeds: list[bytes]
    spoil: Callable[[bytes, random.Random], bytes]
    read: Callable[[Path], None]


def small_data() -> Data:
    graph = pc.Graph.from_edges([(k, k + 1) for k in range(9)] + [(0, 5)])
    y = torch.arange(10.0).sin()
    y[4] = torch.nan
    data = Data(x=torch.arange(10.0).cos()[:, None], edge_index=graph.edge_index, y=y)
    data.names = [f"node {k}" for k in range(10)]
    return data


def small_fit(backbone: str = "linear", **options: Any) -> Any:
    model = pc.CopulaGNN(backbone, "normal", "car", hidden_channels=3)
    sizes = {"num_draws": 4, "num_warmup": 4, "num_chains": 1}
    return pc.fit(model, small_data(), schedule=SHORT, progress=False, **{**sizes, **options})


# ---------------------------------------------------------------- fits and checkpoints


def fits(folder: Path) -> Target:
    """Saved fits of every method, and an ensemble."""
    seeds = []
    for k, options in enumerate(
        [{}, {"backbone": "sage"}, {"method": "svi"}, {"method": "nuts"}, {"restarts": 2}]
    ):
        small_fit(**options).save(folder / f"seed{k}")
        seeds.append((folder / f"seed{k}").read_bytes())

    def read(path: Path) -> None:
        found = pc.load_fit(path)
        assert isinstance(found, pc.Fit | pc.Ensemble)
        assert repr(found)
        assert all(isinstance(value, float) for value in found.scalars.values())
        assert isinstance(found.converged, bool)
        prediction = found.predict()  # or an error of the package, for other data
        assert len(prediction.mean) == len(prediction.nodes)

    return Target(seeds, spoil_record, read)


def spoil_record(content: bytes, rng: random.Random) -> bytes:
    """An accident of bytes; one that the checksum does not find; or a crafted record."""
    first, _, body = content.partition(b"\n")
    kind = first.split(b" ")[1].decode(errors="replace")
    match rng.randrange(4):
        case 0:
            return damage(content, rng)
        case 1:
            body = damage(body, rng)
            return header(kind, body) + body
        case 2:
            return spoil_archive(body, kind, rng)
        case _:
            record = torch.load(io.BytesIO(body), weights_only=True)
            return packed(change(record, rng, odd_tensor), kind)


def packed(record: Any, kind: str) -> bytes:
    if isinstance(record, dict) and isinstance(record.get("spec"), dict):
        record["spec"] = json.dumps(record["spec"])
    buffer = io.BytesIO()
    torch.save(record, buffer)
    return header(kind, buffer.getvalue()) + buffer.getvalue()


def spoil_archive(body: bytes, kind: str, rng: random.Random) -> bytes:
    """Changes inside the archive: its specification, its pickle, its members, its packing."""
    choice = rng.randrange(4)
    if choice == 0:
        record = torch.load(io.BytesIO(body), weights_only=True)
        part = record["fits"][0] if "fits" in record else record
        if "spec" in part:
            spec = json.loads(part["spec"])
            part["spec"] = json.dumps(change(spec, rng, odd_value))
            return packed(record, kind)
    packing = zipfile.ZIP_DEFLATED if choice == 1 else zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(io.BytesIO(body)) as old,
        zipfile.ZipFile(buffer, "w", packing) as new,
    ):
        warnings.simplefilter("ignore")  # two members of one name are meant
        for member in old.infolist():
            content = old.read(member)
            name = member.filename
            if name.endswith("data.pkl") and rng.random() < 0.6:
                content = rng.choice((damage(content, rng), Bomb.pickled(), bomb_of_lists()))
            elif rng.random() < 0.1:
                content = damage(content, rng)
            if rng.random() < 0.1:
                name = rng.choice(("../../evil", "/evil", name + "x", name.upper()))
            if rng.random() < 0.95:
                new.writestr(name, content)
    return header(kind, buffer.getvalue()) + buffer.getvalue()


class Bomb:
    """A pickle that makes a file if it is ever run."""

    marker = ""

    def __reduce__(self) -> tuple:
        return open, (Bomb.marker, "w")

    @classmethod
    def pickled(cls) -> bytes:
        return pickle.dumps({"spec": cls()}, protocol=2)


def bomb_of_lists() -> bytes:
    """A small pickle of lists of the same lists: two to the power of forty entries."""
    value: Any = []
    for _ in range(40):
        value = [value, value]
    return pickle.dumps({"spec": value}, protocol=2)


def checkpoints(folder: Path) -> Target:
    """Checkpoints in the middle of training and at its end, and of chains."""
    kinds = [{"lr": (0.01, 0.05)}, {"method": "nuts"}]
    seeds: list[bytes] = []
    of: dict[bytes, dict] = {}
    for options in kinds:
        path = folder / "checkpoint"
        path.unlink(missing_ok=True)
        small_fit(checkpoint=path, **options)
        seeds.append(path.read_bytes())
        of[seeds[-1]] = options
    middle = unfinished(folder, seeds[0])
    seeds.append(middle)
    of[middle] = kinds[0]
    state: dict[str, Any] = {}

    def spoil(content: bytes, rng: random.Random) -> bytes:
        state["options"] = of[content]
        return spoil_record(content, rng)

    def read(path: Path) -> None:
        options = state["options"]
        found = small_fit(checkpoint=path, **options)
        assert repr(found)

    return Target(seeds, spoil, read)


def unfinished(folder: Path, finished: bytes) -> bytes:
    """The same checkpoint as it was while its first candidate was trained."""
    from pyro_copula.inference import training

    kept: list[bytes] = []
    step = training._step

    def watched(*arguments: Any) -> None:
        path = folder / "watched"
        if path.exists():
            kept.append(path.read_bytes())
        step(*arguments)

    training._step = watched
    try:
        small_fit(checkpoint=folder / "watched", lr=(0.01, 0.05))
    finally:
        training._step = step
    (folder / "middle").write_bytes(kept[1])
    parts = read_record(folder / "middle", "checkpoint")["parts"]
    assert any(part["state"] is not None for part in parts.values())
    return kept[1]


# ---------------------------------------------------------------- tables and records


def tables(folder: Path) -> Target:
    """The CSV files of the command line."""
    rows = [f"n{k},{k / 7:.4f},{'' if k % 5 == 1 else k * 1.5},{k + 1},text {k}" for k in range(30)]
    nodes = ("id,x,y,births,name\n" + "\n".join(rows) + "\n").encode()
    edges = ("a,b\n" + "\n".join(f"n{k},n{k + 1}" for k in range(29)) + "\n").encode()

    def read(path: Path) -> None:
        if path.read_bytes().startswith(b"a,b"):
            pairs = graph_tables.read_edges(path, [f"n{k}" for k in range(30)]).pairs
            assert (pairs[:, 0] < pairs[:, 1]).all()
            assert len(pairs) == 0 or (pairs.min() >= 0 and pairs.max() < 30)
            return
        found = graph_tables.read_nodes(path, "y", exposure="births")
        assert len(found.ids) == len(found.y) == len(found.x) == len(found.exposure)
        assert np.isfinite(found.x).all()
        assert (found.exposure > 0).all()

    return Target([nodes, edges], damage, read)


def trial_records(folder: Path) -> Target:
    """The record of a finished trial."""
    trial = trials.Trial("t", "d", "m", 3, (("lr", (0.01, 0.1)),))
    place = folder / "t" / f"{trial.key}.json"
    trials.Runner(folder, progress=False).keep(trials.run_trial(trial, lambda t: {"r2": 0.5}))

    def read(path: Path) -> None:
        place.write_bytes(path.read_bytes())
        runner = trials.Runner(folder, progress=False)
        runner.run([trial], lambda t: {"r2": 0.5})
        assert committed.write(runner.records("t"), folder / "t.jsonl") == 1

    return Target([place.read_bytes()], crafted_json, read)


def compact_records(folder: Path) -> Target:
    """The committed records of a table."""
    rows = [
        trials.run_trial(trials.Trial("t", "d", "m", seed), lambda t: {"r2": t.seed / 7})
        for seed in range(4)
    ]
    committed.write(rows, folder / "good.jsonl")

    def read(path: Path) -> None:
        for row in committed.read(path):
            assert {"dataset", "model", "seed", "metrics"} <= row.keys()

    return Target([(folder / "good.jsonl").read_bytes()], crafted_json, read)


def normal_model(y: Any = None) -> None:
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    pyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def exact(model: Any, y: Any, seed: int) -> dict[str, Any]:
    return {"mu": y / 2 + 0.5**0.5 * torch.randn(9)}


def calibration_records(folder: Path) -> Target:
    """Records of simulation-based calibration."""

    def run(path: Path | None) -> Any:
        return simulation_based_calibration(
            normal_model,
            sampler=exact,
            num_draws=9,
            num_simulations=4,
            records=path,
            progress=False,
        )

    run(folder / "good.jsonl")

    def read(path: Path) -> None:
        found = run(path)
        assert found.num_replications == 4
        assert repr(found)
        run(path)  # and the file that it wrote is good

    return Target([(folder / "good.jsonl").read_bytes()], crafted_json, read)


# ---------------------------------------------------------------- data sets


def cache(folder: Path) -> Target:
    """Files in the cache of downloads: spoilt ones are fetched again."""
    good = b"x1,x2,x3,x4,x5,x6,x7\n" + b"1,2,3,4,5,6,7\n" * 20
    name = "election/2012_xy.csv"
    place = folder / "cache" / name
    place.parent.mkdir(parents=True)

    def read(path: Path) -> None:
        place.write_bytes(path.read_bytes())
        found = sources.locate(name)
        assert found == place
        assert found.read_bytes() == good

    def body(url: str, output_file: str, _: object) -> None:
        Path(output_file).write_bytes(good)

    sources._write_body = body
    sources.cache_directory = lambda: folder / "cache"
    sources.FILES = {**sources.FILES, name: sources.Source(name, hashlib.sha256(good).hexdigest())}
    return Target([good], damage, read)


def parsers(folder: Path) -> Target:
    """The readers behind the checksums, should these ever be of a bad file."""
    y = np.arange(12.0)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, y)
    scipy.sparse.save_npz(npz, scipy.sparse.csr_array(np.eye(4)))
    table = b"a,b\n" + b"1.5,2\n" * 9

    def read(path: Path) -> None:
        content = path.read_bytes()
        published = datasets.published
        reader = published._read_npy if content[:2] == b"\x93N" else published._read_csv
        reader = scipy.sparse.load_npz if content[:2] == b"PK" else reader
        published.locate = lambda name, root: path
        published._read("some file", None, reader)

    return Target([npy.getvalue(), npz.getvalue(), table], damage, read)
