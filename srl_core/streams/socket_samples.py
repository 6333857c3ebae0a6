"""Sample streams over loopback TCP.

A producer lays its sample out in a buffer of its own, header first, and sends that as one frame. Queues inside the
socket library do not bound memory, so credits do: a producer may have `slots` samples on their way or at the consumer,
and the numbers of released slots come back, a few in one message where the producer has others meanwhile. A producer
that blocks waits for one. A producer that drops its oldest sample keeps `slots` more of its own, which a thread sends
as credits come back, and drops the oldest of these.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import lz4.block
import numpy as np

from srl_core.api import ReceivedSample, SampleSpec, Stopped
from srl_core.base.arrays import Arrays
from srl_core.base.codec import COMPRESSED, HEADER_NBYTES, TOKEN_NBYTES, Envelope, Malformed, schema_hash
from srl_core.base.errors import RunError
from srl_core.base.stop import StopFlag
from srl_core.streams.copying import BlockFinder, Layout, copy_into, targets_of
from srl_core.streams.links import (
    DROP_OLDEST,
    SampleSize,
    StreamOptions,
    check_columns,
    sample_spec_from_json,
    sample_spec_to_json,
)
from srl_core.streams.sockets import SocketEnd, listen
from srl_core.streams.waiting import clear, make_event, wake

SAMPLE, CREDIT = 1, 2


class SocketSampleLink:
    """See `SampleLink`."""

    def __init__(
        self,
        spec: SampleSpec,
        size: SampleSize,
        stop: StopFlag,
        options: StreamOptions,
        token: bytes,
        listeners: list[socket.socket],
    ) -> None:
        """`listeners`: one for each consumer."""
        self._spec, self._size, self._stop, self._options = spec, size, stop, options
        self._token, self._listeners = token, listeners
        self._wire = _Wire(spec, size, options, token)

    @classmethod
    def create(cls, spec: SampleSpec, size: SampleSize, stop: StopFlag, options: StreamOptions) -> SocketSampleLink:
        listeners = [listen() for _ in range(size.consumers)]
        return cls(spec, size, stop, options, secrets.token_bytes(TOKEN_NBYTES), listeners)

    @classmethod
    def open(cls, descriptor: Mapping[str, Any], stop: StopFlag) -> SocketSampleLink:
        spec, size = sample_spec_from_json(descriptor["spec"]), SampleSize(**descriptor["size"])
        listeners = [socket.socket(fileno=int(fd)) for fd in descriptor["listeners"]]
        options = StreamOptions(**descriptor["options"])
        return cls(spec, size, stop, options, bytes.fromhex(descriptor["token"]), listeners)

    def descriptor(self) -> dict[str, Any]:
        return {
            "backend": "socket",
            "spec": sample_spec_to_json(self._spec),
            "size": vars(self._size),
            "options": vars(self._options),
            "token": self._token.hex(),
            "listeners": self.fds(),
        }

    def fds(self) -> list[int]:
        return [listener.fileno() for listener in self._listeners]

    def producer(self, index: int) -> BlockingProducer | DroppingProducer:
        port = self._listeners[index % self._size.consumers].getsockname()[1]
        end = SocketEnd(port, self._stop, max_nbytes=self._wire.credits_nbytes, queue=self._size.slots)
        kind = DroppingProducer if self._size.when_full == DROP_OLDEST else BlockingProducer
        return kind(index, self._wire, end)

    def consumer(self, index: int) -> SocketConsumer:
        listener = self._listeners[index]
        end = SocketEnd(
            listener.getsockname()[1],
            self._stop,
            max_nbytes=self._wire.max_nbytes,
            queue=self._size.slots,
            listener=os.dup(listener.fileno()),
        )
        return SocketConsumer(index, self._wire, end)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()


class _Wire:
    """Layout of a sample's message: header, then one block, or that block compressed."""

    def __init__(self, spec: SampleSpec, size: SampleSize, options: StreamOptions, token: bytes) -> None:
        self.spec, self.size, self.lz4 = spec, size, options.lz4
        layout = {"length": spec.length, "stacks": dict(spec.stacks), "columns": size.columns}
        self.envelope = Envelope(token, schema_hash(spec.schema, layout))
        self.buffers = size.slots * (2 if size.when_full == DROP_OLDEST else 1)
        self._layouts = {n: Layout(spec.schema, spec.leading(n)) for n in range(1, size.columns + 1)}
        self.raw_nbytes = HEADER_NBYTES + self.body_nbytes(size.columns)
        incompressible = self.raw_nbytes // 255 + 16 if self.lz4 else 0
        self.max_nbytes = self.raw_nbytes + incompressible
        self.credits_nbytes = HEADER_NBYTES + 4 * self.buffers
        """Of the longest list of released slots, each a uint32."""

    def body_nbytes(self, columns: int) -> int:
        return self._layouts[columns].nbytes

    def arrays(self, buffer: memoryview | bytes, offset: int, columns: int) -> Arrays:
        return self._layouts[columns].views(buffer, offset)

    def open(self, message: memoryview, consumer: int) -> tuple[int, int, Arrays]:
        """Slot, columns and arrays of a sample's message; `Malformed` where anything is not as it must be."""
        header = self.envelope.open(message)
        if header.kind != SAMPLE:
            raise Malformed("kind")
        if header.sender >= self.size.producers or header.sender % self.size.consumers != consumer:
            raise Malformed("sender")
        if header.slot >= self.buffers or not 1 <= header.count <= self.size.columns:
            raise Malformed("shape")
        if header.flags != (COMPRESSED if self.lz4 else 0):
            raise Malformed("flags")
        nbytes = self.body_nbytes(header.count)
        if not self.lz4:
            if len(message) != HEADER_NBYTES + nbytes:
                raise Malformed("size")
            return header.slot, header.count, self.arrays(message, HEADER_NBYTES, header.count)
        try:  # allocates what the schema says, whatever the sender claims, and stops there
            body = lz4.block.decompress(message[HEADER_NBYTES:], uncompressed_size=nbytes)
        except lz4.block.LZ4BlockError:
            raise Malformed("compression") from None
        if len(body) != nbytes:
            raise Malformed("size")
        return header.slot, header.count, self.arrays(body, 0, header.count)

    def open_credits(self, message: memoryview) -> list[int]:
        """Numbers of released slots; `Malformed` where anything is not as it must be."""
        header = self.envelope.open(message)
        if header.kind != CREDIT:
            raise Malformed("kind")
        if header.count > self.buffers or len(message) != HEADER_NBYTES + 4 * header.count:
            raise Malformed("size")
        return np.frombuffer(message, np.uint32, header.count, HEADER_NBYTES).tolist()

    def seal_credits(self, consumer: int, slots: list[int]) -> bytes:
        message = bytearray(HEADER_NBYTES)
        self.envelope.seal(message, CREDIT, consumer, 0, 0, len(slots))
        return bytes(message) + np.array(slots, np.uint32).tobytes()


