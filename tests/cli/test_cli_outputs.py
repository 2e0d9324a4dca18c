"""Writing results: all or nothing, nothing overwritten unasked, nothing run by a spreadsheet."""

from __future__ import annotations

import os

import pytest

from pyro_copula.cli import outputs
from pyro_copula.errors import FitFileError, InvalidArgumentError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def write_results(out, content="new", error=None):
    with outputs.new_directory(out) as work:
        (work / "predictions.csv").write_text(content)
        if error is not None:
            raise error


def test_a_new_directory_appears_complete(tmp_path):
    out = tmp_path / "deep" / "er" / "out"
    with outputs.new_directory(out) as work:
        (work / "summary.txt").write_text("x")
        assert not (tmp_path / "deep").exists()
    assert names(out) == ["summary.txt"]
    assert names(tmp_path) == ["deep"]
    mask = os.umask(0)
    os.umask(mask)
    assert out.stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_nothing(tmp_path, error):
    out = tmp_path / "deep" / "out"
    with pytest.raises(error):
        write_results(out, "half", error)
    assert names(tmp_path) == []


def test_earlier_results_stay_until_the_new_ones_are_there(tmp_path):
    out = tmp_path / "out"
    write_results(out, "old")
    with pytest.raises(RuntimeError):
        write_results(out, "half", RuntimeError)
    assert (out / "predictions.csv").read_text() == "old"
    write_results(out)
    assert (out / "predictions.csv").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_failed_swap_puts_the_old_results_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_results(out, "old")
    rename = os.rename

    def fail_once(source, target):
        if target == out and "old" not in str(source):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(outputs.os, "rename", fail_once)
    with pytest.raises(InvalidArgumentError, match="No space left on device"):
        write_results(out)
    assert (out / "predictions.csv").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_results_that_a_killed_process_had_moved_aside_come_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_results(out, "old")
    rename, calls = os.rename, []

    def die(source, target):
        calls.append(target)
        if len(calls) > 1:
            raise SystemExit  # as SIGKILL does, between the two renames and before any cleaning
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(outputs.os, "rename", die)
        with pytest.raises(SystemExit):
            write_results(out)
    assert names(tmp_path) == [".out.pyro-copula-old"]
    outputs.check_directory(out, overwrite=True)
    assert (out / "predictions.csv").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_what_only_looks_like_results_moved_aside_stays(tmp_path):
    aside = tmp_path / ".out.pyro-copula-old"
    aside.mkdir()
    (aside / "thesis.doc").write_text("years of work")
    outputs.check_directory(tmp_path / "out", overwrite=True)
    assert names(tmp_path) == [aside.name]


def test_results_that_someone_else_has_written_meanwhile_stay(tmp_path):
    out = tmp_path / "out"
    outputs.check_directory(out, overwrite=False)
    opened = outputs.new_directory(out, overwrite=False)
    (opened.__enter__() / "predictions.csv").write_text("mine")
    write_results(out, "theirs")
    with pytest.raises(InvalidArgumentError, match="Directory not empty"):
        opened.__exit__(None, None, None)
    assert (out / "predictions.csv").read_text() == "theirs"
    assert names(tmp_path) == ["out"]


def test_errors_of_the_package_pass_unchanged(tmp_path):
    with pytest.raises(FitFileError):
        write_results(tmp_path / "out", error=FitFileError("fit", "is damaged", "Fit again."))


def test_which_directories_are_refused(tmp_path):
    out = tmp_path / "out"
    outputs.check_directory(out, overwrite=False)
    out.mkdir()
    outputs.check_directory(out, overwrite=False)
    (out / "predictions.csv").write_text("x")
    with pytest.raises(InvalidArgumentError, match=r"new or empty(.|\n)*--overwrite"):
        outputs.check_directory(out, overwrite=False)
    outputs.check_directory(out, overwrite=True)
    (out / "thesis.doc").write_text("years of work")
    with pytest.raises(InvalidArgumentError, match=r"also holds 'thesis\.doc'"):
        outputs.check_directory(out, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="`--out` must be a directory"):
        outputs.check_directory(out / "thesis.doc", overwrite=True)
    with pytest.raises(InvalidArgumentError, match="can be written"):
        outputs.check_directory(out / "thesis.doc" / "below", overwrite=True)


def test_which_files_are_refused(tmp_path):
    path = tmp_path / "p.csv"
    outputs.check_file(path, overwrite=False)
    path.write_text("x")
    outputs.check_file(path, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="a new file"):
        outputs.check_file(path, overwrite=False)
    with pytest.raises(InvalidArgumentError, match="must be a file"):
        outputs.check_file(tmp_path, overwrite=True)


def test_a_file_is_complete_or_as_before(tmp_path):
    path = tmp_path / "p.csv"
    outputs.write_file(path, lambda part: part.write_text("old"))

    def fail(part):
        part.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidArgumentError, match="No space left"):
        outputs.write_file(path, fail)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["p.csv"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "-", "-1e5x"])
def test_formulas_are_disarmed(text):
    assert outputs.harmless(text) == "'" + text


@pytest.mark.parametrize("text", ["Ashe", "-7", "-7.25", "7", "a=b", "'Ashe", ""])
def test_other_cells_stay(text):
    assert outputs.harmless(text) == text
