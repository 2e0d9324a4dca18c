"""Importing the package is pure and light."""

from __future__ import annotations

import json
import subprocess
import sys

from unmeasured import environment

import pyro_copula as pc

#: How much longer importing the package may take than importing what it stands on.
MAX_RATIO = 1.2

SCRIPT = """
import json, random, sys, time, warnings
start = time.process_time()
import pyro, torch_geometric
base = time.process_time() - start
present = set(sys.modules)
start = time.process_time()
import numpy, scipy.sparse, scipy.spatial, scipy.special, torch  # scipy adds warning filters
before = (torch.get_default_dtype(), torch.initial_seed(), torch.get_num_threads(),
          torch.distributions.Distribution._validate_args, list(warnings.filters),
          random.getstate(), str(numpy.random.get_state()))
import pyro_copula
for name in set(pyro_copula.__all__) - {"to_inference_data"}:  # names are imported when asked for
    getattr(pyro_copula, name)
own = time.process_time() - start
after = (torch.get_default_dtype(), torch.initial_seed(), torch.get_num_threads(),
         torch.distributions.Distribution._validate_args, list(warnings.filters),
         random.getstate(), str(numpy.random.get_state()))
heavy = ["numba", "llvmlite", "pymetis", "arviz", "matplotlib", "pandas", "networkx", "pooch",
         "requests", "typer", "rich", "joblib", "IPython"]
print(json.dumps({
    "pure": before == after,
    "heavy": [name for name in heavy if name in sys.modules and name not in present],
    "ratio": (base + own) / base,
}))
"""


def test_import_is_pure_and_light():
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = json.loads(output)
    assert found["pure"]
    assert found["heavy"] == []
    assert found["ratio"] < MAX_RATIO


def test_help_on_the_command_line_does_not_wait_for_torch():
    script = (
        "import sys; from pyro_copula.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([name for name in ('torch', 'pyro', 'numpy', 'scipy') if name in sys.modules])"
    )
    for words in ([], ["fit"], ["predict"], ["demo"]):
        command = [sys.executable, "-c", script, *words, "--help"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "Usage:" in output
        assert output.splitlines()[-1] == "[]"


def test_every_public_name_exists_and_is_documented():
    for name in pc.__all__:
        assert getattr(pc, name) is not None
        if name != "__version__":
            assert getattr(pc, name).__doc__, name
