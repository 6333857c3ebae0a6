"""Point estimates with 95 % intervals by the stratified bootstrap (Agarwal et al. 2021, through rliable)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from rliable import library

from analysis.metrics import DataError

Statistic = Literal["mean", "iqm"]
RESAMPLES = 5_000
CURVE_RESAMPLES = 2_000
_SEED = 20230628


@dataclass(frozen=True)
class Interval:
    """A point estimate and the ends of its 95 % percentile interval, in the scores' unit."""

    point: float
    low: float
    high: float


def interval(scores: np.ndarray, statistic: Statistic = "mean", *, what: str = "score") -> Interval:
    """Interval of `scores` [runs, tasks] (or [runs]: one task); runs are resampled within each task.

    Raises `DataError`, naming `what`, for fewer than two runs and for scores that are not finite.
    """
    scores = np.asarray(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    point, low, high = _estimate(scores[:, :, None], statistic, RESAMPLES, what)
    return Interval(float(point[0]), float(low[0]), float(high[0]))


def curve_interval(
    scores: np.ndarray, statistic: Statistic = "mean", *, what: str = "curve"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Point estimate, lower and upper ends, each [points], of `scores` [runs, tasks, points]; errors as `interval`."""
    return _estimate(np.asarray(scores, np.float64), statistic, CURVE_RESAMPLES, what)


def _estimate(
    scores: np.ndarray, statistic: Statistic, resamples: int, what: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if scores.ndim != 3 or 0 in scores.shape:
        raise DataError(f"{what} has scores of shape {scores.shape}; they must be [runs, tasks, points], none empty")
    if scores.shape[0] < 2:
        raise DataError(f"{what} has one run a task; an interval needs at least two (run more seeds)")
    if not np.isfinite(scores).all():
        raise DataError(f"{what} has {int((~np.isfinite(scores)).sum())} scores that are not finite numbers")

    def aggregate(sample: np.ndarray) -> np.ndarray:
        if statistic == "mean":
            return sample.mean(axis=(0, 1))
        ordered = np.sort(sample.reshape(-1, sample.shape[-1]), axis=0)
        cut = len(ordered) // 4
        return ordered[cut : len(ordered) - cut].mean(axis=0)

    with _global_seed(_SEED):
        points, intervals = library.get_interval_estimates({"ours": scores}, aggregate, reps=resamples)
    low, high = intervals["ours"]
    return points["ours"], low, high


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Fix NumPy's global generator within the block: rliable draws from it, whatever `random_state` it is given."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
