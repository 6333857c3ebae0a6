"""Samples made by rolling a policy over random observations, with episode ends where a test wants them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srl_core.api import ActionSpec, EnvironmentSpec, PolicySpec, SampleBatch, SampleSpec
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import Arrays, ArraySpec


def vector_environment(action: ActionSpec, size: int = 5, *, masked: bool = False) -> EnvironmentSpec:
    observation = {"x": ArraySpec((size,), "float32")}
    if masked:
        observation[ACTION_MASK] = ArraySpec((sum(action.nvec),), "bool")
    return EnvironmentSpec(1, ("agent",), observation, action)


def frame_environment(actions: int, size: int = 84) -> EnvironmentSpec:
    observation = {"frame": ArraySpec((4, size, size), "uint8")}
    return EnvironmentSpec(1, ("agent",), observation, ActionSpec((actions,)), 4, {"frame": 4})


def random_ends(
    random: np.random.Generator, length: int, columns: int, rate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`terminated`, `truncated`, `first` and `valid` [L, B] of episodes that end with probability `rate` a step."""
    terminated, truncated, first = (np.zeros((length, columns), bool) for _ in range(3))
    valid = np.ones((length, columns), bool)
    for b in range(columns):
        first[0, b] = random.random() < 0.5
        t = 0
        while t < length:
            if random.random() < rate:
                (terminated if random.random() < 0.5 else truncated)[t, b] = True
                if t + 1 < length:
                    valid[t + 1, b] = False
                if t + 2 < length:
                    first[t + 2, b] = True
                t += 2
            else:
                t += 1
    return terminated, truncated, first, valid


def observe(random: np.random.Generator, spec: PolicySpec, columns: int) -> Arrays:
    """One step's observations [B, ...]; masks leave at least one action legal."""
    arrays: Arrays = {}
    for name, s in spec.observation.items():
        shape = (columns, *s.shape)
        if s.dtype == "uint8":
            arrays[name] = random.integers(0, 256, shape, dtype=np.uint8)
        elif s.dtype == "bool":
            arrays[name] = random.random(shape) < 0.6
            arrays[name][np.arange(columns), random.integers(0, s.shape[0], columns)] = True
        else:
            arrays[name] = random.normal(size=shape).astype(np.float32)
    return arrays


def rollout(
    policy,
    random: np.random.Generator,
    *,
    steps: int,
    columns: int,
    burn_in: int = 0,
    end_rate: float = 0.1,
    resets: list[int] | None = None,
    environment: EnvironmentSpec,
) -> SampleBatch:
    """A sample of `policy` acting; with `resets`, episodes of column b begin at the steps `resets[b::B]` instead.

    Recurrent state before the first step is random, as in the midst of an episode.
    """
    stacks = environment.frame_stacks
    spec = SampleSpec.make(policy.spec, sample_steps=steps, burn_in_steps=burn_in, frame_stacks=stacks)
    arrays = spec.empty(columns)
    if resets is None:
        ends = random_ends(random, spec.length, columns, end_rate)
    else:
        ends = tuple(np.zeros((spec.length, columns), bool) for _ in range(4))
        ends[3][:] = True
        for i, t in enumerate(resets):
            ends[2][t, i % columns] = True
            if t >= 2:
                ends[3][t - 1, i % columns] = False
                ends[1][t - 2, i % columns] = True
    arrays["terminated"], arrays["truncated"], arrays["first"], arrays["valid"] = ends
    state = {n: random.normal(size=(columns, *s.shape)).astype(np.float32) for n, s in policy.spec.state.items()}
    stacked = {name: np.zeros((columns, *policy.spec.observation[name].shape), np.uint8) for name in stacks}
    for name, k in stacks.items():  # frames from before the sample
        stacked[name][:, 1:] = random.integers(0, 256, stacked[name][:, 1:].shape)
        arrays[f"observation.{name}"][: k - 1] = np.moveaxis(stacked[name][:, 1:], 1, 0)
    for t in range(spec.length):
        observation = observe(random, policy.spec, columns)
        first = arrays["first"][t]
        for name, k in stacks.items():
            frame = observation[name][:, 0]
            stacked[name] = np.concatenate([stacked[name][:, 1:], frame[:, None]], 1)
            stacked[name][first, : k - 1] = 0
            arrays[f"observation.{name}"][t + k - 1] = frame
            observation[name] = stacked[name].copy()
        noise = random.random((columns, *policy.spec.action.shape), dtype=np.float32)
        request = {f"observation.{n}": a for n, a in observation.items()}
        request |= {f"state.{n}": a for n, a in state.items()}
        reply = policy.act({**request, "first": first, "noise": noise})
        for name, a in request.items():
            if name.removeprefix("observation.") not in stacks:
                arrays[name][t] = a
        for name in ("action", "log_prob", "value"):
            arrays[name][t] = reply[name]
        state = {n: reply[f"state.{n}"] for n in state}
    arrays["reward"][:] = random.normal(size=arrays["reward"].shape)
    arrays["env_steps"][:] = arrays["valid"]
    return SampleBatch(arrays, spec)


def again(batch: SampleBatch) -> SampleBatch:
    """The batch as it comes back for its second use."""
    return replace(batch, uses=batch.uses + 1)
