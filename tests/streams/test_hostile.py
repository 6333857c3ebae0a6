"""Socket streams under malformed and hostile traffic: counted by reason, never raised, never kept."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

import lz4.block
import numpy as np
import psutil
import pytest
import zmq

from srl_core.base.codec import COMPRESSED, HEADER_NBYTES
from tests.streams.specs import PATIENCE, answer, numbered, request, same_bytes, sample_link
from tests.streams.test_inference import receive_rows

FRAMES = 10_000


def port(link) -> int:
    listener = socket.socket(fileno=os.dup(link.fds()[0]))
    try:
        return listener.getsockname()[1]
    finally:
        listener.close()


class Attacker:
    """Sends whatever it likes to one port."""

    def __init__(self, link) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(f"tcp://127.0.0.1:{port(link)}")

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def close(self) -> None:
        self.socket.close()
        self.context.term()


@pytest.fixture
def attack():
    attackers = []

    def start(link) -> Attacker:
        attackers.append(Attacker(link))
        return attackers[-1]

    yield start
    for attacker in attackers:
        attacker.close()


def drain(receive, rejected, count: int) -> None:
    """Call `receive` until so many frames were refused; it must never return anything."""
    for _ in range(count + 1000):
        assert receive() is None
        if sum(rejected.values()) >= count:
            return
    raise AssertionError(f"only {sum(rejected.values())} of {count} frames were counted: {dict(rejected)}")


def valid_message(link, number: int = 1) -> bytearray:
    """A right sample message, for spoiling; taken from the link's own wire format."""
    wire = link._wire
    message = bytearray(wire.raw_nbytes)
    wire.envelope.seal(message, 1, 0, number, 0, 3)
    for name, array in wire.arrays(memoryview(message), HEADER_NBYTES, 3).items():
        array[...] = numbered(number, 3)[name]
    return message


def test_ten_thousand_bad_sample_frames_are_counted_and_the_stream_works_on(samples, attack) -> None:
    stream = samples("socket")
    consumer, attacker = stream.consumer(), attack(stream.link)
    rng = np.random.default_rng(0)
    good = valid_message(stream.link)
    process = psutil.Process()
    before = 0
    for i in range(FRAMES):
        kind = i % 5
        if kind == 0:
            frames = [rng.bytes(int(rng.integers(0, 500)))]
        elif kind == 1:  # truncated
            frames = [bytes(good[: int(rng.integers(0, len(good)))])]
        elif kind == 2:  # one wrong byte before the numbers: format, kind, flags, sender, token or schema
            spoiled = bytearray(good)
            at = [0, 4, 5, 6, *range(12, 36)][int(rng.integers(28))]
            spoiled[at] ^= int(rng.integers(1, 256))
            frames = [bytes(spoiled)]
        elif kind == 3:  # numbers that are too large
            spoiled = bytearray(good)
            struct.pack_into("<II", spoiled, 44, int(rng.integers(4, 2**32)), 3)
            if i % 2:
                struct.pack_into("<II", spoiled, 44, 0, int(rng.integers(4, 2**32)))
            frames = [bytes(spoiled)]
        else:  # several frames
            frames = [bytes(good), rng.bytes(10)]
        attacker.send(*frames)
        if i % 500 == 499:
            drain(lambda: consumer.get(0.01), consumer.rejected, i + 1)
        if i == FRAMES // 10:
            before = process.memory_info().rss
    assert sum(consumer.rejected.values()) == FRAMES
    assert {"short", "format", "token", "schema", "kind", "flags", "sender", "shape", "size", "frames"} >= set(
        consumer.rejected
    )
    assert consumer.rejected["frames"] == FRAMES // 5
    assert consumer.rejected["token"] > 100
    assert process.memory_info().rss - before < 10e6
    stream.producer().put(numbered(7, 2))
    assert same_bytes(consumer.get(PATIENCE).arrays, numbered(7, 2))


