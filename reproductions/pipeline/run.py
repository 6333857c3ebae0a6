"""Running a figure: skip what is finished, resume what was killed, run the rest one after another, collect."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from reproductions.pipeline.collect import collect
from reproductions.pipeline.rundir import State, read_metadata, state_of
from reproductions.pipeline.spec import FigureSpec, Profile, RunSpec
from srl_core.base.errors import RunError, UserError

Runner = Callable[[RunSpec, Path], None]
"""Performs one run in its directory and returns when it has ended; resumes where the directory holds a part of it."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a command would do."""

    spec: FigureSpec
    profile: Profile
    runs: tuple[tuple[RunSpec, Path], ...]
    """Each run and its directory, in the order in which they run."""
    results: Path
    """Where the result files go."""
    command: str


def plan(spec: FigureSpec, profile: str, seeds: int | None, runs_dir: Path, results_dir: Path | None) -> Plan:
    """Expand the figure; raises `UserError` for a profile, a number of seeds or a directory that cannot be."""
    count = spec.seeds.get(profile, 0) if seeds is None else seeds
    runs = spec.runs(profile, count)
    if count < 2:
        raise UserError(f"--seeds is {count}; it must be at least 2, since an interval needs two runs")
    command = f"make reproduce-{spec.name} PROFILE={profile} SEEDS={count}"
    if profile == "smoke":
        if results_dir is not None:
            raise UserError(f"--results-dir is {str(results_dir)!r}; the smoke profile writes under --runs-dir only")
        home = runs_dir / "smoke" / spec.name
        results = home / "results" / spec.name
    else:
        home = runs_dir / spec.name
        results = (results_dir or Path("results")) / spec.name
    return Plan(spec, cast(Profile, profile), tuple((run, home / run.id) for run in runs), results, command)


def describe(plan: Plan) -> list[str]:
    """The runs with their states, and what they cost, one line each."""
    cost = plan.spec.costs[plan.profile]
    states: list[tuple[RunSpec, State]] = [(run, state_of(path)) for run, path in plan.runs]
    left = sum(state != "finished" for _, state in states)
    minutes = cost.minutes * left
    width = max(len(run.id) for run, _ in plan.runs)
    memory = f"{cost.memory_gib:g} GiB memory"
    return [
        f"{plan.spec.name}, {plan.profile} profile: {len(plan.runs)} runs, {left} of them to do",
        *(f"  {run.id:{width}}  {_word(plan, state)}" for run, state in states),
        f"each: {cost.cores} cores, {cost.gpus} GPUs, {memory}, about {cost.minutes:g} min",
        f"left: about {minutes:g} min of wall-clock, {cost.cores * minutes / 60:.3g} core-hours",
        f"results: {plan.results}",
    ]


def execute(plan: Plan, runner: Runner, say: Say) -> None:
    """Run what is not finished, then write the result files.

    Raises `UserError` where this machine has fewer cores than a node or cluster profile asks for, and `RunError`
    where a run does not complete; calling again goes on from there.
    """
    cost, cores = plan.spec.costs[plan.profile], len(os.sched_getaffinity(0))
    if plan.profile in ("node", "cluster") and cost.cores > cores:
        raise UserError(
            f"the {plan.profile} profile of {plan.spec.name} asks for {cost.cores} cores and this machine offers "
            f"{cores}; use the desk profile, or --dry-run to see the plan"
        )
    if plan.profile == "smoke":  # thrown away and made anew each time
        shutil.rmtree(plan.runs[0][1].parent, ignore_errors=True)
    for i, (run, path) in enumerate(plan.runs, 1):
        state = state_of(path)
        say(f"[{i}/{len(plan.runs)}] {run.id}: {_word(plan, state)}")
        if state == "finished":
            continue
        if state == "unfinished" and not plan.spec.resumes:
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        runner(run, path)
        if state_of(path) != "finished":
            status = read_metadata(path).get("status")
            raise RunError(f"run {run.id} ended as {status!r}, not completed; the same command goes on from there")
    collect(plan.spec, plan.runs, plan.profile, plan.command, plan.results)


def _word(plan: Plan, state: State) -> str:
    if state == "finished":
        return "finished, skipped"
    if state == "unfinished":
        return "resumes" if plan.spec.resumes else "starts anew"
    return "runs"
