"""`single-machine-throughput`: unique env steps a second that the trainer consumes on Pong, over actors and placements.

The paper's table of single-machine throughput (experiment 1 of its evaluation) compares libraries on one machine with
one GPU. Runs are interleaved seed by seed, each seed with its own measurement of the machine's limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproductions.pipeline.rundir import finite, read_lines, read_metadata
from reproductions.pipeline.spec import Collected, Cost, FigureSpec, Panel, Plot, Profile, Row, RunSpec, TableRow
from srl_core.base.errors import RunError
from srl_core.config import BudgetConfig, EvaluationConfig, LoggingConfig

INLINE, REMOTE, LIMIT = "inline inference", "policy worker", "machine limit"
_SYSTEMS = {"inline": INLINE, "policy_worker": REMOTE}
_FRAME_SKIP = 4


@dataclass(frozen=True)
class _Window:
    """When a run's throughput is counted."""

    warmup: float
    """Seconds left out at the start."""
    least: float
    """Seconds that the counting must span at least, between the first and the last update after the warm-up."""
    slack: float
    """Further seconds a run lasts, so that updates, which take a while, span as much."""
    limit: float
    """CPU-seconds that each part of the machine's limit is measured for."""
    updates: int = 0
    """Where not 0, a run ends after so many updates instead, however long it takes to start."""

    @property
    def budget(self) -> BudgetConfig:
        """How long a run lasts."""
        if self.updates:
            return BudgetConfig(updates=self.updates)
        return BudgetConfig(seconds=self.warmup + self.least + self.slack)


_WINDOWS = {
    "smoke": _Window(0.0, 1.0, 0.0, 0.3, updates=10),
    "desk": _Window(15.0, 30.0, 8.0, 4.0),
    "node": _Window(30.0, 60.0, 10.0, 10.0),
    "cluster": _Window(30.0, 60.0, 10.0, 10.0),
}
_ACTORS = {
    "smoke": (1,),
    "desk": (1, 2, 3, 4),
    "node": (1, 2, 4, 8, 16, 32),
    "cluster": (1, 2, 4, 8, 16, 32, 64, 128, 224),
}


def expand(profile: Profile, seed: int) -> list[RunSpec]:
    """The limit once, then each number of actors in both placements."""
    from reproductions.presets.atari import atari_ppo
    from srl_core.bench.throughput import placements

    window = _WINDOWS[profile]
    base = replace(
        atari_ppo(game="Pong", profile=profile),
        seed=seed,
        evaluation=EvaluationConfig(),
        budget=window.budget,
        logging=LoggingConfig(interval_seconds=0.5),
    )
    alone = replace(base, name="limit", budget=BudgetConfig(seconds=window.limit))
    runs = [RunSpec("limit", seed, LIMIT, "atari_pong", "PPO", alone, "limit")]
    for count in _ACTORS[profile]:
        for placement, placed in placements(base).items():
            slug = f"pong-{placement.replace('_', '-')}-{count}"
            experiment = replace(placed, name=slug, actor=replace(placed.actor, count=count))
            system = _SYSTEMS[placement]
            runs.append(RunSpec(slug, seed, system, "atari_pong", "PPO", experiment, x_name="actors", x=count))
    return runs


def in_window(lines: Sequence[dict[str, Any]], warmup: float, least: float, where: Path) -> tuple[dict, dict]:
    """First and last line after the warm-up; raises `RunError` where they lie less than `least` seconds apart."""
    chosen = [line for line in lines if line["t"] >= warmup]
    if not chosen or chosen[-1]["t"] - chosen[0]["t"] < least:
        span = chosen[-1]["t"] - chosen[0]["t"] if chosen else 0.0
        raise RunError(f"{where} has {span:.1f} s of records after its warm-up of {warmup:g} s; it needs {least:g} s")
    return chosen[0], chosen[-1]


def measure(run: RunSpec, run_dir: Path, window: _Window, limit: float) -> list[Row]:
    """Throughput between two updates, so that no batch is counted in part; CPU use between two progress records."""
    first, last = in_window(read_lines(run_dir, "train"), window.warmup, window.least, run_dir)
    throughput = (last["env_steps"] - first["env_steps"]) / (last["t"] - first["t"])
    first, last = in_window(read_lines(run_dir, "progress"), window.warmup, window.least, run_dir)
    busy = finite(last, "cpu_seconds", run_dir) - finite(first, "cpu_seconds", run_dir)
    cores = read_metadata(run_dir)["hardware"]["cores"]
    return [
        Row(run, "training_throughput", throughput),
        Row(run, "limit_ratio", throughput / limit),
        Row(run, "cpu_use", busy / (last["t"] - first["t"]) / cores),
    ]


