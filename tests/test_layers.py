"""Imports go down the layers only."""

from __future__ import annotations

import ast
from pathlib import Path

import pyro_copula

ROOT = Path(pyro_copula.__file__).parent

#: Each part of the package, and what it may import from the package.
LAYERS = {
    "_version": set(),
    "errors": set(),
    "shapes": set(),
    "parallel": set(),
    "atomic": {"errors"},
    "first_order": {"errors"},
    "batches": {"errors"},
    "crew": {"errors"},
    "graph": {"errors"},
    "linalg": {"crew", "errors", "first_order", "graph"},
    "special": {"errors", "first_order"},
    "marginals": {"errors", "first_order", "special"},
    "scalars": {"errors"},
    "partitions": {"errors", "graph", "linalg"},
    "precision": {"batches", "errors", "graph", "linalg", "scalars"},
    "rectangle": {"first_order", "linalg", "precision"},
    "distributions": {
        "errors",
        "first_order",
        "graph",
        "linalg",
        "special",
        "marginals",
        "partitions",
        "precision",
        "rectangle",
    },
    "nn": {"batches", "errors", "graph"},
    "metrics": {"errors"},
    "models": {
        "batches",
        "errors",
        "graph",
        "linalg",
        "scalars",
        "marginals",
        "precision",
        "distributions",
        "nn",
    },
    "calibration": {"atomic", "errors", "parallel"},  # any Pyro program: it knows no copula
    "diagnostics": {"errors", "graph", "special", "marginals", "precision", "distributions"},
    "inference": {
        "atomic",
        "crew",
        "errors",
        "graph",
        "parallel",
        "partitions",
        "scalars",
        "metrics",
        "precision",
        "distributions",
        "diagnostics",
        "models",
    },
    "inference_data": {"_version", "errors", "distributions", "inference"},
    "cli": {"_version", "atomic", "errors"},  # and public names, by `import pyro_copula as pc`
    "__main__": {"cli"},
    "simulate": {"errors", "graph", "marginals", "precision", "distributions"},
    "datasets": {"errors", "graph"},
    "testing": {"errors", "graph", "linalg", "special", "marginals", "precision", "distributions"},
}

#: Packages that only some parts may import.
RESTRICTED = {
    "pyro": {"marginals", "distributions", "simulate", "models", "inference", "calibration"},
    "numba": {"linalg", "rectangle", "special"},
    "llvmlite": {"linalg", "rectangle"},
    "pymetis": {"linalg"},
    "torch_geometric": {"nn", "datasets", "simulate", "cli"},
    "arviz": {"inference_data"},
    "typer": {"cli"},
}


def imports(path: Path):
    """The parts of the package and the outside packages that a file imports."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
            yield from (f".{name}" for name in names)


def files():
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part != "__init__":
            yield part, path


def test_imports_go_down_only():
    seen = set()
    for part, path in files():
        assert part in LAYERS, f"{path.name}: add `{part}` to the layers"
        for name in imports(path):
            if name.startswith("."):
                seen.add(name)
                target = name[1:]
                assert target in LAYERS[part] | {part, "shapes"}, f"{path}: {part} imports {target}"
            elif name in RESTRICTED:
                assert part in RESTRICTED[name], f"{path}: {part} imports {name}"
    assert {".errors", ".graph", ".linalg"} <= seen  # the walk does find imports


def test_the_layers_have_no_cycle():
    order: list[str] = []
    rest = dict(LAYERS)
    while rest:
        free = [part for part, below in rest.items() if below <= set(order)]
        assert free, f"a cycle among {sorted(rest)}"
        order += free
        for part in free:
            del rest[part]
