"""From samples of any width to batches of B trajectories."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.api import ReceivedSample, SampleBatch, SampleConsumer, SampleSpec
from srl_core.base.arrays import Arrays


class Assembler:
    """Copies samples side by side into preallocated batches; a sample may be split between two batches."""

    def __init__(self, consumer: SampleConsumer, spec: SampleSpec, batch_size: int) -> None:
        self._consumer, self._spec, self._size = consumer, spec, batch_size
        self._free: deque[Arrays] = deque()
        self._target: Arrays | None = None
        self._filled = 0
        self._sample: ReceivedSample | None = None
        self._taken = 0
        self._restored: deque[ReceivedSample] = deque()

    def recycle(self, batch: SampleBatch) -> None:
        """`batch` is not used any more; its memory serves a later one."""
        self._free.append(batch.arrays)

    def next(self, timeout: float) -> SampleBatch | None:
        """The next full batch; None if the stream had nothing for `timeout` seconds."""
        while True:
            if self._sample is None:
                self._sample, self._taken = self._receive(timeout), 0
                if self._sample is None:
                    return None
            if self._target is None:
                self._target, self._filled = (self._free.popleft() if self._free else self._new()), 0
            n = min(self._sample.columns - self._taken, self._size - self._filled)
            for name, source in self._sample.arrays.items():
                self._target[name][:, self._filled : self._filled + n] = source[:, self._taken : self._taken + n]
            self._filled += n
            self._taken += n
            if self._taken == self._sample.columns:
                self._sample.release()
                self._sample = None
            if self._filled == self._size:
                batch, self._target = SampleBatch(self._target, self._spec), None
                return batch

    def _new(self) -> Arrays:
        arrays = self._spec.empty(self._size)
        for array in arrays.values():
            array.fill(0)  # touch every page now rather than during the first copy
        return arrays

    def _receive(self, timeout: float) -> ReceivedSample | None:
        return self._restored.popleft() if self._restored else self._consumer.get(timeout)

    def state_dict(self) -> dict[str, Any]:
        """All samples that have arrived but are in no finished batch; takes them out of the stream."""
        if self._sample is not None:
            rest = {name: array[:, self._taken :].copy() for name, array in self._sample.arrays.items()}
            self._sample.release()
            self._sample, self._taken = _HeldSample(rest), 0
        while (sample := self._consumer.get(0.0)) is not None:
            self._restored.append(_HeldSample({name: array.copy() for name, array in sample.arrays.items()}))
            sample.release()
        held = [*([self._sample] if self._sample else []), *self._restored]
        target = None if self._target is None else {name: array.copy() for name, array in self._target.items()}
        return {"filled": self._filled, "target": target, "samples": [dict(sample.arrays) for sample in held]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._filled = int(state["filled"])
        if state["target"] is not None:
            self._target = {name: np.array(array) for name, array in state["target"].items()}
        self._restored = deque(_HeldSample(dict(arrays)) for arrays in state["samples"])


class _HeldSample:
    """A sample that was taken out of its stream."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.columns = arrays["reward"].shape[1]

    def release(self) -> None:
        """The memory is the garbage collector's."""


class Prefetcher:
    """Runs an assembler in a thread, one batch ahead, so that copying overlaps training."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler
        self._ready: SampleBatch | None = None
        self._wanted = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def recycle(self, batch: SampleBatch) -> None:
        self._assembler.recycle(batch)  # a deque: appending is atomic

    def next(self, timeout: float) -> SampleBatch | None:
        """The batch that was assembled meanwhile; waits at most `timeout` seconds."""
        with self._wanted:
            self._wanted.wait_for(lambda: self._ready is not None or self._error is not None, timeout)
            if self._error is not None:
                raise self._error
            batch, self._ready = self._ready, None
            self._wanted.notify_all()
        return batch

    def _run(self) -> None:
        try:
            while not self._closed:
                batch = self._assembler.next(0.5)
                if batch is None:
                    continue
                with self._wanted:
                    self._wanted.wait_for(lambda: self._ready is None or self._closed)
                    self._ready = batch
                    self._wanted.notify_all()
        except BaseException as error:
            with self._wanted:
                self._error = error
                self._wanted.notify_all()

    def close(self) -> None:
        """End the thread; a stop flag that is set or the wait's half second lets it out of the stream."""
        with self._wanted:
            self._closed = True
            self._wanted.notify_all()
        self._thread.join()
