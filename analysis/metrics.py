"""Loading a result directory: `data.csv` (tidy rows), `runs.json` (what ran) and `figure.json` (what is shown)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = (
    "figure",
    "run_id",
    "system",
    "env",
    "algorithm",
    "scale",
    "seed",
    "x_name",
    "x",
    "metric",
    "value",
    "unit",
)


class DataError(ValueError):
    """The result files cannot be used; the message is one sentence that says what is wrong and where."""


@dataclass(frozen=True)
class Result:
    """One result directory, checked."""

    directory: Path
    figure: Mapping[str, Any]
    runs: list[dict[str, Any]]
    data: pd.DataFrame
    """Columns `COLUMNS`; `value` float64 and finite, `x` float64 (NaN where `x_name` is empty), `seed` int64."""


def load(directory: Path) -> Result:
    """Read and check a result directory; raises `DataError` for a missing file, column or number."""
    for name in ("figure.json", "runs.json", "data.csv"):
        if not (directory / name).is_file():
            raise DataError(f"{directory / name} is missing; run `python -m reproductions {directory.name}` first")
    figure = json.loads((directory / "figure.json").read_text())
    runs = json.loads((directory / "runs.json").read_text())
    return Result(directory, figure, runs, read_rows(directory / "data.csv"))


def read_rows(path: Path) -> pd.DataFrame:
    """Read tidy rows; raises `DataError` where a column lacks or a value is not a finite number."""
    words = ["figure", "run_id", "system", "env", "algorithm", "x_name", "metric", "unit"]
    data = pd.read_csv(path, dtype=dict.fromkeys(words, str), keep_default_na=False, na_values={"x": [""]})
    if tuple(data.columns) != COLUMNS:
        raise DataError(f"{path} has the columns {', '.join(data.columns)}; it must have {', '.join(COLUMNS)}")
    for column in ("value", "x", "scale", "seed"):
        data[column] = pd.to_numeric(data[column], errors="coerce")
    bad = ~np.isfinite(data["value"]) | (~np.isfinite(data["x"]) & (data["x_name"] != "")) | data["seed"].isna()
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        metric, run, value, x = (data[c].iloc[i] for c in ("metric", "run_id", "value", "x"))
        raise DataError(
            f"{path} line {i + 2}: {metric} of run {run} has the value {value} at x {x}; every score must be a finite "
            "number"
        )
    data["seed"] = data["seed"].astype(np.int64)
    return data


def select(data: pd.DataFrame, conditions: Mapping[str, Any]) -> pd.DataFrame:
    """Rows whose columns equal all of `conditions`."""
    chosen = np.ones(len(data), bool)
    for column, wanted in conditions.items():
        chosen &= (data[column] == wanted).to_numpy()
    return data.iloc[np.flatnonzero(chosen)]


def by_seed(data: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """The rows of each seed, ordered by x."""
    seeds = sorted(set(data["seed"].astype(int)))
    return [(seed, select(data, {"seed": seed}).sort_values("x")) for seed in seeds]


def x_values(data: pd.DataFrame) -> list[float]:
    """The different x, ascending."""
    return sorted({float(x) for x in data["x"]})


def seed_values(data: pd.DataFrame) -> np.ndarray:
    """Values [seeds] ordered by seed, one for each; raises `DataError` where a seed has several rows."""
    groups = by_seed(data)
    for seed, rows in groups:
        if len(rows) > 1:
            metric, system = rows["metric"].iloc[0], rows["system"].iloc[0]
            raise DataError(f"{metric} of {system} has {len(rows)} rows for seed {seed}; it must have one")
    return np.array([rows["value"].iloc[0] for _, rows in groups], np.float64)


def curves(data: pd.DataFrame, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Bring the curves of several seeds onto one x axis.

    `data` holds one metric of one system. Returns x [P] over the range that all seeds cover and values [seeds, P],
    linearly interpolated. Raises `DataError` where the seeds' ranges do not overlap.
    """
    runs = [rows for _, rows in by_seed(data)]
    low, high = max(g["x"].iloc[0] for g in runs), min(g["x"].iloc[-1] for g in runs)
    if not low < high:
        metric, x_name = data["metric"].iloc[0], data["x_name"].iloc[0]
        raise DataError(f"the curves of {metric} share no range of {x_name}: {low:g} to {high:g}")
    x = np.linspace(low, high, points)
    return x, np.stack([np.interp(x, g["x"], g["value"]) for g in runs])
