"""Loading: what cannot be used is refused with a sentence that says where it is."""

import numpy as np
import pytest

from analysis.metrics import DataError, curves, load, read_rows, seed_values, select
from tests.analysis.builders import HEAD, row, write_result


@pytest.mark.parametrize("value", ["nan", "", "inf", "many"])
def test_a_value_that_is_no_finite_number_is_refused_with_its_line(tmp_path, value):
    path = tmp_path / "data.csv"
    path.write_text(HEAD + row("score", 1, 2.0) + row("score", 2, value))
    with pytest.raises(DataError, match=r"data.csv line 3: score of run SRL-s2 .* finite number"):
        read_rows(path)


def test_an_x_axis_without_x_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(HEAD + row("score", 1, 2.0, x_name="env_steps"))
    with pytest.raises(DataError, match="line 2"):
        read_rows(path)


def test_other_columns_are_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("figure,metric,value\nsmall,score,1\n")
    with pytest.raises(DataError, match="it must have figure, run_id"):
        read_rows(path)


def test_a_missing_file_is_named_with_the_command_that_makes_it(tmp_path):
    directory = write_result(tmp_path / "small", [], [])
    (directory / "runs.json").unlink()
    with pytest.raises(DataError, match=r"runs.json is missing; run `python -m reproductions small`"):
        load(directory)


def test_seed_values_are_ordered_and_one_for_each_seed(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(HEAD + row("score", 3, 30) + row("score", 1, 10) + row("other", 1, 5) + row("score", 2, 20))
    rows = select(read_rows(path), {"metric": "score"})
    np.testing.assert_array_equal(seed_values(rows), [10, 20, 30])
    path.write_text(HEAD + row("score", 3, 30) + row("score", 3, 31))
    with pytest.raises(DataError, match="2 rows for seed 3"):
        seed_values(read_rows(path))


def test_curves_meet_on_the_range_that_all_seeds_cover(tmp_path):
    path = tmp_path / "data.csv"
    lines = [row("score", 1, v, x=str(x), x_name="t") for x, v in ((0, 0), (10, 10))]
    lines += [row("score", 2, v, x=str(x), x_name="t") for x, v in ((8, 16), (2, 4), (20, 40))]
    path.write_text(HEAD + "".join(lines))
    x, values = curves(read_rows(path), 5)
    np.testing.assert_allclose(x, [2, 4, 6, 8, 10])
    np.testing.assert_allclose(values, [[2, 4, 6, 8, 10], [4, 8, 12, 16, 20]])
    path.write_text(HEAD + row("score", 1, 1, x="1", x_name="t") + row("score", 2, 1, x="2", x_name="t"))
    with pytest.raises(DataError, match="share no range of t"):
        curves(read_rows(path), 5)
