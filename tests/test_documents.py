"""Every block of code in the documents runs, and the commands in them exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyro
import pyro.distributions as dist
import pytest
import torch
import typer
from pyro import poutine

import pyro_copula as pc
from pyro_copula.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
#: Blocks with this comment above them are run by tests/test_readme.py, by their first word.
RUN_BY = re.compile(r"<!-- (\w+): run by tests/test_readme.py -->\n\Z")


def blocks(document: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a language, each with the text above it."""
    text = (ROOT / document).read_text()
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start()], match.group(1)) for match in found]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_fences_name_their_language(document):
    """So that no Python escapes by being unnamed; what has no language is a drawing."""
    text = (ROOT / document).read_text()
    fences = re.findall(r"^```(\S*)", text, re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= {"python", "bash", ""}
    for body in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        assert not re.search(r"^(import|from|>>>|pc\.|make |pip |pyro-copula )", body, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_python_escapes_the_tests(document):
    """A block is a whole program that test_readme.py runs, or fragments of a Pyro model."""
    tested = (ROOT / "tests" / "test_readme.py").read_text()
    for above, block in blocks(document, "python"):
        marked = RUN_BY.search(above)
        if marked:
            assert f"<!-- {marked.group(1)}.*?-->" in tested
        else:
            run_fragments(block)


def run_fragments(block: str) -> None:
    """Runs each paragraph as a Pyro model of its own, with the names of the text around it."""
    K = pc.CARPrecision(pc.Graph.from_edges([(0, 1), (1, 2)]))(rho=0.9, tau=1.0)
    y = torch.tensor([4.0, 6.0, 5.0])
    names = {"pyro": pyro, "dist": dist, "pc": pc, "K": K, "rate": torch.full((3,), 5.0)}
    for paragraph in block.strip().split("\n\n"):
        values = y if ".to_event" in paragraph else torch.where(y == 6, torch.nan, y)
        code = compile(paragraph, "fragment", "exec")

        def model(code=code, values=values):
            exec(code, {**names, "y": values})

        trace = poutine.trace(model).get_trace()
        assert list(trace.nodes)[1:-1] == ["y"]
        assert torch.isfinite(trace.log_prob_sum())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_and_their_options_exist(document):
    for _, block in blocks(document, "bash"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                check_command(words)


def check_command(words: list[str]) -> None:
    command, *rest = words
    if command == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        variables = re.findall(r"\$\((\w+)\)", (ROOT / "Makefile").read_text())
        for word in rest:
            name, is_variable, _ = word.partition("=")
            assert name in (variables if is_variable else targets), word
    elif command == "pyro-copula":
        commands = typer.main.get_command(app).commands
        known = {option for p in commands[rest[0]].params for option in p.opts} | {"--help"}
        passed_on = commands[rest[0]].ignore_unknown_options
        used = [word.partition("=")[0] for word in rest[1:] if word.startswith("-")]
        assert passed_on or set(used) <= known, f"{rest[0]} has no {set(used) - known}"
    elif command in ("pip", "python"):
        for word in rest:
            if "/" in word or word.endswith((".txt", ".py")):
                assert (ROOT / word).exists(), word
    else:
        pytest.fail(f"an unknown command: {command}")


def test_a_wrong_command_is_noticed():
    for wrong in ("make tests", "make notebooks NOTEBOOK=1", "pyro-copula fit --node a.csv"):
        with pytest.raises(AssertionError):
            check_command(shlex.split(wrong))
    with pytest.raises(pytest.fail.Exception):
        check_command(["conda", "install"])
    with pytest.raises(AssertionError):
        run_fragments('pyro.sample("x", dist.Normal(0.0, 1.0))')


def test_paths_and_names_in_the_text_exist():
    """What stands between backquotes in the contributor's guide, as far as it can be looked up."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S | re.M)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[\w/]+\.(py|md|txt|toml)", quoted) and "NN_" not in quoted:
            assert (ROOT / quoted).exists() or (ROOT / "pyro_copula" / quoted).exists(), quoted
        elif match := re.fullmatch(r"(?:pc|pyro_copula)((?:\.\w+)+)(?:\(.*\))?", quoted):
            found = pc
            for name in match.group(1).split(".")[1:]:
                if not hasattr(found, name):
                    __import__(f"{found.__name__}.{name}")
                found = getattr(found, name)
