"""What every back-end offers the launcher: a link is one whole stream, from which each worker takes its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from srl_core.api import InferenceClient, InferenceServer, PolicySpec, SampleConsumer, SampleProducer, SampleSpec
from srl_core.base.arrays import Arrays, ArraySpec, schema_from_json, schema_to_json

BLOCK, DROP_OLDEST = "block", "drop_oldest"


@dataclass(frozen=True)
class StreamOptions:
    """Options of single back-ends."""

    lz4: bool = False
    """Socket samples only: compress them."""


class InferenceLink(Protocol):
    """An inference stream: client i asks server i mod servers."""

    def client(self, index: int) -> InferenceClient: ...

    def server(self, index: int) -> InferenceServer: ...

    def descriptor(self) -> dict[str, Any]:
        """What `open_inference_link` needs, as JSON; for processes that inherit `fds()` under the same numbers."""
        ...

    def fds(self) -> list[int]: ...

    def close(self) -> None: ...


class SampleLink(Protocol):
    """A sample stream: producer i feeds consumer i mod consumers."""

    def producer(self, index: int) -> SampleProducer: ...

    def consumer(self, index: int) -> SampleConsumer: ...

    def descriptor(self) -> dict[str, Any]:
        """What `open_sample_link` needs, as JSON; for processes that inherit `fds()` under the same numbers."""
        ...

    def fds(self) -> list[int]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class InferenceSize:
    """Extent of an inference stream."""

    clients: int
    servers: int
    members: int
    """Ring members of each client."""
    rows: int
    """Most rows of one request."""


@dataclass(frozen=True)
class SampleSize:
    """Extent of a sample stream."""

    producers: int
    consumers: int
    columns: int
    """Most trajectories of one sample."""
    slots: int
    """Samples of one producer that may wait, or be held by the consumer, at a time."""
    when_full: str
    """`block` or `drop_oldest`."""


def policy_spec_to_json(spec: PolicySpec) -> dict[str, Any]:
    return {
        "observation": schema_to_json(spec.observation),
        "state": schema_to_json(spec.state),
        "action": schema_to_json({"action": spec.action}),
    }


def policy_spec_from_json(data: Mapping[str, Any]) -> PolicySpec:
    """Inverse of `policy_spec_to_json`."""
    action: ArraySpec = schema_from_json(data["action"])["action"]
    return PolicySpec(schema_from_json(data["observation"]), schema_from_json(data["state"]), action)


def sample_spec_to_json(spec: SampleSpec) -> dict[str, Any]:
    return {
        "schema": schema_to_json(spec.schema),
        "sample_steps": spec.sample_steps,
        "bootstrap_steps": spec.bootstrap_steps,
        "burn_in_steps": spec.burn_in_steps,
        "stacks": dict(spec.stacks),
    }


def sample_spec_from_json(data: Mapping[str, Any]) -> SampleSpec:
    """Inverse of `sample_spec_to_json`."""
    return SampleSpec(**{**data, "schema": schema_from_json(data["schema"])})


def check_request(request: Arrays, rows: int) -> int:
    """Number of rows n of `request` [n, ...]; `ValueError` unless 1 <= n <= `rows`."""
    n = len(request["first"]) if "first" in request else 0
    if not 1 <= n <= rows:
        raise ValueError(f"a request has {n} rows, expected 1 to {rows}")
    return n


def check_columns(sample: Arrays, columns: int) -> int:
    """Number of trajectories n of `sample` [L, n, ...]; `ValueError` unless 1 <= n <= `columns`."""
    shape = sample["reward"].shape if "reward" in sample else next(iter(sample.values())).shape if sample else ()
    n = shape[1] if len(shape) > 1 else 0
    if not 1 <= n <= columns:
        raise ValueError(f"a sample has {n} trajectories, expected 1 to {columns}")
    return n
