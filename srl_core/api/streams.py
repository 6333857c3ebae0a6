"""Streams: typed pipes between workers; the back-end is configuration, and workers never know which.

Inference streams are duplex. An actor's client numbers the requests of each ring member; a reply is used only if its
number is that of the member's newest request. What a client returns is a copy. Sample streams are simplex.
Every blocking call takes a timeout in seconds and raises `Stopped` once the stream's stop flag is set, so that
nothing blocks uninterruptibly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from srl_core.base.arrays import Arrays


class Stopped(Exception):
    """The run is being stopped; the worker leaves its loop."""


class InferenceClient(Protocol):
    """An actor's end of an inference stream, for `members` ring members."""

    def post(self, member: int, request: Arrays) -> None:
        """Stage the request [n, ...] of `member`, 1 <= n <= the member's rows; the arrays are copied."""
        ...

    def flush(self) -> None:
        """Send all that is staged as one message."""
        ...

    def collect(self, member: int, timeout: float) -> Arrays | None:
        """The reply [n, ...] to the newest request of `member`, once; None if it has not come within `timeout`."""
        ...

    def close(self) -> None: ...


@dataclass
class Requests:
    """A batch of requests that a policy worker took: arrays [N, ...], possibly of several clients."""

    arrays: Arrays
    parts: list[tuple[Any, int]] = field(default_factory=list)
    """(back-end's address of the requester, number of rows), in the order of the rows."""

    @property
    def rows(self) -> int:
        return sum(n for _, n in self.parts)


class InferenceServer(Protocol):
    """A policy worker's end of an inference stream."""

    def receive(self, max_rows: int, timeout: float) -> Requests | None:
        """All requests that wait, whole ones, up to `max_rows` rows (at least one request); None if none came.

        Arrays are valid until the next call.
        """
        ...

    def reply(self, requests: Requests, replies: Arrays) -> None:
        """Answer each of `requests`; `replies` [N, ...] in the same order."""
        ...

    def close(self) -> None: ...


class SampleProducer(Protocol):
    """An actor's end of a sample stream."""

    dropped: int
    """Trajectories dropped by this end because the stream was full."""

    def put(self, sample: Arrays) -> None:
        """Send n trajectories, arrays [L, n, ...]. A full stream blocks, or drops its oldest sample, as configured."""
        ...

    def close(self) -> None: ...


class ReceivedSample(Protocol):
    """One message of a sample stream. Its arrays may be views into the stream's memory until `release`."""

    arrays: Arrays
    columns: int
    """n."""

    def release(self) -> None:
        """Give the memory back; the arrays must not be read afterwards."""
        ...


class SampleConsumer(Protocol):
    """A trainer's end of a sample stream, fed by any number of producers."""

    def get(self, timeout: float) -> ReceivedSample | None:
        """The next sample, oldest first for each producer; None if none came within `timeout` seconds."""
        ...

    def waiting(self) -> int:
        """Samples that could be got at once (an estimate, for the progress line)."""
        ...

    def close(self) -> None: ...


def rows_of(arrays: Arrays) -> int:
    """Length of the first axis, which all arrays share."""
    return len(next(iter(arrays.values()))) if arrays else 0


def concatenate(parts: list[Arrays]) -> Arrays:
    """Join along the first axis."""
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
