"""The public names are those that are documented, and every one has an example that runs."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyro_copula as pc

ROOT = Path(__file__).parents[1]
#: Methods of these are documented one by one.
CLASSES = [
    pc.GaussianCopula,
    pc.GraphNormal,
    pc.ConditionalCopula,
    pc.ConditionalNormal,
    pc.Graph,
    pc.Partition,
    pc.SparsePrecision,
    pc.CARPrecision,
    pc.EdgeRegressionPrecision,
    pc.LaplacianPrecision,
    pc.NormalizedAdjacencyPrecision,
    pc.WeightedLaplacianPrecision,
    pc.CopulaGNN,
    pc.Fit,
    pc.Ensemble,
    pc.Prediction,
    pc.GraphRoles,
    pc.Diagnosis,
    pc.SBCResult,
    pc.Schedule,
]
#: Words that people of other fields look for, on the first page.
WORDS = ["proper CAR", "BYM", "exposure", "offset", "overdispersion", "GMRF", "kriging", "LOO"]


def public_modules() -> dict[str, ModuleType]:
    found = {pc.__name__: pc}
    for name in pc.__all__:
        value = getattr(pc, name)
        if isinstance(value, ModuleType):
            found[value.__name__] = value
    return found


def public_objects() -> dict[str, object]:
    """Every public class and function, once, by the module and name where it is defined."""
    found = {}
    for module in public_modules().values():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


OBJECTS = public_objects()


@functools.cache
def examples(module: str) -> dict[str, list[doctest.Example]]:
    """The examples of a module that pytest runs, by the name of what they belong to."""
    tests = doctest.DocTestFinder().find(importlib.import_module(module))
    return {test.name: test.examples for test in tests if test.examples}


def first_paragraph(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


# ---------------------------------------------------------------- the names


def test_the_names_are_those_on_the_first_page():
    table = re.search(r"## What is where\n(.*?)\n## ", pc.__doc__, re.DOTALL).group(1)
    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted(pc.__all__)  # each of them once
    assert len(set(named)) == len(named)


def test_every_name_exists_and_can_be_listed():
    for module in public_modules().values():
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(pc.__all__) <= set(dir(pc))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pc.nothing  # noqa: B018


def test_the_table_of_homes_is_that_of_the_type_checker():
    """Names are imported when first asked for; what a type checker sees must be the same."""
    (block,) = (node for node in ast.parse(inspect.getsource(pc)).body if isinstance(node, ast.If))
    seen = {alias.name: line.module for line in block.body for alias in line.names}
    assert set(seen) == set(pc.__all__) - {"__version__"}
    assert {name: home for name, home in seen.items() if home} == pc._HOME


def test_other_fields_find_their_words():
    glossary = pc.__doc__.split("## Words of other fields")[1]
    for word in WORDS:
        assert word in glossary, word
    for reference in re.findall(r"`([A-Z]\w+)\.(\w+)`", pc.__doc__):
        assert hasattr(getattr(pc, reference[0]), reference[1]), reference


def test_errors_are_all_public():
    own = {
        name
        for name, value in vars(pc.errors).items()
        if inspect.isclass(value) and value.__module__.startswith(f"{pc.errors.__name__}.")
    }
    assert own == set(pc.errors.__all__)


def test_metrics_are_all_public():
    own = {name for name, value in vars(pc.metrics).items() if inspect.isfunction(value)}
    assert {name for name in own if not name.startswith("_")} == set(pc.metrics.__all__)


# ---------------------------------------------------------------- what is said of them


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_has_a_sentence_and_an_example_that_runs(name):
    value = OBJECTS[name]
    doc = inspect.cleandoc(value.__doc__ or "")
    assert first_paragraph(doc).endswith((".", "?")), "the first paragraph is no sentence"
    assert doc.split("\n")[0].endswith((".", "?", ":")), "the first line is no sentence"
    found = examples(value.__module__).get(name)
    assert found, "no example, or one that pytest does not collect"
    assert not any(doctest.SKIP in example.options for example in found)


@pytest.mark.parametrize("name", public_modules())
def test_a_public_module_has_a_sentence(name):
    doc = inspect.cleandoc(public_modules()[name].__doc__ or "")
    assert first_paragraph(doc).endswith((".", "?"))


def methods():
    for cls in CLASSES:
        for name in dir(cls):
            home = next(base for base in cls.__mro__ if name in vars(base))
            value = inspect.getattr_static(cls, name)
            if name.startswith("_") or not home.__module__.startswith(pc.__name__):
                continue
            if inspect.isroutine(value) or isinstance(value, property | functools.cached_property):
                yield pytest.param(cls, name, value, id=f"{cls.__name__}.{name}")


@pytest.mark.parametrize(("cls", "name", "value"), list(methods()))
def test_a_method_says_what_it_takes_and_gives(cls, name, value):
    if isinstance(value, property | functools.cached_property):
        function = value.fget if isinstance(value, property) else value.func
        assert first_paragraph(function.__doc__ or "").endswith((".", "?"))
        return
    if name == "extra_repr":
        return
    function = getattr(value, "__func__", value)
    doc = inspect.cleandoc(function.__doc__ or "")
    assert first_paragraph(doc).endswith((".", "?"))
    signature = inspect.signature(function)
    taken = [p for p in signature.parameters if p not in ("self", "cls") and p[0] != "_"]
    if taken:
        said = doc.split("Args:")[1] if "Args:" in doc else ""
        for parameter in taken:
            assert re.search(rf"^ +\**{parameter}:", said, re.MULTILINE), parameter
    if signature.return_annotation not in (None, "None"):
        assert "Returns:" in doc


# ---------------------------------------------------------------- the pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages that ``make docs`` writes, by the name of their module."""
    pytest.importorskip("pdoc")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        build = importlib.import_module("build").build
    finally:
        sys.path.remove(str(ROOT / "docs"))
    output = tmp_path_factory.mktemp("site")
    build(output)
    found = output.rglob("*.html")
    names = {".".join(p.relative_to(output).with_suffix("").parts): p.read_text() for p in found}
    assert names.pop("index")
    return names


def test_there_is_a_page_for_every_public_module_and_no_other(pages):
    assert set(pages) == set(public_modules())


def test_the_pages_list_the_public_names_and_no_other(pages):
    for name, module in public_modules().items():
        sections = re.findall(r'<section id="([^"]+)">', pages[name])
        modules = {n for n in module.__all__ if isinstance(getattr(module, n), ModuleType)}
        assert set(sections) == set(module.__all__) - modules, name


def test_the_pages_show_methods_of_private_bases_and_not_those_of_torch(pages):
    page = pages[pc.__name__]
    for shown in ("GraphNormal.condition", "GaussianCopula.log_prob", "Fit.predict"):
        assert f'id="{shown}"' in page
    for hidden in ("CopulaGNN.zero_grad", "GaussianCopula.arg_constraints", "Graph._edges"):
        assert f'id="{hidden}"' not in page


def test_the_pages_have_no_markup_left(pages):
    for name, page in pages.items():
        text = re.sub(r"<[^>]+>", "", page)
        assert not re.search(r":(class|func|meth|math|attr):|\.\. math::|(?<!`)``\w", text), name
        for formula in re.findall(r"\$\$.*?\$\$|\\\(.*?\\\)", page, re.DOTALL):
            assert "<" not in formula, formula
