"""Random calls on both ends of a sample stream against a model of lists."""

from __future__ import annotations

import numpy as np
import pytest

from tests.streams.specs import number_of, numbered, same_bytes


class Model:
    """What a stream of one producer must do, told with lists."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: list[tuple[int, int]] = []
        self.held: list[tuple[int, int]] = []
        self.dropped = 0

    def full(self) -> bool:
        return len(self.waiting) + len(self.held) == self.slots

    def put(self, number: int, columns: int) -> None:
        if self.full():
            if not self.waiting:
                self.dropped += columns
                return
            self.dropped += self.waiting.pop(0)[1]
        self.waiting.append((number, columns))


@pytest.mark.parametrize("backend", ["inline", "shared_memory"])
@pytest.mark.parametrize("when_full", ["block", "drop_oldest"])
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_any_order_of_calls_does_what_the_model_does(backend, when_full, slots, samples) -> None:
    rng = np.random.default_rng(slots)
    stream = samples(backend, slots=slots, when_full=when_full)
    producer, consumer = stream.producer(), stream.consumer()
    model, held, number = Model(slots), [], 0
    for _ in range(1500):
        call = rng.integers(3)
        if call == 0 and not (when_full == "block" and model.full()):
            columns = int(rng.integers(1, 4))
            producer.put(numbered(number, columns))
            model.put(number, columns)
            number += 1
        elif call == 1:
            sample = consumer.get(0.0)
            assert (sample is None) == (not model.waiting)
            if sample is not None:
                expected = model.waiting.pop(0)
                assert (number_of(sample.arrays), sample.columns) == expected
                held.append(sample)
                model.held.append(expected)
        elif call == 2 and held:
            i = int(rng.integers(len(held)))
            sample, (at, columns) = held.pop(i), model.held.pop(i)
            assert same_bytes(sample.arrays, numbered(at, columns))
            sample.release()
        assert consumer.waiting() == len(model.waiting)
        assert producer.dropped == model.dropped
    assert number > 100
