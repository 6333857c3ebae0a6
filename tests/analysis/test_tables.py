"""The table: every cell from the data, by rules that are tested here."""

import pytest

from analysis.metrics import DataError, load
from analysis.tables import number, readme
from tests.analysis.builders import PAPER, row, table_row, write_result


def cells(tmp_path, rows, table, seeds=3):
    """Cells of the table's first row."""
    directory = write_result(tmp_path / "small", rows, [table], seeds=seeds)
    lines = readme(load(directory)).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| setting"))
    return [cell.strip() for cell in lines[head + 2].strip("|").split("|")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (124000, "124,000"),
        (0.01623, "0.0162"),
        (18.04, "18"),
        (-20.56, "-20.6"),
        (0, "0"),
        (999.9, "1,000"),
        (1.5, "1.5"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert number(value) == text


def test_a_row_with_a_goal(tmp_path):
    rows = [row("score", s, 18 + s) for s in range(3)]
    found = cells(tmp_path, rows, table_row("score", rule={"better": "higher", "goal": 18.5}))
    assert found == [
        "the score",
        "not available; goal of this repository: at least 18.5 points",
        "19 (18 to 20, 3 seeds) points",
        "not available",
        "not available",
        "Test CPU, 2 cores, 8 GiB, no GPU",
        "desk",
        "reproduced",
        "1-1 below",
    ]


def test_a_row_with_a_paper_value_in_a_unit_that_is_not_stated(tmp_path):
    rows = [row("score", s, 30.0) for s in range(3)]
    table = table_row("score", paper=PAPER, readings={"env steps": 1.0, "frames": 4.0})
    found = cells(tmp_path, rows, table)
    assert found[1] == "100 ± 5 frames/s (2nd: table 1)"
    assert found[3] == "0.3 if env steps, 1.2 if frames"
    assert found[4] == "a big machine"
    assert found[7] == "not reproduced"  # by the reading that favours us least


def test_the_best_x_and_a_rising_trend(tmp_path):
    rows = [row("rate", s, 10 * x + s, x=str(x), x_name="actors") for s in range(3) for x in (1, 2, 3)]
    table = table_row("rate", paper=PAPER, best=True, rule={"better": "higher", "trend": {"rising": True}})
    found = cells(tmp_path, rows, table)
    assert found[2].endswith("points at 3 actors")
    assert found[7] == "trend only"


def test_a_flat_line_is_no_trend(tmp_path):
    rows = [row("rate", s, 10 + s, x=str(x), x_name="actors") for s in range(3) for x in (1, 2)]
    table = table_row("rate", paper=PAPER, best=True, rule={"better": "higher", "trend": {"rising": True}})
    assert cells(tmp_path, rows, table)[7] == "not reproduced"


@pytest.mark.parametrize(("gain", "word"), [(3.0, "trend only"), (-3.0, "not reproduced")])
def test_a_trend_of_another_metric(tmp_path, gain, word):
    rows = [row("score", s, s) for s in range(3)] + [row("gain", s, gain + s) for s in range(3)]
    rule = {"better": "higher", "goal": 18.0, "trend": {"positive": "gain"}}
    assert cells(tmp_path, rows, table_row("score", rule=rule))[7] == word


def test_an_event_that_not_every_seed_reached(tmp_path):
    rule = {"better": "lower", "goal": 30.0}
    found = cells(tmp_path, [row("minutes", 0, 12.0)], table_row("minutes", rule=rule))
    assert found[2] == "not reached by 2 of 3 seeds"
    assert found[7] == "not reproduced"


def test_a_system_that_was_not_run(tmp_path):
    found = cells(tmp_path, [], table_row("score", select={"system": "Other"}, paper=PAPER))
    assert (found[2], found[3], found[5], found[7]) == ("not run", "not available", "not available", "not attempted")


def test_one_seed_raises_instead_of_showing_a_zero_width_interval(tmp_path):
    with pytest.raises(DataError, match="score of the score has one run a task"):
        cells(tmp_path, [row("score", 0, 1.0)], table_row("score"), seeds=1)


def test_metadata_is_shown(tmp_path):
    text = readme(load(write_result(tmp_path / "small", [row("score", s, s) for s in range(3)], [table_row("score")])))
    assert "* 3 runs, 1.5 hours of wall-clock and 3 CPU-hours in all" in text
    assert "* commit 0123456789ab with uncommitted changes" in text
    assert "1. It is small." in text
