"""Plays an environment and cuts its trajectories as an actor does, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from srl_core.api import EpisodeEnd, PolicySpec, SampleSpec, VectorEnvironment
from srl_core.base.arrays import Arrays, ArraySpec
from srl_core.workers.trajectories import TrajectoryBuilder


@dataclass
class Collected:
    """What `collect` gathered."""

    rows: list[list[tuple]]
    """For each row its steps, one after another: observation (tuple), reward, terminated, truncated, first, valid."""
    episodes: list[EpisodeEnd] = field(default_factory=list)
    env_steps: int = 0


def collect(environment: VectorEnvironment, ticks: int, *, seed: int = 0, sample_steps: int = 5) -> Collected:
    """Play `ticks` steps with zero actions through a real trajectory builder; `vector` is the observation."""
    spec = environment.spec
    policy = PolicySpec(spec.observation, {}, ArraySpec((spec.action.dims,), spec.action.dtype))
    result = Collected([[] for _ in range(spec.rows)])

    def emit(sample: Arrays) -> None:
        for column in range(sample["reward"].shape[1]):
            for t in range(sample_steps):  # the bootstrap step comes again as the next sample's first
                names = ("reward", "terminated", "truncated", "first", "valid")
                step = tuple(sample[name][t, column].item() for name in names)
                seen = tuple(sample["observation.vector"][t, column].tolist())
                result.rows[sample["version"][t, column]].append((seen, *step))

    builder = TrajectoryBuilder(SampleSpec.make(policy, sample_steps=sample_steps), spec.rows, "chunks", emit)

    def record(rows: np.ndarray, observation: Arrays, first: np.ndarray, valid: np.ndarray) -> None:
        n = len(rows)
        request = {**{f"observation.{name}": array for name, array in observation.items()}, "first": first}
        reply = {
            "action": np.zeros((n, spec.action.dims), spec.action.dtype),
            "log_prob": np.zeros(n, np.float32),
            "value": np.zeros(n, np.float32),
            "version": rows,  # a sample does not say which row it is of: here its version does
        }
        builder.record(None if n == spec.rows else rows, request, reply, valid, valid.astype(np.float32))

    tick = environment.reset(seed)
    for _ in range(ticks):
        present = tick.active | tick.terminated | tick.truncated
        if tick.final_rows is not None:
            assert tick.final_observation is not None
            none = np.zeros(len(tick.final_rows), bool)
            record(tick.final_rows, tick.final_observation, none, none)
            present = tick.active
        rows = np.flatnonzero(present)
        observation = {name: array[rows] for name, array in tick.observation.items()}
        if len(rows):
            record(rows, observation, tick.first[rows], tick.active[rows])
        environment.send(np.zeros((spec.rows, spec.action.dims), spec.action.dtype))
        tick = environment.recv()
        builder.outcome(tick.reward, tick.terminated, tick.truncated)
        result.episodes += tick.episodes
        result.env_steps += tick.env_steps
    return result