class _Buffers:
    """A producer's messages, each laid out in memory of its own."""

    def __init__(self, index: int, wire: _Wire, end: SocketEnd) -> None:
        self._index, self._wire, self._end = index, wire, end
        self._memory = [np.zeros(wire.raw_nbytes, np.uint8).data for _ in range(wire.buffers)]
        layouts = [wire.arrays(memory, HEADER_NBYTES, wire.size.columns) for memory in self._memory]
        self._full = [targets_of(layout) for layout in layouts]
        self._finder = BlockFinder(layouts[0])
        self.columns = [0] * wire.buffers
        self.outstanding: set[int] = set()
        """Slots that the consumer has not released."""
        self._number = 0

    def fill(self, slot: int, sample: Arrays, columns: int) -> None:
        wire, memory = self._wire, self._memory[slot]
        if columns != wire.size.columns:
            copy_into(targets_of(wire.arrays(memory, HEADER_NBYTES, columns)), sample)
        elif (block := self._finder.find(sample)) is not None:
            memory[HEADER_NBYTES : HEADER_NBYTES + len(block)] = block.data
        else:
            try:
                copy_into(self._full[slot], sample)
            except BaseException:
                self._finder.forget()
                raise
        self.columns[slot] = columns

    def send(self, slot: int) -> None:
        wire, columns = self._wire, self.columns[slot]
        self._number += 1
        message = self._memory[slot]
        if columns != wire.size.columns:
            message = message[: HEADER_NBYTES + wire.body_nbytes(columns)]
        wire.envelope.seal(message, SAMPLE, self._index, self._number, slot, columns, COMPRESSED if wire.lz4 else 0)
        if wire.lz4:
            message = bytes(message[:HEADER_NBYTES]) + lz4.block.compress(message[HEADER_NBYTES:], store_size=False)
        self.outstanding.add(slot)
        if not self._end.send(message):  # credits leave room for it
            raise RunError(f"sample {self._number} of producer {self._index} was refused by its own socket")

    def credits(self) -> list[int]:
        """Slots that have come back."""
        back = []
        while (received := self._end.receive()) is not None:
            try:
                slots = self._wire.open_credits(received[1])
                if len(slots) != len(self.outstanding.intersection(slots)):
                    raise Malformed("credit")
            except Malformed as error:
                self._end.rejected[error.reason] += 1
                continue
            self.outstanding.difference_update(slots)
            back += slots
        return back


class BlockingProducer:
    """See `SampleProducer`; waits for a credit while it has none."""

    def __init__(self, index: int, wire: _Wire, end: SocketEnd) -> None:
        self._end, self._max_columns = end, wire.size.columns
        self._buffers = _Buffers(index, wire, end)
        self._free = list(range(wire.buffers))
        self.dropped = 0
        self.rejected = end.rejected

    def put(self, sample: Arrays) -> None:
        n = check_columns(sample, self._max_columns)
        while not self._free:
            self._free += self._buffers.credits()
            if not self._free:
                self._end.wait(math.inf)
        self._buffers.fill(self._free[-1], sample, n)
        self._buffers.send(self._free.pop())

    def close(self) -> None:
        self._end.close()


