"""Samples: what actors send to trainers.

A sample is a flat dict of arrays [L, n, ...]: n trajectories of L = burn_in + sample + bootstrap steps. Step t holds

    observation.*   what the agent saw                     state.*     recurrent state before the step
    action, log_prob, value                                version     policy version that acted
    reward          that followed the action               terminated, truncated   what followed the action
    first           the observation began an episode       valid       an action was taken here
    env_steps       this record's share of an env step: the shares of one environment's agents sum to one

The final observation of an episode is a step of its own with `valid` false: it carries no loss, only the value that a
truncation bootstraps from. The next step begins the next episode with `first` set. A padded step is not valid either.
Consecutive samples of one row overlap by burn_in + bootstrap steps; `env_steps` is to be summed over the sample part.

Fields named in `SampleSpec.stacks` travel unstacked: single frames [L + k - 1, n, ...]; the stack of step t are frames
t .. t + k - 1, those from before the episode's first step being zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from srl_core.api.policy import PolicySpec
from srl_core.base.arrays import Arrays, ArraySpec, Schema, block_nbytes, block_views, with_prefix


@dataclass(frozen=True)
class SampleSpec:
    """Schema and cutting of the samples of one stream."""

    schema: Schema
    """Of one step; stacked fields without their stack axis."""
    sample_steps: int
    bootstrap_steps: int = 1
    burn_in_steps: int = 0
    stacks: Mapping[str, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """L."""
        return self.burn_in_steps + self.sample_steps + self.bootstrap_steps

    def leading(self, columns: int) -> dict[str, tuple[int, ...]]:
        """Leading shape [L or L + k - 1, columns] of each field."""
        return {name: (self.length + self.stacks.get(name, 1) - 1, columns) for name in self.schema}

    def empty(self, columns: int) -> Arrays:
        """Zeroed arrays of a sample of `columns` trajectories, in one block: streams copy that at once."""
        leading = self.leading(columns)
        return block_views(np.zeros(block_nbytes(self.schema, leading), np.uint8).data, 0, self.schema, leading)

    @classmethod
    def make(
        cls,
        policy: PolicySpec,
        *,
        sample_steps: int,
        bootstrap_steps: int = 1,
        burn_in_steps: int = 0,
        frame_stacks: Mapping[str, int] | None = None,
    ) -> SampleSpec:
        """The spec of samples for `policy`; `frame_stacks` as in `EnvironmentSpec`."""
        stacks = {f"observation.{name}": k for name, k in (frame_stacks or {}).items()}
        schema = {
            **with_prefix("observation", policy.observation),
            **with_prefix("state", policy.state),
            "action": policy.action,
            "log_prob": ArraySpec((), "float32"),
            "value": ArraySpec((), "float32"),
            "reward": ArraySpec((), "float32"),
            "terminated": ArraySpec((), "bool"),
            "truncated": ArraySpec((), "bool"),
            "first": ArraySpec((), "bool"),
            "valid": ArraySpec((), "bool"),
            "env_steps": ArraySpec((), "float32"),
            "version": ArraySpec((), "int64"),
        }
        for name, k in stacks.items():
            if schema[name].shape[:1] != (k,):
                raise ValueError(f"{name} is said to stack {k} frames, but its shape is {list(schema[name].shape)}")
            schema[name] = ArraySpec(schema[name].shape[1:], schema[name].dtype)
        return cls(schema, sample_steps, bootstrap_steps, burn_in_steps, stacks)


@dataclass
class SampleBatch:
    """[L, B] trajectories that the trainer gets: arrays as in the module's docstring, B columns."""

    arrays: Arrays
    spec: SampleSpec
    reuses_left: int = 0
    """How often it may be trained on after this time."""
    uses: int = 0
    """How often it was trained on before."""

    @property
    def columns(self) -> int:
        """B."""
        return self.arrays["reward"].shape[1]

    def sample_part(self, name: str) -> np.ndarray:
        """The steps that are this sample's own: [sample_steps, B, ...]; for unstacked fields only."""
        start = self.spec.burn_in_steps
        return self.arrays[name][start : start + self.spec.sample_steps]

    def env_steps(self) -> float:
        """Unique env steps in it."""
        return float(self.sample_part("env_steps").sum(dtype=np.float64))

    def oldest_version(self) -> int:
        """Smallest policy version among valid steps of the sample part; -1 where none is valid."""
        valid = self.sample_part("valid")
        return int(self.sample_part("version")[valid].min()) if valid.any() else -1
