"""Trained order and drop order equal the (uses left, time) rule, with exact counts."""

from __future__ import annotations

import numpy as np

from srl_core.api import SampleBatch
from srl_core.workers.reuse_queue import ReuseQueue
from tests.workers.test_trajectories import make_spec

SPEC = make_spec(2)


def batch(number: int) -> SampleBatch:
    arrays = SPEC.empty(1)
    arrays["reward"][:] = number
    return SampleBatch(arrays, SPEC)


def number(b: SampleBatch) -> int:
    return int(b.arrays["reward"][0, 0])


def train(queue: ReuseQueue) -> int:
    b = queue.get()
    assert b is not None
    queue.done(b)
    return number(b)


def test_most_uses_left_first_then_newest() -> None:
    queue = ReuseQueue(size=3, uses=2)
    for i in range(3):
        queue.put(batch(i))
    assert [train(queue) for _ in range(6)] == [2, 1, 0, 2, 1, 0]
    assert queue.get() is None
    assert queue.dropped == queue.dropped_reuses == 0


def test_overflow_drops_fewest_uses_left_then_oldest() -> None:
    queue = ReuseQueue(size=2, uses=2)
    queue.put(batch(0))
    queue.put(batch(1))
    assert train(queue) == 1  # 1 has one use left
    assert [number(b) for b in queue.put(batch(2))] == [1]
    assert (queue.dropped, queue.dropped_reuses) == (0, 1)
    assert [number(b) for b in queue.put(batch(3))] == [0]  # both have two left: the older goes
    assert (queue.dropped, queue.dropped_reuses) == (1, 1)
    assert [train(queue) for _ in range(4)] == [3, 2, 3, 2]


def test_against_a_plain_model() -> None:
    rng = np.random.default_rng(0)
    queue, model, dropped, lost = ReuseQueue(size=4, uses=3), [], 0, 0
    for i in range(500):
        if rng.random() < 0.4:
            queue.put(batch(i))
            model.append([3, i])
            if len(model) > 4:
                model.sort()
                left, _ = model.pop(0)
                dropped += left == 3
                lost += left if left < 3 else 0
        elif model:
            model.sort()
            left, expected = model.pop()
            b = queue.get()
            assert b is not None
            assert number(b) == expected
            assert b.uses == 3 - left
            assert queue.done(b) == (left > 1)
            if left > 1:
                model.append([left - 1, expected])
    assert (queue.dropped, queue.dropped_reuses) == (dropped, lost)


def test_a_batch_that_comes_back_to_a_full_queue_is_lost_and_counted() -> None:
    queue = ReuseQueue(size=1, uses=3)
    queue.put(batch(0))
    held = queue.get()
    queue.put(batch(1))
    assert held is not None
    assert queue.done(held) is False
    assert queue.dropped_reuses == 2
