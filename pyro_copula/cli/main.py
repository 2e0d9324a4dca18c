"""The commands. Each one checks its options, hands over, and says what happened.

A mistake of the user ends with the message of the error and exit code 2; anything else that goes
wrong is a bug, ends with a traceback and exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .._version import __version__
from ..errors import InvalidArgumentError, PyroCopulaError

app = typer.Typer(
    name="pyro-copula",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option("--out", help="The directory for the results.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace earlier results.")]
Seed = Annotated[int, typer.Option("--seed", help="Of everything random.")]


def main() -> None:
    """Runs the command line."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyro-copula {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version)
    ] = False,
) -> None:
    """Outcomes on a graph, predicted with honest intervals."""


@app.command()
def demo(
    out: Out = Path("pyro-copula-demo"),
    seed: Seed = 0,
) -> None:
    """Runs a comparison on data that come with the package.

    Predicts sudden infant deaths in North Carolina, each county while it is hidden: Poisson and
    negative-binomial copulas against independent nodes. Writes predictions.csv, scores.csv and
    picture.png, in place of those of an earlier demo, in less than a minute.
    """
    with _reported():
        from .demo import run_demo
        from .outputs import check_directory

        check_directory(out, overwrite=True)
        text, notes = run_demo(out, seed=seed)
    typer.echo(text)
    _say(notes)
    typer.echo(f"\nWritten to {out}: predictions.csv, scores.csv, picture.png")


@app.command()
def fit(
    nodes: Annotated[Path, typer.Option(help="CSV: one row per node, with its id in front.")],
    edges: Annotated[Path, typer.Option(help="CSV: the first two columns are ids of nodes.")],
    target: Annotated[str, typer.Option(help="The column to predict where it is blank.")],
    out: Out,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column of ids.  [default: the first]")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Columns, as a,b,c.  [default: every other column of numbers]"),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="A column that counts are proportional to.")
    ] = None,
    position: Annotated[
        str | None, typer.Option(help="Two columns for a map, as longitude,latitude.")
    ] = None,
    marginal: Annotated[
        str | None,
        typer.Option(help="auto, normal, poisson, negative_binomial, ...  [default: auto]"),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="normalized_adjacency, car, laplacian, none, ...")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="linear, mlp, gcn, sage, gat, appnp  [default: sage]")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="continuous or counts: settings that were found to do well.")
    ] = None,
    method: Annotated[str, typer.Option(help="mle, map, svi or nuts.")] = "mle",
    restarts: Annotated[
        int | None, typer.Option(help="Fit so often, and predict with the mixture.")
    ] = None,
    seed: Seed = 0,
    observed: Annotated[
        bool, typer.Option("--observed", help="Observed nodes get a row in predictions.csv too.")
    ] = False,
    delimiter: Annotated[str, typer.Option(help="Between cells; a character, or tab.")] = ",",
    overwrite: Overwrite = False,
) -> None:
    """Predicts a column of a CSV file where it is blank.

    Writes predictions.csv (mean, median, 50% and 90% intervals for every missing node),
    summary.txt, the saved fit and picture.png. Every column is used, or named in a note. An id
    that a spreadsheet would take for a formula is written with an apostrophe in front.
    """
    with _reported():
        from .fit_files import fit_files
        from .outputs import check_directory

        check_directory(out, overwrite)
        given = {
            "marginal": marginal if marginal or recipe else "auto",
            "precision": precision,
            "backbone": backbone,
            "recipe": recipe,
        }
        summary, notes = fit_files(
            nodes,
            edges,
            out,
            table_options={
                "target": target,
                "id_column": id_column,
                "features": None if features is None else _split(features),
                "exposure": exposure,
                "position": None if position is None else _split(position),
                "delimiter": _checked_delimiter(delimiter),
            },
            model_options={name: value for name, value in given.items() if value is not None},
            fit_options={"method": method, "seed": seed}
            | ({} if restarts is None else {"restarts": restarts}),
            include_observed=observed,
            overwrite=overwrite,
        )
    typer.echo(summary.split("\nNotes\n")[0].rstrip())
    _say(notes)
    typer.echo(f"\nWritten to {out}: predictions.csv, summary.txt, picture.png, and the fit")


@app.command()
def predict(
    fitted: Annotated[Path, typer.Option("--fit", help="A directory that `fit` wrote.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")],
    level: Annotated[
        list[float] | None,
        typer.Option(help="The level of an interval; may be repeated.  [default: 0.5 and 0.9]"),
    ] = None,
    given: Annotated[
        str,
        typer.Option(help="observed: missing nodes given the others; none: every node alone."),
    ] = "observed",
    overwrite: Overwrite = False,
) -> None:
    """Writes the predictions of a saved fit, at any level."""
    with _reported():
        from .fit_files import LEVELS, predict_file
        from .outputs import check_file

        check_file(out, overwrite)
        rows, path = predict_file(fitted, out, levels=level or list(LEVELS), given=given)
    typer.echo(f"{rows} predictions of {path} written to {out}")


_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_ON)
def experiment(context: typer.Context) -> None:
    """Runs an experiment of the paper (in a clone).

    Everything after the word goes to experiments/run.py.
    """
    _run("run.py", context.args)


@app.command(context_settings=_PASS_ON)
def benchmark(context: typer.Context) -> None:
    """Measures speed and memory (in a clone).

    Everything after the word goes to experiments/scaling.py.
    """
    _run("scaling.py", context.args)


# ---------------------------------------------------------------- parts


def _run(script: str, arguments: list[str]) -> None:
    with _reported():
        from .clone import run_script

        code = run_script(script, arguments)
    raise typer.Exit(code)


@contextmanager
def _reported() -> Iterator[None]:
    """Ends with the message and exit code 2 if the user can do something about it."""
    try:
        yield
    except PyroCopulaError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def _say(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {note}", err=True)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _checked_delimiter(delimiter: str) -> str:
    mark = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(mark) != 1 or mark in '"\r\n':
        raise InvalidArgumentError(
            "--delimiter", "one character, or the word tab", repr(delimiter), 'Pass ",".'
        )
    return mark
