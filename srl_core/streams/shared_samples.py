"""Sample streams over shared memory: a ring of slots for each producer.

One block of memory, which all processes inherit, holds for each producer a line of counters and S slots. The producer
copies a sample into a free slot, queues the slot's number, and only then counts it in `head`; the consumer counts what
it takes in `tail`, and clears the slot's `used` word when the sample is released. A slot so goes back and forth
between exactly two processes, and each word has one writer at a time; no lock is needed:

    producer: data -> columns[slot], queue[head % S], used[slot] = 1 -> head += 1 -> wake the consumer
    consumer: head != tail -> slot = queue[tail % S] -> tail += 1 -> ... views of the slot ... -> used[slot] = 0 -> wake

Stores must become visible in program order, as x86-64 guarantees between processes, and words are written whole.

With `drop_oldest` the producer takes samples back, so that `tail` has two writers. Both then hold the lock of a byte of
the memory's file, which the kernel frees if its holder dies; whatever is half done then is one store away from a whole
state.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from srl_core.api import ReceivedSample, SampleSpec
from srl_core.base.arrays import ALIGNMENT, Arrays, block_nbytes, block_views
from srl_core.base.errors import UserError
from srl_core.base.shared import SharedBlock
from srl_core.base.stop import StopFlag
from srl_core.streams.copying import BlockFinder, copy_into, targets_of
from srl_core.streams.links import DROP_OLDEST, SampleSize, check_columns, sample_spec_from_json, sample_spec_to_json
from srl_core.streams.waiting import Doorbell, Sleeper, make_event

_WORDS = ALIGNMENT // 8
_HEAD, _TAIL, _ASLEEP, _LISTS = 0, _WORDS, 2 * _WORDS, 3 * _WORDS
"""First word of: the samples put; those taken; whether the producer sleeps; and the lists `queue`, `used` and `columns`
of S words each. The block begins with a line for each consumer, whose first word says whether that sleeps."""


def check_machine() -> None:
    """Raise `UserError` where stores of one process may become visible to another out of order."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise UserError(
            f"streams.backend=shared_memory needs an x86-64 machine, this one is {platform.machine()}: use socket"
        )


class SharedSampleLink:
    """See `SampleLink`."""

    def __init__(
        self, spec: SampleSpec, size: SampleSize, stop: StopFlag, block: SharedBlock, events: list[int]
    ) -> None:
        """`events`: eventfds of all producers, then of all consumers."""
        self._spec, self._size, self._stop, self._block, self._events = spec, size, stop, block, events
        self._locks = [threading.Lock() for _ in range(size.producers)]

    @classmethod
    def create(cls, spec: SampleSpec, size: SampleSize, stop: StopFlag) -> SharedSampleLink:
        """`UserError` where memory does not suffice."""
        check_machine()
        block = SharedBlock.create("srl-samples", _total(spec, size))
        return cls(spec, size, stop, block, [make_event() for _ in range(size.producers + size.consumers)])

    @classmethod
    def open(cls, descriptor: Mapping[str, Any], stop: StopFlag) -> SharedSampleLink:
        spec, size = sample_spec_from_json(descriptor["spec"]), SampleSize(**descriptor["size"])
        block = SharedBlock.open(int(descriptor["fd"]), _total(spec, size))
        return cls(spec, size, stop, block, [int(fd) for fd in descriptor["events"]])

    def descriptor(self) -> dict[str, Any]:
        return {
            "backend": "shared_memory",
            "spec": sample_spec_to_json(self._spec),
            "size": vars(self._size),
            "fd": self._block.fd,
            "events": self._events,
        }

    def fds(self) -> list[int]:
        return [self._block.fd, *self._events]

    def producer(self, index: int) -> SharedProducer:
        ring = self._ring(index)
        consumer = index % self._size.consumers
        return SharedProducer(
            ring,
            Sleeper(ring.asleep, self._events[index], self._stop),
            Doorbell(self._consumer_asleep(consumer), self._events[self._size.producers + consumer]),
        )

    def consumer(self, index: int) -> SharedConsumer:
        mine = range(index, self._size.producers, self._size.consumers)
        rings = [self._ring(i) for i in mine]
        bells = [Doorbell(ring.asleep, self._events[i]) for i, ring in zip(mine, rings, strict=True)]
        event = self._events[self._size.producers + index]
        return SharedConsumer(rings, bells, Sleeper(self._consumer_asleep(index), event, self._stop))

    def _consumer_asleep(self, consumer: int) -> memoryview:
        return self._block.buffer[consumer * ALIGNMENT : (consumer + 1) * ALIGNMENT].cast("q")

    def _ring(self, producer: int) -> _Ring:
        return _Ring(self._block, producer, self._spec, self._size, self._locks[producer])

    def close(self) -> None:
        for fd in self._events:
            os.close(fd)
        self._events = []
        self._block.close()


