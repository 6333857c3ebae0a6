"""Intervals: against loops and rliable's own statistics, reproducible to the bit, loud about bad scores."""

import numpy as np
import pytest
from rliable import metrics

from analysis.bootstrap import Interval, curve_interval, interval
from analysis.metrics import DataError
from srl_core.base.seeding import generator

SCORES = generator(3, "scores").normal(10, 2, (5, 4))


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
def test_twice_the_same_to_the_bit_whatever_the_global_generator_holds(statistic):
    np.random.seed(1)  # noqa: NPY002
    first = interval(SCORES, statistic)
    np.random.seed(2)  # noqa: NPY002
    np.random.random(7)  # noqa: NPY002
    assert interval(SCORES, statistic) == first


def test_the_global_generator_is_left_as_it_was():
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    interval(SCORES)
    np.testing.assert_array_equal(np.random.random(3), expected)  # noqa: NPY002


def test_points_equal_rliables_statistics():
    assert interval(SCORES).point == pytest.approx(metrics.aggregate_mean(SCORES))
    assert interval(SCORES, "iqm").point == pytest.approx(metrics.aggregate_iqm(SCORES))


def test_interval_equals_a_loop_over_resamples():
    random, loop = generator(9, "loop"), []
    for _ in range(10_000):  # each task is resampled by itself
        columns = [SCORES[random.integers(0, 5, 5), task] for task in range(4)]
        loop.append(np.mean(columns))
    ours = interval(SCORES)
    assert (ours.low, ours.high) == pytest.approx(tuple(np.percentile(loop, [2.5, 97.5])), abs=0.05)


def test_equal_scores_have_a_zero_width_interval_and_scores_may_be_one_axis():
    assert interval(np.array([4.0, 4.0, 4.0])) == Interval(4.0, 4.0, 4.0)


def test_a_curve_is_its_points_side_by_side():
    point, low, high = curve_interval(np.stack([SCORES, SCORES + 1], axis=-1))
    np.testing.assert_allclose(point[1] - point[0], 1.0)
    np.testing.assert_allclose([low[1] - low[0], high[1] - high[0]], 1.0, atol=0.1)  # each point has its own resamples
    assert low[0] < point[0] < high[0]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.array([[1.0, 2.0]]), "one run a task"),
        (np.array([1.0]), "one run a task"),
        (np.array([1.0, np.nan, 2.0]), "1 scores that are not finite"),
        (np.array([1.0, np.inf]), "not finite"),
        (np.zeros((0, 3)), "none empty"),
    ],
)
def test_scores_that_give_no_interval_are_refused_by_name(scores, words):
    with pytest.raises(DataError, match=f"return of Pong .*{words}"):
        interval(scores, what="return of Pong")
    with pytest.raises(DataError, match=words):
        curve_interval(np.atleast_3d(scores if scores.ndim > 1 else scores[:, None]))