class DroppingProducer:
    """See `SampleProducer`; never waits. The socket belongs to its thread."""

    def __init__(self, index: int, wire: _Wire, end: SocketEnd) -> None:
        self._end, self._size = end, wire.size
        self._buffers = _Buffers(index, wire, end)
        self._free = list(range(wire.buffers))
        self._staged: deque[int] = deque()
        self._lock = threading.Lock()
        self._event = make_event()
        self._closed = False
        self.dropped = 0
        self.rejected = end.rejected
        end.watch(self._event)
        self._thread = threading.Thread(target=self._run, name=f"samples-{index}", daemon=True)
        self._thread.start()

    def put(self, sample: Arrays) -> None:
        n = check_columns(sample, self._size.columns)
        with self._lock:  # the thread takes a slot out of `_staged` or puts one into `_free` meanwhile
            if self._free and len(self._staged) < self._size.slots:
                slot = self._free.pop()
            else:
                slot = self._staged.popleft()
                self.dropped += self._buffers.columns[slot]
        try:
            self._buffers.fill(slot, sample, n)
        except BaseException:
            self._free.append(slot)
            raise
        self._staged.append(slot)
        wake(self._event)

    def _run(self) -> None:
        try:
            while not self._closed:
                clear(self._event)
                while len(self._buffers.outstanding) < self._size.slots:
                    with self._lock:
                        if not self._staged:
                            break
                        slot = self._staged.popleft()
                    self._buffers.send(slot)
                back = self._buffers.credits()  # after sending, which may have swallowed their announcement
                with self._lock:
                    self._free += back
                if not back:
                    self._end.wait(math.inf)
        except Stopped:
            pass

    def close(self) -> None:
        self._closed = True
        wake(self._event)
        self._thread.join()
        self._end.close()
        os.close(self._event)


class SocketSample:
    """See `ReceivedSample`; its arrays are views of the received message."""

    __slots__ = ("_consumer", "_peer", "_slot", "arrays", "columns")

    def __init__(self, consumer: SocketConsumer, peer: bytes, slot: int, columns: int, arrays: Arrays) -> None:
        self._consumer, self._peer, self._slot = consumer, peer, slot
        self.columns, self.arrays = columns, arrays

    def release(self) -> None:
        """To be called by the thread that calls `get`. With 8 slots or more the credit may wait for the next `get`."""
        if self._slot >= 0:
            self._consumer.give_credit(self._peer, self._slot)
            self._slot = -1


class SocketConsumer:
    """See `SampleConsumer`. The socket takes from its peers in turn."""

    def __init__(self, index: int, wire: _Wire, end: SocketEnd) -> None:
        self._index, self._wire, self._end = index, wire, end
        self._arrived: deque[SocketSample] = deque()
        self._credits: dict[bytes, list[int]] = {}
        """Released slots that their producers have not been told of."""
        self._uncredited: Counter[bytes] = Counter()
        """Samples of each producer that have arrived and that it still counts as under way."""
        self._slots = wire.size.slots
        self.rejected = end.rejected

    def get(self, timeout: float) -> ReceivedSample | None:
        if not self._arrived:
            self._take_in()
        if not self._arrived and timeout > 0:
            for peer in list(self._credits):  # they may be what is waited for
                self._send_credits(peer)
            deadline = time.monotonic() + timeout
            self._take_in()
            while not self._arrived and self._end.wait(deadline):
                self._take_in()
        return self._arrived.popleft() if self._arrived else None

    def _take_in(self) -> None:
        """What is here, which credits bound; strangers' messages are dropped at once."""
        while (received := self._end.receive()) is not None:
            peer, message = received
            try:
                slot, columns, arrays = self._wire.open(message, self._index)
            except Malformed as error:
                self._end.rejected[error.reason] += 1
                continue
            self._uncredited[peer] += 1
            self._arrived.append(SocketSample(self, peer, slot, columns, arrays))

    def give_credit(self, peer: bytes, slot: int) -> None:
        credits = self._credits.setdefault(peer, [])
        credits.append(slot)
        if len(credits) >= self._slots // 4 or self._uncredited[peer] >= self._slots:
            self._send_credits(peer)

    def _send_credits(self, peer: bytes) -> None:
        credits = self._credits.pop(peer)
        self._uncredited[peer] -= len(credits)
        self._end.send(self._wire.seal_credits(self._index, credits), peer)

    def waiting(self) -> int:
        """Those that had arrived when the stream was last looked at; other threads must leave the socket alone."""
        return len(self._arrived)

    def close(self) -> None:
        self._end.close()
