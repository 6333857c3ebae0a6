"""Batches hold the stream's trajectories in order, whatever the width of its samples."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from srl_core.base.arrays import Arrays
from srl_core.workers.assembly import Assembler, Prefetcher
from tests.workers.test_trajectories import make_spec

SPEC = make_spec(3, stacked=True)


class Sample:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.columns, self.released = arrays, arrays["reward"].shape[1], False

    def release(self) -> None:
        self.released = True
        for array in self.arrays.values():
            array[...] = 99  # the stream's memory belongs to the next sample


class Consumer:
    """A stream whose samples are prepared beforehand."""

    def __init__(self, widths: list[int]) -> None:
        self.samples, start = deque(), 0
        for width in widths:
            arrays = SPEC.empty(width)
            for array in arrays.values():
                numbers = np.arange(start, start + width)
                array[...] = numbers.reshape(1, width, *[1] * (array.ndim - 2)).astype(array.dtype)
            self.samples.append(Sample(arrays))
            start += width
        self.given: list[Sample] = []

    def get(self, timeout: float) -> Sample | None:
        if not self.samples:
            return None
        self.given.append(self.samples.popleft())
        return self.given[-1]

    def waiting(self) -> int:
        return len(self.samples)

    def close(self) -> None: ...


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("widths", [[4, 4, 4], [1] * 12, [5, 3, 2, 2], [12], [11, 1]])
def test_trajectories_keep_their_order(widths: list[int], prefetch: bool) -> None:
    consumer = Consumer(widths)
    assembler = Assembler(consumer, SPEC, 4)
    source = Prefetcher(assembler) if prefetch else assembler
    seen: list[int] = []
    for _ in range(3):
        batch = source.next(5.0)
        assert batch is not None
        assert batch.arrays["observation.x"].shape == (SPEC.length + 3, 4, 2)
        assert (batch.arrays["log_prob"] == batch.arrays["log_prob"][0]).all()
        seen += [int(x) for x in batch.arrays["log_prob"][0]]
        source.recycle(batch)
    assert seen == list(range(12))
    assert source.next(0.0) is None
    assert all(sample.released for sample in consumer.given)
    if isinstance(source, Prefetcher):
        source.close()


def test_an_error_in_the_prefetch_thread_reaches_the_trainer() -> None:
    class Broken(Consumer):
        def get(self, timeout: float) -> Sample | None:
            raise ValueError("bad frame")

    source = Prefetcher(Assembler(Broken([]), SPEC, 4))
    with pytest.raises(ValueError, match="bad frame"):
        source.next(5.0)
    source.close()


def test_state_holds_what_arrived_but_is_in_no_batch() -> None:
    first = Assembler(Consumer([3, 3, 3, 3]), SPEC, 4)
    batch = first.next(0.0)
    assert batch is not None
    state = first.state_dict()
    second = Assembler(Consumer([]), SPEC, 4)
    second.load_state_dict(state)
    seen = [int(x) for b in iter(lambda: second.next(0.0), None) for x in b.arrays["log_prob"][0]]
    assert seen == list(range(4, 12))
