"""Inference streams over shared memory: one place for the request and the reply of each ring member.

All places of one server lie side by side, so that a batch is gathered and scattered with one indexing operation for
each array. A place is pending while the number `posted` by its client differs from the number `answered` by its server:

    client: request -> rows, stamp -> posted = number -> wake the server
    server: posted != answered -> gather -> ... -> reply -> answered = number -> wake the client
    client: answered == number of the newest request -> copy the reply

Stores must become visible in program order, as x86-64 guarantees between processes, and words are written whole. A
client that posts again before its answer may overwrite what is being gathered; the reply to such a torn request
carries the old number, which nobody reads, and the new number keeps the place pending.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.api import PolicySpec, Requests
from srl_core.base.arrays import ALIGNMENT, Arrays, ArraySpec, Schema, block_nbytes, block_views, check, zeros
from srl_core.base.shared import SharedBlock
from srl_core.base.stop import StopFlag
from srl_core.streams.copying import copy_into, targets_of
from srl_core.streams.links import InferenceSize, check_request, policy_spec_from_json, policy_spec_to_json
from srl_core.streams.shared_samples import check_machine
from srl_core.streams.waiting import Doorbell, Sleeper, make_event

_WORDS = ALIGNMENT // 8
_COUNTERS: Schema = {name: ArraySpec((), "int64") for name in ("posted", "answered", "rows", "stamp", "asleep")}
"""Numbers of the newest request and of the last answered one, rows of the request, when it was posted (ns), and whether
the client sleeps (in the first of its places)."""


class SharedInferenceLink:
    """See `InferenceLink`."""

    def __init__(
        self, spec: PolicySpec, size: InferenceSize, stop: StopFlag, block: SharedBlock, events: list[int]
    ) -> None:
        """`events`: eventfds of all clients, then of all servers."""
        self._spec, self._size, self._stop, self._block, self._events = spec, size, stop, block, events

    @classmethod
    def create(cls, spec: PolicySpec, size: InferenceSize, stop: StopFlag) -> SharedInferenceLink:
        """`UserError` where memory does not suffice."""
        check_machine()
        block = SharedBlock.create("srl-inference", size.servers * _Places.nbytes(spec, size))
        return cls(spec, size, stop, block, [make_event() for _ in range(size.clients + size.servers)])

    @classmethod
    def open(cls, descriptor: Mapping[str, Any], stop: StopFlag) -> SharedInferenceLink:
        spec, size = policy_spec_from_json(descriptor["spec"]), InferenceSize(**descriptor["size"])
        block = SharedBlock.open(int(descriptor["fd"]), size.servers * _Places.nbytes(spec, size))
        return cls(spec, size, stop, block, [int(fd) for fd in descriptor["events"]])

    def descriptor(self) -> dict[str, Any]:
        return {
            "backend": "shared_memory",
            "spec": policy_spec_to_json(self._spec),
            "size": vars(self._size),
            "fd": self._block.fd,
            "events": self._events,
        }

    def fds(self) -> list[int]:
        return [self._block.fd, *self._events]

    def client(self, index: int) -> SharedClient:
        place, server = divmod(index, self._size.servers)
        places = self._places(server)
        sleeper = Sleeper(places.client_asleep(place), self._events[index], self._stop)
        bell = Doorbell(places.server_asleep, self._events[self._size.clients + server])
        return SharedClient(places, place, sleeper, bell)

    def server(self, index: int) -> SharedServer:
        places = self._places(index)
        clients = self._events[index : self._size.clients : self._size.servers]
        bells = [Doorbell(places.client_asleep(i), event) for i, event in enumerate(clients)]
        event = self._events[self._size.clients + index]
        return SharedServer(places, bells, Sleeper(places.server_asleep, event, self._stop))

    def _places(self, server: int) -> _Places:
        return _Places(self._block, server, self._spec, self._size)

    def close(self) -> None:
        for fd in self._events:
            os.close(fd)
        self._events = []
        self._block.close()


class _Places:
    """One server's memory: arrays [places, rows, ...]; a client's places are `width` in a row."""

    def __init__(self, block: SharedBlock, server: int, spec: PolicySpec, size: InferenceSize) -> None:
        self.spec, self.size = spec, size
        self.width, count = self._extent(size)
        offset = server * self.nbytes(spec, size)
        self.server_asleep = block.buffer[offset : offset + ALIGNMENT].cast("q")
        offset += ALIGNMENT
        self.counters = block_views(block.buffer, offset, _COUNTERS, (count,))
        offset += block_nbytes(_COUNTERS, (count,))
        self.requests = block_views(block.buffer, offset, spec.request, (count, size.rows))
        offset += block_nbytes(spec.request, (count, size.rows))
        self.replies = block_views(block.buffer, offset, spec.reply, (count, size.rows))

    def client_asleep(self, client: int) -> memoryview:
        """The word that says so."""
        return self.counters["asleep"][client * self.width :][:1].data

    @staticmethod
    def _extent(size: InferenceSize) -> tuple[int, int]:
        """Places of a client, padded so that no two clients write into one cache line of counters; places in all."""
        width = -(-size.members // _WORDS) * _WORDS
        return width, width * -(-size.clients // size.servers)

    @classmethod
    def nbytes(cls, spec: PolicySpec, size: InferenceSize) -> int:
        _, count = cls._extent(size)
        places = (count, size.rows)
        data = block_nbytes(spec.request, places) + block_nbytes(spec.reply, places)
        return ALIGNMENT + block_nbytes(_COUNTERS, (count,)) + data


class SharedClient:
    """See `InferenceClient`."""

    def __init__(self, places: _Places, client: int, sleeper: Sleeper, server: Doorbell) -> None:
        self._rows, self._sleeper, self._server = places.size.rows, sleeper, server
        mine = slice(client * places.width, client * places.width + places.size.members)
        self._posted, self._answered, self._lengths, self._stamps = (
            places.counters[name][mine].data for name in ("posted", "answered", "rows", "stamp")
        )
        self._requests = [targets_of({k: a[m] for k, a in places.requests.items()}) for m in _range(mine)]
        self._replies = [[(name, array[m]) for name, array in places.replies.items()] for m in _range(mine)]
        self._newest = list(self._posted)
        self._asked = [0] * len(self._newest)
        """Rows of each member's newest request, 0 once its reply was collected."""
        self._staged: dict[int, None] = {}

    def post(self, member: int, request: Arrays) -> None:
        n = check_request(request, self._rows)
        targets = self._requests[member]
        copy_into(targets if n == self._rows else targets_of({k: a[:n] for k, a, *_ in targets}), request)
        if member not in self._staged:
            self._newest[member] += 1
        self._asked[member] = n
        self._staged[member] = None

    def flush(self) -> None:
        if not self._staged:
            return
        now = time.monotonic_ns()
        for member in self._staged:
            self._lengths[member] = self._asked[member]
            self._stamps[member] = now
            self._posted[member] = self._newest[member]
        self._staged.clear()
        self._server.ring()

    def collect(self, member: int, timeout: float) -> Arrays | None:
        if not self._asked[member]:
            return None
        number, answered = self._newest[member], self._answered
        if answered[member] != number:
            if timeout <= 0:
                return None
            deadline = time.monotonic() + timeout
            if self._sleeper.until(lambda: True if answered[member] == number else None, deadline) is None:
                return None
        n, self._asked[member] = self._asked[member], 0
        return {name: array[:n].copy() for name, array in self._replies[member]}

    def close(self) -> None:
        """The memory belongs to the link."""


