"""Streams and their back-ends: `inline` (one thread), `shared_memory` (one host) and `socket` (loopback TCP).

The launcher makes a link for each stream and hands it to the workers; each takes its own end. Processes that inherit
a link's descriptors open it again from its JSON description. What only one back-end needs is imported with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_core.api import PolicySpec, SampleSpec
from srl_core.base.errors import UserError
from srl_core.base.stop import StopFlag
from srl_core.streams.links import (
    BLOCK,
    DROP_OLDEST,
    InferenceLink,
    InferenceSize,
    SampleLink,
    SampleSize,
    StreamOptions,
)

BACKENDS = ("inline", "shared_memory", "socket")

__all__ = [
    "BACKENDS",
    "InferenceLink",
    "SampleLink",
    "StreamOptions",
    "make_inference_link",
    "make_sample_link",
    "open_inference_link",
    "open_sample_link",
]


def make_inference_link(
    backend: str,
    spec: PolicySpec,
    *,
    clients: int,
    servers: int,
    members: int,
    rows: int,
    stop: StopFlag,
    options: StreamOptions,
) -> InferenceLink:
    """A new inference stream. Each client has `members` ring members with at most `rows` rows in a request."""
    del options  # none applies to inference
    size = InferenceSize(clients, servers, members, rows)
    _check_size(backend, size)
    if backend == "inline":
        from srl_core.streams.inline import InlineInferenceLink

        return InlineInferenceLink(spec, size, stop)
    if backend == "shared_memory":
        from srl_core.streams.shared_inference import SharedInferenceLink

        return SharedInferenceLink.create(spec, size, stop)
    from srl_core.streams.socket_inference import SocketInferenceLink

    return SocketInferenceLink.create(spec, size, stop)


def make_sample_link(
    backend: str,
    spec: SampleSpec,
    *,
    producers: int,
    consumers: int,
    columns: int,
    slots: int,
    when_full: str,
    stop: StopFlag,
    options: StreamOptions,
) -> SampleLink:
    """A new sample stream. A sample has at most `columns` trajectories; `slots` is each producer's memory in samples.

    `when_full` is `block` or `drop_oldest`.
    """
    size = SampleSize(producers, consumers, columns, slots, when_full)
    _check_size(backend, size)
    if when_full not in (BLOCK, DROP_OLDEST):
        raise UserError(f"streams.when_full is {when_full!r}, expected {BLOCK!r} or {DROP_OLDEST!r}")
    if backend == "inline":
        from srl_core.streams.inline import InlineSampleLink

        return InlineSampleLink(spec, size, stop)
    if backend == "shared_memory":
        from srl_core.streams.shared_samples import SharedSampleLink

        return SharedSampleLink.create(spec, size, stop)
    from srl_core.streams.socket_samples import SocketSampleLink

    return SocketSampleLink.create(spec, size, stop, options)


def open_inference_link(descriptor: Mapping[str, Any], stop: StopFlag) -> InferenceLink:
    """The stream that another process made; its descriptors must have been inherited."""
    if descriptor["backend"] == "shared_memory":
        from srl_core.streams.shared_inference import SharedInferenceLink

        return SharedInferenceLink.open(descriptor, stop)
    from srl_core.streams.socket_inference import SocketInferenceLink

    return SocketInferenceLink.open(descriptor, stop)


def open_sample_link(descriptor: Mapping[str, Any], stop: StopFlag) -> SampleLink:
    """The stream that another process made; its descriptors must have been inherited."""
    if descriptor["backend"] == "shared_memory":
        from srl_core.streams.shared_samples import SharedSampleLink

        return SharedSampleLink.open(descriptor, stop)
    from srl_core.streams.socket_samples import SocketSampleLink

    return SocketSampleLink.open(descriptor, stop)


def _check_size(backend: str, size: InferenceSize | SampleSize) -> None:
    if backend not in BACKENDS:
        raise UserError(f"streams.backend is {backend!r}, expected one of {', '.join(BACKENDS)}")
    for name, value in vars(size).items():
        if isinstance(value, int) and value < 1:
            raise UserError(f"a stream's number of {name} is {value}, expected at least 1")
