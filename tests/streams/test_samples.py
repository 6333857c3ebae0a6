"""The contract of sample streams, over every back-end."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from srl_core.api import Stopped
from srl_core.base.errors import RunError, UserError
from tests.streams.specs import (
    BACKENDS,
    CONCURRENT,
    PATIENCE,
    SAMPLES,
    STACKED,
    number_of,
    numbered,
    same_bytes,
    sample_link,
)

every = pytest.mark.parametrize("backend", BACKENDS)
concurrent = pytest.mark.parametrize("backend", CONCURRENT)


@every
@pytest.mark.parametrize("spec", [SAMPLES, STACKED], ids=["plain", "stacked"])
@pytest.mark.parametrize("lz4", [False, True], ids=["raw", "lz4"])
def test_every_byte_and_width_arrives_in_order(backend, spec, lz4, samples) -> None:
    stream = samples(backend, spec, lz4=lz4)
    producer, consumer = stream.producer(), stream.consumer()
    for number in range(12):
        columns = 3 if number % 2 else 1 + number % 3
        sent = numbered(number, columns, spec)
        producer.put(sent)
        got = consumer.get(PATIENCE)
        assert got is not None
        assert got.columns == columns
        assert same_bytes(got.arrays, sent)
        got.release()
    assert consumer.get(0.0) is None
    assert consumer.get(0.01) is None
    assert producer.dropped == 0


@every
def test_put_copies(backend, samples) -> None:
    stream = samples(backend)
    producer, consumer = stream.producer(), stream.consumer()
    sent = numbered(1, 3)
    producer.put(sent)
    for array in sent.values():
        array[...] = 0
    got = consumer.get(PATIENCE)
    assert same_bytes(got.arrays, numbered(1, 3))


@every
def test_arrays_of_any_memory_layout_are_sent_right(backend, samples) -> None:
    stream = samples(backend)
    producer, consumer = stream.producer(), stream.consumer()
    wide = numbered(5, 9)
    producer.put({name: array[:, 1::3] for name, array in wide.items()})
    producer.put({name: np.asfortranarray(array[:, :2]) for name, array in wide.items()})
    for part in (slice(1, None, 3), slice(0, 2)):
        expected = {name: array[:, part] for name, array in wide.items()}
        assert same_bytes(consumer.get(PATIENCE).arrays, expected)


@every
@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.pop("reward"),
        lambda s: s.update(extra=s["reward"]),
        lambda s: s.update(reward=s["reward"].astype(np.float64)),
        lambda s: s.update(reward=s["reward"][:1]),
        lambda s: s.update(value=s["value"][:, :1]),
        lambda s: s.update({k: np.concatenate([a] * 3, axis=1) for k, a in s.items()}),
        lambda s: s.update({k: a[:, :0] for k, a in s.items()}),
    ],
    ids=["missing", "extra", "dtype", "broadcast", "width", "too wide", "empty"],
)
def test_what_does_not_fit_the_schema_is_refused_and_leaves_the_stream_whole(backend, spoil, samples) -> None:
    stream = samples(backend, slots=1)
    producer, consumer = stream.producer(), stream.consumer()
    bad = numbered(1, 2)
    spoil(bad)
    with pytest.raises(ValueError, match=r"expected|differ"):
        producer.put(bad)
    assert consumer.get(0.0) is None
    producer.put(numbered(2, 3))
    assert number_of(consumer.get(PATIENCE).arrays) == 2


@every
def test_producers_take_turns_and_each_keeps_its_order(backend, samples) -> None:
    stream = samples(backend, producers=5, consumers=2)
    producers = [stream.producer(i) for i in range(5)]
    consumers = [stream.consumer(j) for j in range(2)]
    for round_ in range(3):
        for i, producer in enumerate(producers):
            producer.put(numbered(10 * i + round_, 2))
    for j, consumer in enumerate(consumers):
        mine = range(j, 5, 2)
        got = [consumer.get(PATIENCE) for _ in range(3 * len(mine))]
        numbers = [number_of(s.arrays) for s in got]
        for i in mine:
            assert [n for n in numbers if n // 10 == i] == [10 * i, 10 * i + 1, 10 * i + 2]
        if backend != "socket":  # there the kernel and the network decide what arrives first
            assert {n // 10 for n in numbers[: len(mine)]} == set(mine)
        for sample in got:
            sample.release()
        assert consumer.get(0.0) is None


@every
def test_waiting_counts_what_could_be_got(backend, samples) -> None:
    stream = samples(backend)
    producer, consumer = stream.producer(), stream.consumer()
    assert consumer.waiting() == 0
    for number in range(3):
        producer.put(numbered(number, 1))
    first = consumer.get(PATIENCE)
    if backend != "socket":  # there it is an estimate: what had arrived when it last looked
        assert consumer.waiting() == 2
    first.release()
    for _ in range(2):
        consumer.get(PATIENCE).release()
    assert consumer.waiting() == 0


def test_a_full_inline_stream_is_an_error_since_nobody_could_empty_it(samples) -> None:
    stream = samples("inline", producers=2, slots=2)
    producer = stream.producer(1)
    for number in range(2):
        producer.put(numbered(number, 1))
    with pytest.raises(RunError, match=r"producer 1 is full \(2 slots\)"):
        producer.put(numbered(2, 1))


@concurrent
def test_a_full_stream_blocks_until_a_release(backend, samples) -> None:
    stream = samples(backend, slots=2)
    producer, consumer = stream.producer(), stream.consumer()
    for number in range(2):
        producer.put(numbered(number, 1))
    held = [consumer.get(PATIENCE) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        put = pool.submit(producer.put, numbered(2, 1))
        assert consumer.get(0.1) is None  # both slots are held: nothing may be overwritten
        assert not put.done()
        assert [number_of(s.arrays) for s in held] == [0, 1]
        held[1].release()
        got = consumer.get(PATIENCE)
        put.result(PATIENCE)
    assert number_of(got.arrays) == 2
    assert same_bytes(held[0].arrays, numbered(0, 1))


@concurrent
def test_the_stop_flag_ends_a_blocked_put_and_a_blocked_get_at_once(backend, samples, stop) -> None:
    stream = samples(backend, producers=2, slots=1)
    producer, consumer = stream.producer(), stream.consumer()
    producer.put(numbered(0, 1))
    consumer.get(PATIENCE)  # held
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(producer.put, numbered(1, 1)), pool.submit(consumer.get, PATIENCE)]
        with pytest.raises(TimeoutError):
            calls[0].result(0.1)
        began = time.monotonic()
        stop.set()
        for call in calls:
            with pytest.raises(Stopped):
                call.result(PATIENCE)
        assert time.monotonic() - began < 1.0
    assert consumer.get(0.0) is None  # what does not wait still works, so that a last checkpoint can be written


@every
def test_drop_oldest_keeps_the_newest_and_counts_trajectories(backend, samples) -> None:
    slots, puts = 3, 20
    stream = samples(backend, slots=slots, when_full="drop_oldest")
    producer, consumer = stream.producer(), stream.consumer()
    for number in range(puts):
        producer.put(numbered(number, 2))
    got = []
    while not got or got[-1] < puts - 1:
        sample = consumer.get(PATIENCE)
        got.append(number_of(sample.arrays))
        assert same_bytes(sample.arrays, numbered(got[-1], 2))
        sample.release()
    assert got == sorted(set(got))
    assert got[-slots:] == list(range(puts - slots, puts))
    assert producer.dropped == 2 * (puts - len(got))
    assert len(got) <= (2 if backend == "socket" else 1) * slots
    assert consumer.get(0.0) is None


@every
def test_drop_oldest_never_overwrites_what_is_held(backend, samples) -> None:
    stream = samples(backend, slots=2, when_full="drop_oldest")
    producer, consumer = stream.producer(), stream.consumer()
    for number in range(2):
        producer.put(numbered(number, 3))
    held = [consumer.get(PATIENCE) for _ in range(2)]
    for number in range(2, 8):
        producer.put(numbered(number, 3))
    for number, sample in enumerate(held):
        assert same_bytes(sample.arrays, numbered(number, 3))
        sample.release()
    producer.put(numbered(8, 3))
    last = 0
    while last < 8:
        sample = consumer.get(PATIENCE)
        last = number_of(sample.arrays)
        sample.release()


@every
@pytest.mark.parametrize("when_full", ["block", "drop_oldest"])
def test_samples_may_be_released_in_any_order_and_twice(backend, when_full, samples) -> None:
    rng = np.random.default_rng(1)
    stream = samples(backend, slots=4, when_full=when_full)
    producer, consumer = stream.producer(), stream.consumer()
    number, held = 0, []
    for _ in range(60):
        while len(held) < 4:
            producer.put(numbered(number, 3))
            held.append((number, consumer.get(PATIENCE)))
            number += 1
        for expected, sample in held:
            assert same_bytes(sample.arrays, numbered(expected, 3))
        for _ in range(int(rng.integers(1, 5))):
            _, sample = held.pop(int(rng.integers(len(held))))
            sample.release()
            sample.release()
    assert producer.dropped == 0


@concurrent
@pytest.mark.parametrize("when_full", ["block", "drop_oldest"])
def test_threads_at_both_ends_lose_and_invent_nothing(backend, when_full, samples) -> None:
    producers, puts = 3, 300
    stream = samples(backend, producers=producers, slots=3, when_full=when_full)
    ends = [stream.producer(i) for i in range(producers)]
    consumer = stream.consumer()
    last = producers * [-1]

    def produce(i: int) -> None:
        for number in range(puts):
            ends[i].put(numbered(1000 * i + number, 1 + number % 3))

    threads = [threading.Thread(target=produce, args=(i,)) for i in range(producers)]
    for thread in threads:
        thread.start()
    counts = producers * [0]
    while any(number < puts - 1 for number in last):
        sample = consumer.get(PATIENCE)
        i, number = divmod(number_of(sample.arrays), 1000)
        assert number > last[i]
        assert same_bytes(sample.arrays, numbered(1000 * i + number, 1 + number % 3))
        last[i] = number
        counts[i] += sample.columns
        sample.release()
    for thread in threads:
        thread.join()
    sent = sum(1 + number % 3 for number in range(puts))
    assert [counts[i] + ends[i].dropped for i in range(producers)] == producers * [sent]
    if when_full == "block":
        assert all(end.dropped == 0 for end in ends)


def test_bad_settings_are_named(stop) -> None:
    with pytest.raises(UserError, match=r"streams\.backend is 'pigeon'"):
        sample_link("pigeon", stop)
    with pytest.raises(UserError, match=r"streams\.when_full is 'explode'"):
        sample_link("inline", stop, when_full="explode")
    with pytest.raises(UserError, match="slots is 0"):
        sample_link("inline", stop, slots=0)


def test_too_little_memory_is_a_user_error_with_both_numbers(stop) -> None:
    with pytest.raises(UserError, match=r"needs \d+ bytes, but only \d+ are available"):
        sample_link("shared_memory", stop, slots=10**9)
