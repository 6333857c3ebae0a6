"""The inline back-end: both ends in one thread, so that a message is handed over by a function call.

Nothing can arrive during a call, so no call waits, whatever its timeout.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from srl_core.api import PolicySpec, ReceivedSample, Requests, SampleSpec, Stopped
from srl_core.api.streams import concatenate
from srl_core.base.arrays import Arrays, check
from srl_core.base.errors import RunError
from srl_core.base.stop import StopFlag
from srl_core.streams.copying import copies
from srl_core.streams.links import DROP_OLDEST, InferenceSize, SampleSize, check_columns, check_request


class InlineInferenceLink:
    """See `InferenceLink`."""

    def __init__(self, spec: PolicySpec, size: InferenceSize, stop: StopFlag) -> None:
        self._servers = [_Server(spec) for _ in range(size.servers)]
        self._clients = [_Client(spec, size, self._servers[i % size.servers], stop) for i in range(size.clients)]

    def client(self, index: int) -> _Client:
        return self._clients[index]

    def server(self, index: int) -> _Server:
        return self._servers[index]

    def descriptor(self) -> dict[str, Any]:
        raise ValueError("an inline stream cannot leave its process")

    def fds(self) -> list[int]:
        return []

    def close(self) -> None:
        """Nothing is held."""


class _Client:
    def __init__(self, spec: PolicySpec, size: InferenceSize, server: _Server, stop: StopFlag) -> None:
        self._schema, self._rows, self._server, self._stop = spec.request, size.rows, server, stop
        self._staged: list[tuple[int, int, Arrays]] = []
        self.newest = [0] * size.members
        """Number of each member's newest request."""
        self.replies: list[Arrays | None] = [None] * size.members

    def post(self, member: int, request: Arrays) -> None:
        n = check_request(request, self._rows)
        check(request, self._schema, (n,))
        self.newest[member] += 1
        self.replies[member] = None
        self._staged.append((member, self.newest[member], copies(request)))

    def flush(self) -> None:
        for member, number, request in self._staged:
            self._server.waiting.append((self, member, number, request))
        self._staged.clear()

    def collect(self, member: int, timeout: float) -> Arrays | None:
        reply, self.replies[member] = self.replies[member], None
        if reply is None and timeout > 0 and self._stop.is_set():
            raise Stopped
        return reply

    def close(self) -> None:
        """Nothing is held."""


class _Server:
    def __init__(self, spec: PolicySpec) -> None:
        self._schema = spec.reply
        self.waiting: deque[tuple[_Client, int, int, Arrays]] = deque()

    def receive(self, max_rows: int, timeout: float) -> Requests | None:
        del timeout
        parts: list[tuple[Any, int]] = []
        taken: list[Arrays] = []
        rows = 0
        while self.waiting:
            client, member, number, request = self.waiting[0]
            n = len(request["first"])
            if client.newest[member] != number:  # a newer request took its place
                self.waiting.popleft()
                continue
            if taken and rows + n > max_rows:
                break
            self.waiting.popleft()
            parts.append(((client, member, number), n))
            taken.append(request)
            rows += n
        if not taken:
            return None
        return Requests(taken[0] if len(taken) == 1 else concatenate(taken), parts)

    def reply(self, requests: Requests, replies: Arrays) -> None:
        check(replies, self._schema, (requests.rows,))
        start = 0
        for (client, member, number), n in requests.parts:
            if client.newest[member] == number:
                client.replies[member] = copies({name: a[start : start + n] for name, a in replies.items()})
            start += n

    def close(self) -> None:
        """Nothing is held."""


class InlineSampleLink:
    """See `SampleLink`."""

    def __init__(self, spec: SampleSpec, size: SampleSize, stop: StopFlag) -> None:
        del stop
        self._producers = [_Producer(i, spec, size) for i in range(size.producers)]
        self._consumers = [_Consumer(self._producers[j :: size.consumers]) for j in range(size.consumers)]

    def producer(self, index: int) -> _Producer:
        return self._producers[index]

    def consumer(self, index: int) -> _Consumer:
        return self._consumers[index]

    def descriptor(self) -> dict[str, Any]:
        raise ValueError("an inline stream cannot leave its process")

    def fds(self) -> list[int]:
        return []

    def close(self) -> None:
        """Nothing is held."""


class _Producer:
    def __init__(self, index: int, spec: SampleSpec, size: SampleSize) -> None:
        self._index, self._spec, self._size = index, spec, size
        self._leading = {n: spec.leading(n) for n in range(1, size.columns + 1)}
        self.waiting: deque[_Sample] = deque()
        self.held = 0
        """Samples taken but not released."""
        self.dropped = 0

    def put(self, sample: Arrays) -> None:
        n = check_columns(sample, self._size.columns)
        for name, spec in self._spec.schema.items():
            check({name: sample[name]} if name in sample else {}, {name: spec}, self._leading[n][name])
        if len(sample) != len(self._spec.schema):
            raise ValueError(f"array names differ from the schema: {sorted(sample.keys() ^ self._spec.schema.keys())}")
        if len(self.waiting) + self.held >= self._size.slots:
            if self._size.when_full != DROP_OLDEST:
                raise RunError(
                    f"the inline sample stream of producer {self._index} is full ({self._size.slots} slots): "
                    "its consumer runs in the same thread and cannot empty it meanwhile; raise streams.slots"
                )
            if not self.waiting:  # all memory is held by the consumer
                self.dropped += n
                return
            self.dropped += self.waiting.popleft().columns
        self.waiting.append(_Sample(self, copies(sample), n))

    def close(self) -> None:
        """Nothing is held."""


class _Sample:
    def __init__(self, producer: _Producer, arrays: Arrays, columns: int) -> None:
        self._producer, self.arrays, self.columns = producer, arrays, columns
        self._released = False

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._producer.held -= 1


class _Consumer:
    def __init__(self, producers: list[_Producer]) -> None:
        self._producers, self._next = producers, 0

    def get(self, timeout: float) -> ReceivedSample | None:
        del timeout
        count = len(self._producers)
        for i in range(self._next, self._next + count):
            producer = self._producers[i % count]
            if producer.waiting:
                self._next = (i + 1) % count
                producer.held += 1
                return producer.waiting.popleft()
        return None

    def waiting(self) -> int:
        return sum(len(p.waiting) for p in self._producers)

    def close(self) -> None:
        """Nothing is held."""
