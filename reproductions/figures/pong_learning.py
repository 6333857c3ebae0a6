"""`pong-learning`: the return of PPO on Atari Pong while it trains, over env steps and over wall-clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reproductions.pipeline.rundir import finite, read_lines
from reproductions.pipeline.spec import Collected, Cost, FigureSpec, Panel, Plot, Profile, Row, RunSpec, TableRow
from srl_core.base.errors import RunError

GOAL = 18.0
"""Mean return of a whole game at which Pong counts as learned; 21 is the most that a game can give."""
_GAMES = {"smoke": 1, "desk": 10, "node": 10, "cluster": 10}
"""Least whole games of a mean return that the table shows."""
_SELECT = {"system": "SRL", "env": "atari_pong"}


def expand(profile: Profile, seed: int) -> list[RunSpec]:
    """One training run."""
    from reproductions.presets.atari import atari_ppo

    experiment = replace(atari_ppo(game="Pong", profile=profile), seed=seed, name="pong-ppo")
    return [RunSpec("pong-ppo", seed, "SRL", "atari_pong", "PPO", experiment)]


def pooled_return(evaluations: Sequence[dict[str, Any]], games: int) -> float | None:
    """Mean return of all games of the last evaluations that together hold at least `games`; None if all hold fewer."""
    returns: list[float] = []
    for line in reversed(evaluations):
        returns += line["returns"]
        if len(returns) >= games:
            return sum(returns) / len(returns)
    return None


def measure(run: RunSpec, run_dir: Path, games: int) -> list[Row]:
    """Curves and end points of one run; raises `RunError` where it played fewer than `games` whole games."""
    evaluations = read_lines(run_dir, "evaluation")
    if len(evaluations) < 2:
        raise RunError(f"{run_dir} has {len(evaluations)} evaluations; a learning curve needs at least 2")
    rows = []
    reached = None
    for i, line in enumerate(evaluations, 1):
        value, minutes, steps = finite(line, "return_mean", run_dir), line["t"] / 60, line["env_steps"]
        rows += [Row(run, "return_mean", value, "env_steps", steps), Row(run, "return_mean", value, "minutes", minutes)]
        pooled = pooled_return(evaluations[:i], games)
        if reached is None and pooled is not None and pooled >= GOAL:
            reached = [Row(run, "env_steps_to_goal", steps), Row(run, "minutes_to_goal", minutes)]
    final = pooled_return(evaluations, games)
    if final is None:
        raise RunError(f"{run_dir} has evaluated fewer than {games} whole games")
    gain = final - finite(evaluations[0], "return_mean", run_dir)
    return [*rows, Row(run, "final_return", final), Row(run, "return_gain", gain), *(reached or [])]


def collect(runs: Collected, profile: Profile) -> list[Row]:
    """Measurements of all runs."""
    return [row for run, path in runs for row in measure(run, path, _GAMES[profile])]


def deviations(profile: Profile) -> list[str]:
    """How this differs from the paper."""
    sentences = [
        "The paper names no return for Pong (it uses the game for throughput), so the table has no value of it to "
        f"compare with; the goal of {GOAL:g} is this repository's own.",
        "Returns are of whole games (all points to 21, no life or reward clipping), played by frozen versions with "
        "sampled actions beside the training; no game of theirs is trained on.",
        f"A mean return in the table pools the newest evaluations that together hold at least {_GAMES[profile]} whole "
        "games; the time to the goal is that of the first such pool whose mean reaches it.",
    ]
    if profile in ("smoke", "desk"):
        sentences.append(
            "The network (two small convolutions), the number of environments and the minibatch are chosen for a few "
            "CPU cores; the paper trains on GPUs with a larger network."
        )
    return sentences


def _panel(x_name: str, x_label: str) -> Panel:
    return Panel(
        metric="return_mean",
        x_name=x_name,
        x_label=x_label,
        y_label="mean return of an evaluation",
        goal=GOAL,
        goal_label=f"goal {GOAL:g}",
        legend="lower right",
    )


FIGURE = FigureSpec(
    name="pong-learning",
    title="PPO learns Pong",
    reference="Learning on Atari with PPO, the setting behind the paper's throughput experiments on Pong.",
    expand=expand,
    collect=collect,
    costs={
        "smoke": Cost(cores=2, minutes=0.4, memory_gib=4),
        "desk": Cost(cores=2, minutes=29, memory_gib=6),
        "node": Cost(cores=32, minutes=15, memory_gib=32),
        "cluster": Cost(cores=128, minutes=15, memory_gib=128, gpus=1),
    },
    seeds={"smoke": 2, "desk": 3, "node": 5, "cluster": 5},
    units={
        "return_mean": "points a game",
        "final_return": "points a game",
        "return_gain": "points a game",
        "env_steps_to_goal": "env steps",
        "minutes_to_goal": "minutes",
    },
    plot=Plot(
        "learning",
        (
            _panel("env_steps", "env steps consumed by the trainer (4 frames each)"),
            _panel("minutes", "wall-clock of training [minutes]"),
        ),
    ),
    table=(
        TableRow(
            "mean evaluation return at the end",
            "final_return",
            _SELECT,
            None,
            {"better": "higher", "goal": GOAL, "trend": {"positive": "return_gain"}},
        ),
        TableRow(f"env steps until it is {GOAL:g}", "env_steps_to_goal", _SELECT, None, {"better": "lower"}),
        TableRow(
            f"wall-clock until it is {GOAL:g}", "minutes_to_goal", _SELECT, None, {"better": "lower", "goal": 30.0}
        ),
    ),
    deviations=deviations,
)