def _nbytes(spec: SampleSpec, size: SampleSize) -> tuple[int, int]:
    """Bytes of one producer's counters and of its slots."""
    words = _LISTS + 3 * size.slots
    counters = math.ceil(words / _WORDS) * ALIGNMENT
    return counters, size.slots * block_nbytes(spec.schema, spec.leading(size.columns))


def _total(spec: SampleSpec, size: SampleSize) -> int:
    return size.consumers * ALIGNMENT + size.producers * sum(_nbytes(spec, size))


class _Ring:
    """One producer's memory, as either end sees it."""

    def __init__(
        self, block: SharedBlock, producer: int, spec: SampleSpec, size: SampleSize, lock: threading.Lock
    ) -> None:
        counters, slots = _nbytes(spec, size)
        self._block, self._spec, self._lock = block, spec, lock
        self._start = size.consumers * ALIGNMENT + producer * (counters + slots)
        self._slots, self._slot_nbytes = self._start + counters, slots // size.slots
        self.words = block.buffer[self._start : self._slots].cast("q")
        self.asleep = self.words[_ASLEEP : _ASLEEP + 1]
        self.slots, self.columns, self.drops = size.slots, size.columns, size.when_full == DROP_OLDEST
        self.queue, self.used, self.widths = (_LISTS + i * size.slots for i in range(3))
        self.full = [self.views(slot, size.columns) for slot in range(size.slots)]
        """Arrays of each slot for a sample of the usual width."""
        memory = np.frombuffer(block.buffer, np.uint8)
        starts = range(self._slots, self._slots + slots, self._slot_nbytes)
        self.blocks = [memory[start : start + self._slot_nbytes] for start in starts]

    def views(self, slot: int, columns: int) -> Arrays:
        """Arrays [L, columns, ...] in `slot`."""
        offset = self._slots + slot * self._slot_nbytes
        return block_views(self._block.buffer, offset, self._spec.schema, self._spec.leading(columns))

    @contextlib.contextmanager
    def two_writers(self) -> Iterator[None]:
        """Keep the other end from moving `tail` at the same time."""
        with self._lock:  # a file lock keeps out other processes, not threads of this one
            fcntl.lockf(self._block.fd, fcntl.LOCK_EX, 1, self._start, os.SEEK_SET)
            try:
                yield
            finally:
                fcntl.lockf(self._block.fd, fcntl.LOCK_UN, 1, self._start, os.SEEK_SET)