class _SharedRequests(Requests):
    """Requests with the places that they came from."""

    places: np.ndarray
    numbers: np.ndarray
    lengths: np.ndarray


class SharedServer:
    """See `InferenceServer`."""

    def __init__(self, places: _Places, clients: list[Doorbell], sleeper: Sleeper) -> None:
        self._places, self._clients, self._sleeper = places, clients, sleeper
        self._posted, self._answered, self._lengths, self._stamps, _ = places.counters.values()
        self._taken = self._answered.copy()
        """Number of the last request of each place that was received, whether or not it is answered."""
        self._batch: Arrays = {}

    def receive(self, max_rows: int, timeout: float) -> Requests | None:
        requests = self._gather(max_rows)
        if requests is None and timeout > 0:
            requests = self._sleeper.until(lambda: self._gather(max_rows), time.monotonic() + timeout)
        return requests

    def _gather(self, max_rows: int) -> Requests | None:
        numbers = self._posted.copy()  # read once: what is gathered later may be newer, never older
        places = np.flatnonzero(numbers != self._taken)
        if not len(places):
            return None
        lengths = self._lengths[places]
        total = int(lengths.sum())
        if total > max_rows:
            order = np.argsort(self._stamps[places], kind="stable")
            fitting = int(np.searchsorted(np.cumsum(lengths[order]), max_rows, "right"))
            chosen = order[: max(1, fitting)]
            places, lengths = places[chosen], lengths[chosen]
            total = int(lengths.sum())
        numbers = numbers[places]
        self._taken[places] = numbers
        rows = self._places.size.rows
        batch = self._room(total)
        if total == rows * len(places):
            for name, source in self._places.requests.items():
                target = batch[name][:total].reshape((len(places), *source.shape[1:]))
                source.take(places, axis=0, out=target, mode="clip")  # "clip": the only mode without a buffer
        else:
            ends = np.cumsum(lengths).tolist()
            for place, end, n in zip(places.tolist(), ends, lengths.tolist(), strict=True):
                for name, source in self._places.requests.items():
                    batch[name][end - n : end] = source[place, :n]
        arrays = {name: array[:total] for name, array in batch.items()}
        requests = _SharedRequests(arrays, list(zip(places.tolist(), lengths.tolist(), strict=True)))
        requests.places, requests.numbers, requests.lengths = places, numbers, lengths
        return requests

    def _room(self, rows: int) -> Arrays:
        if not self._batch or len(self._batch["first"]) < rows:
            self._batch = zeros(self._places.spec.request, (rows,))
        return self._batch

    def reply(self, requests: Requests, replies: Arrays) -> None:
        assert isinstance(requests, _SharedRequests)
        places, numbers, lengths = requests.places, requests.numbers, requests.lengths
        rows, total = self._places.size.rows, int(lengths.sum())
        check(replies, self._places.spec.reply, (total,))
        current = self._posted[places] == numbers
        if current.all() and total == rows * len(places):
            for name, target in self._places.replies.items():
                target[places] = replies[name].reshape((len(places), *target.shape[1:]))
        else:
            ends = np.cumsum(lengths).tolist()
            for place, end, n, wanted in zip(places.tolist(), ends, lengths.tolist(), current.tolist(), strict=True):
                if wanted:  # a newer request's reply may be in that place already
                    for name, target in self._places.replies.items():
                        target[place, :n] = replies[name][end - n : end]
            places, numbers = places[current], numbers[current]
        self._answered[places] = numbers
        for client in np.unique(places // self._places.width).tolist():
            self._clients[client].ring()

    def close(self) -> None:
        """The memory belongs to the link."""


def _range(part: slice) -> range:
    return range(part.start, part.stop)
