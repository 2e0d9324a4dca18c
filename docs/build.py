"""Writes the API reference as web pages: ``make docs``, then open docs/_build/index.html.

    python docs/build.py            # into docs/_build
    python docs/build.py elsewhere

Pages are made of the docstrings of the public names, those in ``__all__``, and of nothing else.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pdoc
import pdoc.doc

import pyro_copula as pc

FOLDER = Path(__file__).parent


class PackageClass(pdoc.doc.Class):
    """A class with what it inherits from this package, private bases too, and from nowhere else."""

    @cached_property
    def _bases(self) -> tuple[type, ...]:
        # pdoc also asks `__orig_bases__`, which a class inherits: it would take `log_prob` of a
        # distribution for one of Pyro's.
        return self.obj.__mro__

    @cached_property
    def bases(self) -> list[tuple[str, str, str]]:
        return [(b.__module__, b.__qualname__, b.__name__) for b in self.obj.__bases__]

    @cached_property
    def own_members(self) -> list[pdoc.doc.Doc]:
        found = [m for m in self.members.values() if m.taken_from[0].split(".")[0] == pc.__name__]
        for member in found:
            if not self._explained_here(member.name):
                member.docstring = ""  # that of torch or Pyro
        return found

    def _explained_here(self, name: str) -> bool:
        """Whether the docstring of a member, its own or inherited, is of this package."""
        if name in ("__init__", "arg_constraints"):
            return False  # explained in the docstring of the class
        for base in self.obj.__mro__:
            if getattr(base.__dict__.get(name), "__doc__", None):
                return base.__module__.split(".")[0] == pc.__name__
        return True

    @cached_property
    def inherited_members(self) -> dict[tuple[str, str], list[pdoc.doc.Doc]]:
        return {}


def public_modules() -> list[ModuleType]:
    """The package and its public modules."""
    values = [getattr(pc, name) for name in pc.__all__]  # also imports what is imported lazily
    return [pc] + [value for value in values if isinstance(value, ModuleType)]


def shadowed(modules: list[ModuleType]) -> list[str]:
    """Private modules that have the name of a public function, as patterns that leave them out."""
    names = {f"{m.__name__}.{name}" for m in modules for name in m.__all__}
    public = {m.__name__ for m in modules}
    return [f"!{name}$" for name in sorted(names & set(sys.modules)) if name not in public]


def build(output: Path) -> None:
    """Writes the pages.

    Args:
        output: The directory, which is emptied first.
    """
    modules = public_modules()
    pdoc.render.configure(
        docformat="google",
        math=True,
        show_source=False,
        footer_text=f"pyro-copula {pc.__version__}",
        template_directory=FOLDER,
    )
    shutil.rmtree(output, ignore_errors=True)
    original, convert = pdoc.doc.Class, pdoc.docstrings.convert
    pdoc.doc.Class = PackageClass
    # References are written as for Sphinx, `~pyro_copula.Graph`; pdoc does not know the tilde.
    pdoc.docstrings.convert = lambda text, *rest: convert(text.replace(":`~", ":`"), *rest)
    try:
        with warnings.catch_warnings():
            # Annotations of named tuples are strings that pdoc cannot look up; it shows those.
            warnings.filterwarnings("ignore", message="Error parsing type annotation")
            pdoc.pdoc(pc.__name__, *shadowed(modules), output_directory=output)
    finally:
        pdoc.doc.Class, pdoc.docstrings.convert = original, convert


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "_build"
    build(target)
    print(f"Written: {target / 'index.html'}")
