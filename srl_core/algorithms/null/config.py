"""The null algorithm: acts at random, learns nothing, costs next to nothing; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from srl_core.api import AlgorithmConfig, EnvironmentSpec, PolicySpec, SampleBatch
from srl_core.base.arrays import Arrays, ArraySpec, Schema


@dataclass(frozen=True)
class NullAlgorithmConfig(AlgorithmConfig):
    """Random actions and no learning: what remains is the price of the dataflow itself."""

    kind: ClassVar[str] = "null"

    read_batches: bool = False
    """Sum every array of a batch, so that the trainer has read all that it was sent."""

    def validate(self, sample_steps: int, burn_in_steps: int) -> None:
        """Everything works with it."""

    def build_policy(self, environment: EnvironmentSpec, *, device: str, seed: int) -> NullPolicy:
        return NullPolicy(environment)

    def build(self, environment: EnvironmentSpec, *, device: str, seed: int) -> NullAlgorithm:
        return NullAlgorithm(NullPolicy(environment), read=self.read_batches)


class NullPolicy:
    """Actions from the request's noise; value 0."""

    def __init__(self, environment: EnvironmentSpec) -> None:
        action = environment.action
        self._nvec = np.array(action.nvec)
        self._low, self._span = action.low, action.high - action.low
        self.spec = PolicySpec(dict(environment.observation), {}, ArraySpec((action.dims,), action.dtype))

    def act(self, request: Arrays, *, greedy: bool = False) -> Arrays:
        noise = request["noise"]
        if len(self._nvec):
            action = (noise * self._nvec).astype(np.int64)
        else:
            action = (self._low + noise * self._span).astype(np.float32)
        zero = np.zeros(len(noise), np.float32)
        return {"action": action, "log_prob": zero, "value": zero}

    def evaluate(self, batch: SampleBatch) -> Arrays:
        shape = batch.arrays["reward"].shape
        return {"log_prob": np.zeros(shape), "value": np.zeros(shape)}

    def parameter_schema(self) -> Schema:
        return {"updates": ArraySpec((1,), "float32")}

    def read_parameters(self) -> Arrays:
        return {"updates": np.zeros(1, np.float32)}

    def write_parameters(self, parameters: Mapping) -> None:
        """There is nothing that acting depends on."""


class NullAlgorithm:
    """Counts what it is given."""

    def __init__(self, policy: NullPolicy, *, read: bool) -> None:
        self.policy = policy
        self.skip_reason = ""
        self._read = read

    def update(self, batch: SampleBatch) -> dict[str, float]:
        if self._read:
            for array in batch.arrays.values():
                array.sum()
        samples = float(batch.sample_part("valid").sum())
        return {"gradient_steps": 1.0, "gradient_samples": samples, "skipped": 0.0}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is nothing to load."""