def test_ten_thousand_bad_requests_are_counted_and_the_stream_works_on(inference, attack) -> None:
    stream = inference("socket", members=2)
    server, attacker = stream.server(), attack(stream.link)
    wire = stream.link._requests
    good = bytes(wire.pack(memoryview(bytearray(wire.max_nbytes)), 0, [(m, 1, 3, request(m, 3)) for m in range(2)]))
    rng = np.random.default_rng(0)
    for i in range(FRAMES):
        spoiled = bytearray(good)
        if i % 4 == 0:
            spoiled = bytearray(rng.bytes(int(rng.integers(0, 300))))
        elif i % 4 == 1:
            del spoiled[int(rng.integers(0, len(good))) :]
        elif i % 4 == 2:  # members and rows that do not exist
            at, wrong = [(64, -1), (64, 2), (80, 0), (80, 5), (80, 2**62), (88, 9)][i // 4 % 6]
            struct.pack_into("<q", spoiled, at, wrong)
        else:  # a number of parts that does not fit
            struct.pack_into("<I", spoiled, 48, [0, 1, 3, 2**32 - 1][i // 4 % 4])
        attacker.send(bytes(spoiled))
        if i % 500 == 499:
            drain(lambda: server.receive(100, 0.01), server.rejected, i + 1)
    assert sum(server.rejected.values()) == FRAMES
    client = stream.client()
    client.post(1, request(3, 2))
    client.flush()
    got = receive_rows(server, 2)[0]
    server.reply(got, answer(got.arrays))
    assert same_bytes(client.collect(1, PATIENCE), answer(request(3, 2)))


def test_another_streams_messages_are_strangers(samples, attack, stop) -> None:
    stream = samples("socket")
    consumer, attacker = stream.consumer(), attack(stream.link)
    other = sample_link("socket", stop)
    try:
        attacker.send(bytes(valid_message(other)))
        drain(lambda: consumer.get(0.01), consumer.rejected, 1)
    finally:
        other.close()
    assert consumer.rejected == {"token": 1}


def test_the_token_is_what_decides(samples, attack) -> None:
    """The frame that all others were spoiled from is a right one."""
    stream = samples("socket")
    consumer, attacker = stream.consumer(), attack(stream.link)
    attacker.send(bytes(valid_message(stream.link, 4)))
    assert same_bytes(consumer.get(PATIENCE).arrays, numbered(4, 3))


@pytest.mark.parametrize("claim", ["too long", "too short", "garbage"])
def test_a_compressed_body_is_never_larger_than_the_schema_says(claim, samples, attack) -> None:
    stream = samples("socket", lz4=True)
    consumer, attacker = stream.consumer(), attack(stream.link)
    wire = stream.link._wire
    nbytes = wire.body_nbytes(3)
    body = {
        "too long": lz4.block.compress(bytes(200 * nbytes), store_size=False),
        "too short": lz4.block.compress(bytes(nbytes - 1), store_size=False),
        "garbage": np.random.default_rng(0).bytes(300),
    }[claim]
    header = bytearray(HEADER_NBYTES)
    wire.envelope.seal(header, 1, 0, 1, 0, 3, COMPRESSED)
    attacker.send(bytes(header) + body)
    drain(lambda: consumer.get(0.01), consumer.rejected, 1)
    assert set(consumer.rejected) <= {"compression", "size"}


def test_raw_tcp_garbage_and_a_huge_length_prefix(samples) -> None:
    stream = samples("socket")
    consumer, producer = stream.consumer(), stream.producer()
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
    huge = b"\x02" + struct.pack(">Q", 4 << 30) + b"x" * 1000
    memory = psutil.Process().memory_info()
    for data in (b"GET / HTTP/1.1\r\n" + bytes(100), greeting + ready + huge, greeting + b"\x02" + b"\xff" * 8):
        with socket.create_connection(("127.0.0.1", port(stream.link))) as raw:
            raw.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError, BrokenPipeError):
                raw.sendall(data)
                while raw.recv(4096):  # until the other side hangs up, unasked
                    pass
    after = psutil.Process().memory_info()
    assert after.rss - memory.rss < 10e6
    assert after.vms - memory.vms < 500e6
    producer.put(numbered(1, 3))
    assert same_bytes(consumer.get(PATIENCE).arrays, numbered(1, 3))


def test_a_producer_refuses_credits_it_is_not_owed(samples) -> None:
    stream = samples("socket", slots=2)
    producer, consumer = stream.producer(), stream.consumer()
    producer.put(numbered(0, 1))
    sample = consumer.get(PATIENCE)
    for slot in (8, 9):
        consumer.give_credit(sample._peer, slot)  # with two slots, credits go out one by one
    sample.release()
    producer.put(numbered(1, 1))
    producer.put(numbered(2, 1))  # needs the credit
    assert producer.rejected == {"credit": 2}


def test_memory_stays_bounded_while_the_consumer_sleeps(samples) -> None:
    """The trainer is slow for ever: what the producer does not block on, it drops."""
    stream = samples("socket", slots=4, when_full="drop_oldest")
    producer, consumer = stream.producer(), stream.consumer()
    arrays = numbered(1, 3)
    for _ in range(2000):
        producer.put(arrays)
    before = psutil.Process().memory_info().rss
    for _ in range(20_000):
        producer.put(arrays)
    assert psutil.Process().memory_info().rss - before < 10e6
    assert producer.dropped >= 3 * (22_000 - 8)
    assert consumer.get(PATIENCE) is not None
