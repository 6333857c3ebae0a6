"""Algorithms: what the trainer runs.

The trainer's loop:

    algorithm = config.algorithm.build(policy_spec, device, seed)
    while budget:
        batch = queue.get()
        metrics = algorithm.update(batch)
        parameters.publish(algorithm.policy.read_parameters())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from srl_core.api.environment import EnvironmentSpec
from srl_core.api.policy import Policy
from srl_core.api.sample import SampleBatch


class Algorithm(Protocol):
    """Owns the trained policy and its optimizer."""

    @property
    def policy(self) -> Policy:
        """The policy that is trained; its parameters are those that the last update left."""
        ...

    @property
    def skip_reason(self) -> str:
        """What was not finite in the gradient step that was last skipped; empty where none was."""
        ...

    def update(self, batch: SampleBatch) -> dict[str, float]:
        """Train on `batch` (it may be kept until the call returns, not longer) and return metrics.

        Keys that the trainer reads: `gradient_steps`, `gradient_samples`, and `skipped` (gradient steps left out
        because something was not finite). On a batch's first use `batch.uses` is 0; on a later one advantages may be
        computed anew.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that resuming needs: nested dicts and lists of arrays, numbers and strings."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class AlgorithmConfig(ABC):
    """Base of all algorithm configurations; `kind` is the name in the registry."""

    kind: ClassVar[str] = ""

    @abstractmethod
    def validate(self, sample_steps: int, burn_in_steps: int) -> None:
        """Raise `UserError` where the values cannot work together or with the way trajectories are cut."""

    @abstractmethod
    def build_policy(self, environment: EnvironmentSpec, *, device: str, seed: int) -> Policy:
        """The acting half alone, initialised from `seed`."""

    @abstractmethod
    def build(self, environment: EnvironmentSpec, *, device: str, seed: int) -> Algorithm:
        """The policy and all that trains it; same `seed`, same initial parameters as `build_policy`."""