class SharedProducer:
    """See `SampleProducer`."""

    def __init__(self, ring: _Ring, sleeper: Sleeper, consumer: Doorbell) -> None:
        self._ring, self._sleeper, self._consumer = ring, sleeper, consumer
        self._targets = [targets_of(arrays) for arrays in ring.full]
        self._finder = BlockFinder(ring.full[0])
        self._head = ring.words[_HEAD]
        self._free: list[int] = []
        self._busy = deque(range(ring.slots))
        """Slots that were not free when looked at last, longest used first."""
        self.dropped = 0

    def put(self, sample: Arrays) -> None:
        ring = self._ring
        n = check_columns(sample, ring.columns)
        slot = self._slot()
        if slot is None:
            self.dropped += n
            return
        block = self._finder.find(sample) if n == ring.columns else None
        if block is not None:
            ring.blocks[slot][: len(block)] = block
        else:
            try:
                copy_into(self._targets[slot] if n == ring.columns else targets_of(ring.views(slot, n)), sample)
            except BaseException:
                self._finder.forget()
                self._free.append(slot)
                raise
        words, head = ring.words, self._head
        words[ring.widths + slot] = n
        words[ring.queue + head % ring.slots] = slot
        words[ring.used + slot] = 1
        self._head = words[_HEAD] = head + 1
        self._busy.append(slot)
        self._consumer.ring()

    def _slot(self) -> int | None:
        """A slot to write into; waits for one or takes the oldest sample back. None: the consumer holds them all."""
        slot = self._free.pop() if self._free else self._released()
        if slot is None:
            slot = self._take_back() if self._ring.drops else self._sleeper.until(self._released, math.inf)
        return slot

    def _released(self) -> int | None:
        words, used, busy = self._ring.words, self._ring.used, self._busy
        if words[used + busy[0]] == 0:
            return busy.popleft()
        for slot in busy:  # perhaps they are released in another order
            if words[used + slot] == 0:
                busy.remove(slot)
                return slot
        return None

    def _take_back(self) -> int | None:
        words = self._ring.words
        with self._ring.two_writers():
            tail = words[_TAIL]
            if tail == self._head:
                return None
            slot = words[self._ring.queue + tail % self._ring.slots]
            words[_TAIL] = tail + 1
        self._busy.remove(slot)
        self.dropped += words[self._ring.widths + slot]
        return slot

    def close(self) -> None:
        """The memory belongs to the link."""


class SharedSample:
    """See `ReceivedSample`; its arrays are views of a slot."""

    __slots__ = ("_bell", "_used", "_words", "arrays", "columns")

    def __init__(self, ring: _Ring, slot: int, bell: Doorbell) -> None:
        self._words, self._used, self._bell = ring.words, ring.used + slot, bell
        self.columns = n = ring.words[ring.widths + slot]
        self.arrays: Arrays = ring.full[slot].copy() if n == ring.columns else ring.views(slot, n)

    def release(self) -> None:
        if self._used >= 0:
            self._words[self._used] = 0
            self._used = -1
            self._bell.ring()


class SharedConsumer:
    """See `SampleConsumer`."""

    def __init__(self, rings: list[_Ring], bells: list[Doorbell], sleeper: Sleeper) -> None:
        self._rings, self._bells, self._sleeper = rings, bells, sleeper
        self._next = 0

    def get(self, timeout: float) -> ReceivedSample | None:
        sample = self._take()
        if sample is None and timeout > 0:
            sample = self._sleeper.until(self._take, time.monotonic() + timeout)
        return sample

    def _take(self) -> SharedSample | None:
        """The oldest sample of the first producer, in turn, that has one."""
        count = len(self._rings)
        for i in range(self._next, self._next + count):
            i %= count
            ring = self._rings[i]
            words = ring.words
            tail = words[_TAIL]
            if words[_HEAD] == tail:
                continue
            if ring.drops:
                with ring.two_writers():
                    tail = words[_TAIL]
                    if words[_HEAD] == tail:  # taken back meanwhile
                        continue
                    slot = words[ring.queue + tail % ring.slots]
                    words[_TAIL] = tail + 1
            else:
                slot = words[ring.queue + tail % ring.slots]
                words[_TAIL] = tail + 1
            self._next = (i + 1) % count
            return SharedSample(ring, slot, self._bells[i])
        return None

    def waiting(self) -> int:
        return sum(ring.words[_HEAD] - ring.words[_TAIL] for ring in self._rings)

    def close(self) -> None:
        """The memory belongs to the link."""
