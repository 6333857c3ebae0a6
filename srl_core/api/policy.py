"""Policies: pure functions from a request to a reply.

A request is a flat dict of arrays [N, ...]: `observation.*`, `state.*` (recurrent state, where there is one), `first`
(bool [N]) and `noise` (float32 [N, dims], uniform in [0, 1)). All randomness of acting is in `noise`, which the actor
draws: so the same request gets the same action whoever serves it, over any stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from srl_core.base.arrays import Arrays, ArraySpec, Schema, with_prefix

if TYPE_CHECKING:  # samples are made of policy specs
    from srl_core.api.sample import SampleBatch


@dataclass(frozen=True)
class PolicySpec:
    """Schemas of one policy's requests and replies; plain data, so that actors need not import torch."""

    observation: Schema
    state: Schema
    """Recurrent state of one row; empty for feed-forward policies. An all-zero state starts an episode."""
    action: ArraySpec
    """[dims]."""

    @property
    def request(self) -> Schema:
        noise = ArraySpec(self.action.shape, "float32")
        return {
            **with_prefix("observation", self.observation),
            **with_prefix("state", self.state),
            "first": ArraySpec((), "bool"),
            "noise": noise,
        }

    @property
    def reply(self) -> Schema:
        return {
            "action": self.action,
            "log_prob": ArraySpec((), "float32"),
            "value": ArraySpec((), "float32"),
            **with_prefix("state", self.state),
            "version": ArraySpec((), "int64"),
        }


class Policy(Protocol):
    """What actors, policy workers and evaluators use, and what algorithms may use of it."""

    spec: PolicySpec

    def act(self, request: Arrays, *, greedy: bool = False) -> Arrays:
        """Answer `request` [N, ...] with the spec's reply, except `version`, which the caller adds.

        `value` is in units of the reward (denormalised). `greedy` takes the mode instead of using `noise`. Rows whose
        `first` is set start from the zero state, whatever `state.*` says.
        """
        ...

    def evaluate(self, batch: SampleBatch) -> Arrays:
        """What the current parameters make of the steps in `batch`: float64 [L, B] each.

        `log_prob` of the actions that were taken, and `value` in units of the reward. Recurrent state starts from what
        was stored at the first step. Steps that are not valid hold numbers without meaning.
        """
        ...

    def parameter_schema(self) -> Schema:
        """Names, shapes and dtypes of everything that acting depends on, normaliser statistics included."""
        ...

    def read_parameters(self) -> Arrays:
        """A copy of the parameters; arrays of `parameter_schema`."""
        ...

    def write_parameters(self, parameters: Mapping) -> None:
        """Copy `parameters` in; raises `ValueError` where names, shapes or dtypes differ."""
        ...
