"""Where trials run: processes of this machine, or a Dask or Ray cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyro_copula.errors import InvalidArgumentError

#: The package behind each, and what to install for it.
_PACKAGES = {
    "loky": ("joblib", "joblib"),
    "dask": ("distributed", "'dask[distributed]'"),
    "ray": ("ray", "ray"),
}
NAMES = tuple(_PACKAGES)


@contextmanager
def started(name: str, jobs: int, address: str | None) -> Iterator[None]:
    """The joblib backend, with one thread a worker: trials are the unit of parallelism."""
    import joblib

    if name == "loky":
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            yield
    elif name == "dask":
        from dask.distributed import Client, LocalCluster

        with ExitStack() as stack:
            where = address
            if where is None:
                where = stack.enter_context(
                    LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
                )
            with _reached(address):
                client = stack.enter_context(Client(where))
            stack.enter_context(joblib.parallel_config("dask", client=client))
            yield
    else:
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        with _reached(address):
            ray.init(address=address)
        try:
            with joblib.parallel_config("ray"):
                yield
        finally:
            ray.shutdown()


@contextmanager
def _reached(address: str | None) -> Iterator[None]:
    """Says that the scheduler of a cluster does not answer."""
    try:
        yield
    except (OSError, ValueError) as error:
        if address is None:
            raise
        raise InvalidArgumentError(
            "address",
            "that of a running scheduler, such as tcp://scheduler:8786",
            f"no answer at {address!r} ({type(error).__name__})",
            "Start the cluster, or leave the address away to run on this machine.",
        ) from error


def check_installed(backend: str) -> None:
    """Says what to install where a cluster's package is missing."""
    module, install = _PACKAGES[backend]
    if importlib.util.find_spec(module) is None:
        raise InvalidArgumentError(
            "backend",
            "one whose package is installed",
            f"{backend!r} without {module!r}",
            f"Install it with: pip install -c constraints.txt {install}",
        )
