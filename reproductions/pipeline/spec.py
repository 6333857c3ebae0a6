"""What a figure or table of the paper is made of: runs, costs, measurements, the table's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from srl_core.base.errors import UserError
from srl_core.base.registry import nearest
from srl_core.config import Experiment, config_hash

PROFILES = ("smoke", "desk", "node", "cluster")
Profile = Literal["smoke", "desk", "node", "cluster"]


@dataclass(frozen=True)
class RunSpec:
    """One run of a figure: one point of its grid with one seed."""

    slug: str
    """What the run is, as part of a directory's name."""
    seed: int
    system: str
    env: str
    algorithm: str
    experiment: Experiment
    """What is trained, or what the limit is measured for."""
    measures: Literal["training", "limit"] = "training"
    """training: the experiment is run. limit: what this machine's cores allow for it is measured instead."""
    scale: float = 1.0
    x_name: str = ""
    """Quantity of the figure's x axis that this run fixes, such as `actors`; empty where it fixes none."""
    x: float | None = None

    @property
    def config_hash(self) -> str:
        """Eight hex digits of all that the run depends on but the seed."""
        return config_hash(self.experiment)

    @property
    def id(self) -> str:
        """Slug, configuration's hash and seed: also the name of the run's directory."""
        return f"{self.slug}-{self.config_hash}-s{self.seed}"


@dataclass(frozen=True)
class Cost:
    """What one run of a profile takes."""

    cores: int
    minutes: float
    """Wall-clock of one run."""
    memory_gib: float
    gpus: int = 0


@dataclass(frozen=True)
class Row:
    """One tidy row; `x_name` and `x` are the run's own where they are not given."""

    run: RunSpec
    metric: str
    value: float
    x_name: str | None = None
    x: float | None = None


@dataclass(frozen=True)
class TableRow:
    """One row of the comparison table; `analysis` computes its cells."""

    setting: str
    metric: str
    select: Mapping[str, str]
    """Columns (`system`, `env`, `algorithm`) that choose the row's data."""
    paper: Mapping[str, str] | None
    """Columns that choose one line of the paper's values; None where the paper's value is not known."""
    rule: Mapping[str, Any]
    """`better` ("higher" or "lower"), and maybe `goal` (in our unit) and `trend`: see `analysis.verdict`."""
    best: bool = False
    """Take the x with the highest mean; otherwise the metric has one value a run."""
    readings: Mapping[str, float] | None = None
    """Where the paper's unit is not stated: what it may be, and our unit's factor to it."""
    statistic: Literal["mean", "iqm"] = "mean"


@dataclass(frozen=True)
class Panel:
    """One panel of a picture."""

    metric: str
    x_name: str
    x_label: str
    y_label: str
    goal: float | None = None
    goal_label: str = ""
    limit: str = ""
    """Metric that is drawn as a line."""
    limit_label: str = ""
    legend: str = "best"
    """Matplotlib's word for the legend's place."""


@dataclass(frozen=True)
class Plot:
    """A picture."""

    kind: Literal["learning", "throughput"]
    panels: tuple[Panel, ...]


Collected = Sequence[tuple[RunSpec, Path]]


@dataclass(frozen=True)
class FigureSpec:
    """A figure or table of the paper."""

    name: str
    title: str
    reference: str
    """Sentences: which part of the paper this is, and what it shows there."""
    expand: Callable[[Profile, int], list[RunSpec]]
    """Runs of one seed."""
    collect: Callable[[Collected, Profile], list[Row]]
    """Measurements from the directories of completed runs; raises `RunError` where a run lacks one."""
    costs: Mapping[str, Cost]
    seeds: Mapping[str, int]
    """Default number of seeds of each profile."""
    units: Mapping[str, str]
    """Unit of each metric."""
    plot: Plot
    table: tuple[TableRow, ...]
    deviations: Callable[[Profile], list[str]]
    """Sentences: how this differs from what the paper did."""
    paper_values: str = ""
    """File under `paper_values/`; empty where the paper gives no value."""
    paper_figure: str = ""
    """Value of that file's `figure` column, and of the hardware table's."""
    resumes: bool = True
    """Whether an unfinished run may be resumed; a benchmark starts anew, or its warm-up would count."""

    def runs(self, profile: str, seeds: int) -> list[RunSpec]:
        """Expand the grid for seeds 1..`seeds`, seed by seed, so that what is compared runs interleaved."""
        if profile not in PROFILES:
            raise UserError(f"unknown profile {profile!r}; {nearest(profile, list(PROFILES))}")
        runs = [run for seed in range(1, seeds + 1) for run in self.expand(profile, seed)]
        if len({run.id for run in runs}) != len(runs):
            raise ValueError(f"two runs of {self.name} have the same id")
        return runs
