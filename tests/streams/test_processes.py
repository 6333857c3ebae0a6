"""Streams between real processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.streams.specs import CONCURRENT, PATIENCE, number_of, numbered, same_bytes

pytestmark = pytest.mark.integration
concurrent = pytest.mark.parametrize("backend", CONCURRENT)
Start = Callable[..., subprocess.Popen]


@pytest.fixture
def start(stop) -> Iterator[Start]:
    """`start(link, do, **job)`: a process with the other end."""
    children: list[subprocess.Popen] = []

    def run(link, do: str, **job) -> subprocess.Popen:
        description = {"do": do, "link": link.descriptor(), "stop": stop.fileno(), **job}
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.streams.child", json.dumps(description)],
            pass_fds=[*link.fds(), stop.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


@concurrent
@pytest.mark.parametrize("when_full", ["block", "drop_oldest"])
def test_samples_of_several_processes(backend, when_full, samples, start) -> None:
    producers, puts = 2, 400
    before = set(os.listdir("/dev/shm"))
    stream = samples(backend, producers=producers, slots=3, when_full=when_full)
    children = [start(stream.link, "produce", index=i, puts=puts) for i in range(producers)]
    consumer = stream.consumer()
    last, counts = producers * [-1], producers * [0]
    while any(number < puts - 1 for number in last):
        sample = consumer.get(PATIENCE)
        i, number = divmod(number_of(sample.arrays), 1000)
        assert number > last[i]
        assert same_bytes(sample.arrays, numbered(1000 * i + number, 1 + number % 3))
        last[i] = number
        counts[i] += sample.columns
        sample.release()
    dropped = [int(child.stdout.readline()) for child in children]
    assert [c + d for c, d in zip(counts, dropped, strict=True)] == producers * [sum(1 + n % 3 for n in range(puts))]
    if when_full == "block":
        assert dropped == producers * [0]
    assert set(os.listdir("/dev/shm")) == before


@concurrent
def test_a_consumer_in_another_process(backend, samples, start) -> None:
    stream = samples(backend, slots=2)
    child = start(stream.link, "consume", last=99)
    producer = stream.producer()
    for number in range(100):
        producer.put(numbered(number, 1 + number % 3))
    assert json.loads(child.communicate(timeout=PATIENCE)[0]) == list(range(100))


def test_taking_and_taking_back_at_the_same_time(samples, start) -> None:
    """Both ends of a one-slot and of a two-slot ring race for its samples: each goes to exactly one of them."""
    for slots in (1, 2):
        stream = samples("shared_memory", slots=slots, when_full="drop_oldest")
        child = start(stream.link, "consume", last=999)
        producer = stream.producer()
        columns = [1 + number % 3 for number in range(1000)]
        arrays = [numbered(number, columns[number]) for number in range(1000)]
        for number in range(999):
            producer.put(arrays[number])
        dropped_before_last = None
        while dropped_before_last is None:  # the last must not be refused because the consumer holds all memory
            dropped = producer.dropped
            producer.put(arrays[999])
            dropped_before_last = dropped if producer.dropped == dropped else None
        got = json.loads(child.communicate(timeout=PATIENCE)[0])
        assert got == sorted(set(got))
        lost = sum(columns) - sum(columns[number] for number in got)
        assert producer.dropped >= lost
        assert (producer.dropped - lost) % columns[999] == 0  # what was refused and put again


@concurrent
def test_a_killed_producer_leaves_the_consumer_and_the_others_alive(backend, samples, start) -> None:
    stream = samples(backend, producers=2, slots=4)
    doomed = start(stream.link, "produce", index=0, puts=3, die=True)
    assert doomed.wait(PATIENCE) == -9
    start(stream.link, "produce", index=1, puts=50)
    consumer = stream.consumer()
    got = []
    while not got or got[-1] != 1049:
        sample = consumer.get(PATIENCE)
        got.append(number_of(sample.arrays))
        assert same_bytes(sample.arrays, numbered(got[-1], sample.columns))
        sample.release()
    assert [n for n in got if n >= 1000] == list(range(1000, 1050))


def test_a_killed_consumer_holds_no_lock(samples, start) -> None:
    rng = random.Random(0)
    for _ in range(5):
        stream = samples("shared_memory", slots=2, when_full="drop_oldest")
        child = start(stream.link, "consume", last=10**9)
        producer = stream.producer()
        began, number = time.monotonic(), 0
        # Killed at a random moment while both ends hold the lock most of the time.
        deadline = began + 0.5 + rng.random() / 5
        while time.monotonic() < deadline:
            producer.put(numbered(number, 1 + number % 3))
            number += 1
        child.kill()
        child.wait()
        for number in range(3):
            producer.put(numbered(number, 1))


@concurrent
def test_policy_workers_and_actors_as_processes(backend, inference, start, stop) -> None:
    clients, members, turns = 3, 2, 100
    stream = inference(backend, clients=clients, servers=2, members=members)
    servers = [start(stream.link, "serve", index=j, max_rows=6) for j in range(2)]
    asking = [start(stream.link, "ask", index=i, members=members, turns=turns) for i in range(clients)]
    assert [child.wait(60) for child in asking] == clients * [0]
    stop.set()
    assert [child.wait(PATIENCE) for child in servers] == [0, 0]


@concurrent
def test_a_blocked_process_leaves_within_a_second_of_the_stop_flag(backend, samples, start, stop) -> None:
    child = start(samples(backend, slots=1).link, "block")
    assert child.stdout.readline() == "ready\n"
    began = time.monotonic()
    stop.set()
    assert child.wait(PATIENCE) == 0
    assert time.monotonic() - began < 5.0  # with the end of the interpreter


def test_shared_memory_does_not_import_the_socket_library(samples, start) -> None:
    child = start(samples("shared_memory").link, "imports")
    assert json.loads(child.communicate(timeout=PATIENCE)[0]) is False
