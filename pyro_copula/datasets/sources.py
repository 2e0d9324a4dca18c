"""Where the files of the published data sets are: a directory of yours, or a checked download.

A file is looked for in the directory given as ``root``, else in the one that the environment
variable ``PYRO_COPULA_DATA`` names, else in a per-user cache, into which it is downloaded once.
Whichever it is, the SHA-256 of the file is compared with the recorded one before it is read, and a
download enters the cache only after that, by one rename: the cache never holds half a file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from ..errors import ChecksumError, DownloadError, MissingFileError

#: The variable that names a directory with the files; nothing is downloaded then.
ROOT_VARIABLE = "PYRO_COPULA_DATA"

#: The variable that names another place to download from, for example a mirror.
URL_VARIABLE = "PYRO_COPULA_DATA_URL"

#: The public source (MIT licence), at the commit that added the data.
BASE_URL = (
    "https://raw.githubusercontent.com/jiaqima/CopulaGNN/"
    "7e1a95a78d38a0488bb9911043acffe2868cca06/data/"
)

#: No file has as many bytes as this: a server that goes on sending is not the published one.
MAX_BYTES = 64 * 2**20

#: Seconds without an answer after which a download is given up.
TIMEOUT = 30.0


class Source(NamedTuple):
    """One file: its path below the base address, and what it must contain."""

    remote: str
    sha256: str


#: Every file, by its path in the data directory or cache.
FILES: dict[str, Source] = {
    "election/2012_adj.csv": Source(
        "election/2012_adj.csv",
        "81ed0a531123bf913a2850d0152329d8c516a9ba83717838c23d036ae81c891a",
    ),
    "election/2012_xy.csv": Source(
        "election/2012_xy.csv",
        "a79aecacd378b21f54a619a52b36fc35720a2e3b36cc976ddfe75e855f218fce",
    ),
    "wiki/wiki-chameleon-edge.npy": Source(
        "count/wiki-chameleon-edge.npy",
        "f36dc33ee917890cdb2e134a20e76a1445bc20b908bdc0d67b8eb79619a8dbd5",
    ),
    "wiki/wiki-chameleon-x.npy": Source(
        "count/wiki-chameleon-x.npy",
        "32ff7c030d1ef8c2f7438a131f6bd40ec30771a32ce72f8395481bae56917d7c",
    ),
    "wiki/wiki-chameleon-y.npy": Source(
        "count/wiki-chameleon-y.npy",
        "352e8acdd534379383e884ed1e66dac3d8da9251956ad67d83d2b8d9002a9154",
    ),
    "wiki/wiki-squirrel-edge.npy": Source(
        "count/wiki-squirrel-edge.npy",
        "72969115a0db5a0edf0b71b094675c7c0e9b06895988ed4119d7e12f8d9bf539",
    ),
    "wiki/wiki-squirrel-x.npy": Source(
        "count/wiki-squirrel-x.npy",
        "421f9564820a69220f24946c8527fe657a266e068a54c895a4fa41c96affca76",
    ),
    "wiki/wiki-squirrel-y.npy": Source(
        "count/wiki-squirrel-y.npy",
        "591f6b255a791dd3d68a679a7010b1f52b807be9b03fa638dada2cc09fb553e9",
    ),
    "emnlp/emnlp-adj.npz": Source(
        "count/emnlp-adj.npz",
        "0af3a703013ab8b119abcd090088a783f918488c8e35c9f4cee709ac5d552a88",
    ),
    "emnlp/emnlp-x.npy": Source(
        "count/emnlp-x.npy",
        "6381fb664d16a168194289605aab1f84d609b457eab7b8efde58ffe4f6b4ba1f",
    ),
    "emnlp/emnlp-y.npy": Source(
        "count/emnlp-y.npy",
        "218fc764b7fa49b582387ca5d16f59137a3dd44fd63849bc77f1b09962355cbb",
    ),
}


def locate(name: str, root: str | os.PathLike | None = None) -> Path:
    """The path of a file whose content has been checked.

    Args:
        name: A key of :data:`FILES`.
        root: The data directory; see the top of this module for what happens without it.
    """
    directory = root if root is not None else os.environ.get(ROOT_VARIABLE) or None
    if directory is None:
        return _download(name, cache_directory())
    path = Path(directory).expanduser() / name
    if not path.is_file():
        where = "`root`" if root is not None else ROOT_VARIABLE
        raise MissingFileError(
            name,
            f"is not in the data directory {str(directory)!r}, given by {where}",
            "Copy it there, or give no data directory and it is downloaded to a cache.",
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != FILES[name].sha256:
        raise ChecksumError(
            name,
            f"in {str(directory)!r} is not the published one: its SHA-256 begins with "
            f"{found[:12]}, not {FILES[name].sha256[:12]}",
            "Copy it again; git may have changed the line ends of a CSV file (core.autocrlf).",
        )
    return path


def cache_directory() -> Path:
    """The per-user cache, for example ``~/.cache/pyro-copula``."""
    import pooch

    return Path(pooch.os_cache("pyro-copula"))


def _download(name: str, cache: Path) -> Path:
    """The file in the cache, downloaded if it is not there or has been damaged."""
    import pooch
    import requests

    source = FILES[name]
    url = os.environ.get(URL_VARIABLE, BASE_URL).rstrip("/") + "/" + source.remote
    offline = f"To work offline, set {ROOT_VARIABLE} to a directory that has the file as `{name}`."
    try:
        path = pooch.retrieve(
            url,
            known_hash=f"sha256:{source.sha256}",
            fname=Path(name).name,
            path=cache / Path(name).parent,
            downloader=_write_body,
        )
    except requests.exceptions.HTTPError as error:
        status = error.response.status_code if error.response is not None else "an error"
        raise DownloadError(
            name, f"could not be downloaded: {url} answered with status {status}", offline
        ) from error
    except (
        requests.exceptions.ChunkedEncodingError,
        requests.exceptions.ContentDecodingError,
    ) as error:
        raise DownloadError(
            name, f"could not be downloaded: {url} broke off in the middle", f"Try again. {offline}"
        ) from error
    except requests.exceptions.Timeout as error:
        raise DownloadError(
            name,
            f"could not be downloaded: {url} gave no answer in {TIMEOUT:g} seconds",
            f"Try again. {offline}",
        ) from error
    except requests.exceptions.RequestException as error:
        raise DownloadError(
            name,
            f"could not be downloaded: {url} cannot be reached ({type(error).__name__})",
            f"Check the network and proxy settings. {offline}",
        ) from error
    except ValueError as error:  # pooch's way to say that the SHA-256 differs, or too long
        raise ChecksumError(
            name,
            f"downloaded from {url} is not the published one: its SHA-256 differs",
            f"Nothing was kept. Try again, or check a proxy or mirror in between. {offline}",
        ) from error
    except OSError as error:
        raise DownloadError(
            name, f"could not be written to the cache {str(cache)!r} ({error})", offline
        ) from error
    return Path(path)


def _write_body(url: str, output_file: str, _: object) -> None:
    """Writes what an address answers to a file; pooch's own way leaves the connection open."""
    import requests

    with requests.get(url, timeout=TIMEOUT, stream=True) as response:
        response.raise_for_status()
        with open(output_file, "wb") as file:
            total = 0
            try:
                for chunk in response.iter_content(chunk_size=1 << 16):
                    total += len(chunk)
                    if total > MAX_BYTES:
                        raise ValueError("larger than any published file")
                    file.write(chunk)
            except requests.exceptions.ConnectionError as error:
                # The server was reached and then fell silent: not a matter of the network settings.
                raise requests.exceptions.ChunkedEncodingError(str(error)) from error