def read_limit(run_dir: Path) -> dict[str, float]:
    """limit.json of a run that measured the machine; raises `RunError` where a number is missing or not above zero."""
    path = run_dir / "limit.json"
    try:
        data = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    for name in ("simulation", "inference", "training", "limit"):
        value = data.get(name)
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
            raise RunError(f"{path}: {name} is {value!r}; it must be a number above zero")
    return data


def collect(runs: Collected, profile: Profile) -> list[Row]:
    """Measurements of all runs, each against the limit of its own seed."""
    limits = {run.seed: read_limit(path) for run, path in runs if run.system == LIMIT}
    rows = []
    for run, path in runs:
        if run.system == LIMIT:
            rows += [
                Row(run, name, limits[run.seed][name]) for name in ("simulation", "inference", "training", "limit")
            ]
        else:
            rows += measure(run, path, _WINDOWS[profile], limits[run.seed]["limit"])
    return rows


def deviations(profile: Profile) -> list[str]:
    """How this differs from the paper."""
    window = _WINDOWS[profile]
    sentences = [
        "Throughput here is unique env steps that the trainer consumed, each counted once, whatever its overlap or "
        f"reuse, over at least {window.least:g} s after {window.warmup:g} s of warm-up. The paper's unit is not "
        f"stated (frames or env steps; one env step is {_FRAME_SKIP} frames), and its code counts overlapping and "
        "reused steps again: the ratio is given for both readings.",
        "The paper's values come from third-party notes and lack their number of cores; the hardware is one node of "
        "the authors' cluster as their code repository describes it.",
        "Sample Factory and SEED RL are not run in this figure; `make bench-peers` compares with the former.",
        "The machine's limit is cores / (1/a + 1/b + 1/c), a, b and c being the env steps per core-second of "
        "simulation, inference and gradient steps alone; the paper has no such line.",
    ]
    if profile in ("smoke", "desk"):
        sentences.append(
            "Simulation, inference and training share a few CPU cores, with a small network without recurrence; the "
            "paper's machine has a GPU, and its Pong benchmark a recurrent network."
        )
    return sentences


def _rows() -> tuple[TableRow, ...]:
    readings = {"env steps": 1.0, "frames": float(_FRAME_SKIP)}
    rising = {"better": "higher", "trend": {"rising": True}}

    def throughput(setting: str, system: str, paper: str | None) -> TableRow:
        query = {"system": paper, "env": "atari_pong", "metric": "training_throughput"} if paper else None
        select = {"system": system, "env": "atari_pong"}
        return TableRow(setting, "training_throughput", select, query, rising, best=True, readings=readings)

    def share(system: str) -> TableRow:
        select = {"system": system, "env": "atari_pong"}
        rule = {"better": "higher", "goal": 0.9}
        return TableRow(f"share of the machine's limit, {system}", "limit_ratio", select, None, rule, best=True)

    limit = {"system": LIMIT, "env": "atari_pong"}
    return (
        throughput("SRL, policy worker over shared memory (the paper's placement)", REMOTE, "SRL"),
        throughput("SRL, inline inference", INLINE, None),
        throughput("Sample Factory", "SampleFactory", "SampleFactory"),
        throughput("SEED RL", "SeedRL", "SeedRL"),
        TableRow("this machine's limit", "limit", limit, None, {"better": "higher"}),
        share(REMOTE),
        share(INLINE),
    )


def _panel(metric: str, y_label: str, limit: str, legend: str) -> Panel:
    label = "limit of this machine" if limit else ""
    return Panel(metric, "actors", "actors", y_label, limit=limit, limit_label=label, legend=legend)


FIGURE = FigureSpec(
    name="single-machine-throughput",
    title="Training throughput on one machine, Pong",
    reference="The paper's comparison of training throughput on a single machine, its row for Atari Pong.",
    expand=expand,
    collect=collect,
    costs={
        "smoke": Cost(cores=2, minutes=0.2, memory_gib=4),
        "desk": Cost(cores=2, minutes=1.1, memory_gib=6),
        "node": Cost(cores=32, minutes=2, memory_gib=64),
        "cluster": Cost(cores=224, minutes=2, memory_gib=256, gpus=1),
    },
    seeds={"smoke": 2, "desk": 3, "node": 3, "cluster": 3},
    units={
        "training_throughput": "env steps/s",
        "limit": "env steps/s",
        "limit_ratio": "of the limit",
        "cpu_use": "share of all cores",
        "simulation": "env steps/core-s",
        "inference": "env steps/core-s",
        "training": "env steps/core-s",
    },
    plot=Plot(
        "throughput",
        (
            _panel("training_throughput", "training throughput [unique env steps/s]", "limit", "lower right"),
            _panel("cpu_use", "CPU use [share of all cores]", "", "lower right"),
        ),
    ),
    table=_rows(),
    deviations=deviations,
    paper_values="single_machine_throughput.csv",
    paper_figure="single_machine",
    resumes=False,
)
