"""Pictures, pages, and the check that pages are what the data gives."""

import shutil
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.check import MAX_BYTES
from tests.analysis.builders import panel, row, table_row, write_result


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A learning and a throughput figure."""
    results = tmp_path_factory.mktemp("drawn") / "results"
    curves = [row("score", s, s + x, x=str(x + s), x_name="env_steps") for s in range(3) for x in range(9)]
    ends = [row("end", s, 9 + s) for s in range(3)]
    plot = {"kind": "learning", "panels": [panel("score", "env_steps", goal=8.0, goal_label="goal")]}
    write_result(results / "learning", curves + ends, [table_row("end")], plot)
    rates = [row("rate", s, x * 10 + s, x=str(x), x_name="actors") for s in range(3) for x in (1, 2, 64)]
    limits = [row("limit", s, 700 + s, system="machine") for s in range(3)]
    plot = {"kind": "throughput", "panels": [panel("rate", "actors", limit="limit", limit_label="limit")]}
    write_result(results / "rates", rates + limits, [table_row("rate", best=True)], plot)
    for name in ("learning", "rates"):
        assert main(["draw", name, "--results-dir", str(results)]) == 0
    return results


@pytest.fixture
def results(drawn, tmp_path):
    """A copy of both, to be spoilt."""
    return Path(shutil.copytree(drawn, tmp_path / "results"))


def check(results):
    return main(["check", "--results-dir", str(results)])


def test_what_was_drawn_passes_and_is_the_same_when_drawn_again(results, capsys):
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert check(results) == 0
    assert "2 results checked, 0 problems" in capsys.readouterr().out
    for name in ("learning", "rates"):
        main(["draw", name, "--results-dir", str(results)])
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before
    assert all(len(data) < 200_000 for path, data in before.items() if path.suffix == ".png")


def test_a_cell_edited_by_hand_is_shown_as_a_diff(results, capsys):
    page = results / "learning" / "README.md"
    page.write_text(page.read_text().replace("10 (9 to 11", "21 (9 to 11"))
    assert check(results) == 1
    out = capsys.readouterr().out
    assert "-| the end | not available | 21 (9 to 11" in out
    assert "+| the end | not available | 10 (9 to 11" in out


def test_data_edited_by_hand_no_longer_fits_the_page(results):
    data = results / "learning" / "data.csv"
    data.write_text(data.read_text().replace(",end,9,", ",end,19,"))
    assert check(results) == 1


def test_other_line_ends_are_a_difference(results):
    page = results / "learning" / "README.md"
    page.write_bytes(page.read_bytes().replace(b"\n", b"\r\n"))
    assert check(results) == 1


@pytest.mark.parametrize("name", ["README.md", "figure.png", "runs.json"])
def test_a_missing_file_is_named(results, capsys, name):
    (results / "learning" / name).unlink()
    assert check(results) == 1
    assert f"{name} is missing" in capsys.readouterr().out


def test_too_many_bytes(results, capsys):
    (results / "rates" / "extra.bin").write_bytes(bytes(MAX_BYTES))
    assert check(results) == 1
    assert f"at most {MAX_BYTES} may be committed" in capsys.readouterr().out


def test_no_results_are_no_problem(tmp_path, capsys):
    assert check(tmp_path / "results") == 0
    assert "0 results checked" in capsys.readouterr().out


def test_drawing_what_is_not_there_is_one_sentence(tmp_path, capsys):
    assert main(["draw", "pong", "--results-dir", str(tmp_path)]) == 2
    assert "figure.json is missing" in capsys.readouterr().err
