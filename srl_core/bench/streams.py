"""`make bench-streams`: what the streams reach of the least that their transports need.

Samples: messages per second from one process to another, against a bare ring in shared memory (fixed slots, one copy,
eventfd semaphores) and bare pyzmq PUSH/PULL over TCP, which send the same number of bytes without any structure.
Inference: the round trip of 1 and of 64 requests. Every round measures all of them in turn; medians are shown, and the
last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import zmq

from srl_core.api import PolicySpec, SampleSpec, Stopped
from srl_core.base.arrays import ArraySpec, block_nbytes, zeros
from srl_core.base.hardware import describe
from srl_core.base.stop import StopFlag
from srl_core.streams import (
    StreamOptions,
    make_inference_link,
    make_sample_link,
    open_inference_link,
    open_sample_link,
)

SIZES = {"30kB": (4, 432), "1MiB": (16, 4056)}
"""Trajectories of a sample and bytes of an observation."""

REQUESTS = (1, 64)
SLOTS = 32
COPY_BELOW = 65536
"""Bytes of a message from which on bare pyzmq is faster without copies."""
BACKENDS = ("shared_memory", "socket")
WARM_UP = 50
PATIENCE = 30.0


def sample_spec(size: str) -> tuple[SampleSpec, int, int]:
    """A feed-forward policy's samples; their trajectories and bytes."""
    columns, observation = SIZES[size]
    policy = PolicySpec({"observation": ArraySpec((observation,), "uint8")}, {}, ArraySpec((1,), "int64"))
    spec = SampleSpec.make(policy, sample_steps=15)
    return spec, columns, block_nbytes(spec.schema, spec.leading(columns))


REQUEST_SPEC = PolicySpec({"observation": ArraySpec((432,), "uint8")}, {}, ArraySpec((1,), "int64"))


class Ring:
    """Fixed slots of bytes between two processes, and nothing else."""

    def __init__(self, nbytes: int, fds: tuple[int, int, int]) -> None:
        memory, self._free, self._full = fds
        data = mmap.mmap(memory, SLOTS * nbytes)
        self._slots = [np.frombuffer(data, np.uint8, nbytes, i * nbytes) for i in range(SLOTS)]
        self._next = 0

    @staticmethod
    def create(nbytes: int) -> tuple[int, int, int]:
        """Descriptors of the memory, and of the counts of free and of full slots."""
        memory = os.memfd_create("bench-ring")
        os.posix_fallocate(memory, 0, SLOTS * nbytes)
        return memory, os.eventfd(SLOTS, os.EFD_SEMAPHORE), os.eventfd(0, os.EFD_SEMAPHORE)

    def put(self, data: np.ndarray) -> None:
        os.eventfd_read(self._free)
        self._slots[self._next][...] = data
        self._next = (self._next + 1) % SLOTS
        os.eventfd_write(self._full, 1)

    def get(self) -> np.ndarray:
        os.eventfd_read(self._full)
        return self._slots[self._next]

    def release(self) -> None:
        self._next = (self._next + 1) % SLOTS
        os.eventfd_write(self._free, 1)


def child(job: dict[str, Any]) -> None:
    """Produce for ever, or serve until the stop flag is set."""
    if job["kind"] == "ring":
        ring, data = Ring(job["nbytes"], tuple(job["fds"])), np.ones(job["nbytes"], np.uint8)
        while True:
            ring.put(data)
    if job["kind"] == "pyzmq":
        socket = zmq.Context().socket(zmq.PUSH)
        socket.set(zmq.SNDHWM, SLOTS)
        socket.connect(f"tcp://127.0.0.1:{job['port']}")
        message = np.ones(job["nbytes"], np.uint8).data
        while True:
            socket.send(message, copy=job["nbytes"] < COPY_BELOW)
    stop = StopFlag(job["stop"])
    if job["kind"] == "samples":
        producer = open_sample_link(job["link"], stop).producer(0)
        spec, columns, _ = sample_spec(job["size"])
        sample = spec.empty(columns)
        for array in sample.values():
            array.fill(1)
        while True:
            producer.put(sample)
    server = open_inference_link(job["link"], stop).server(0)
    replies = {n: zeros(REQUEST_SPEC.reply, (n,)) for n in range(1, max(REQUESTS) + 1)}
    while True:
        requests = server.receive(max(REQUESTS), PATIENCE)
        if requests is not None:
            server.reply(requests, replies[requests.rows])


def run_with_child(job: dict[str, Any], fds: list[int], step: Callable[[], object], seconds: float) -> float:
    """Calls of `step` per second while a process does `job`."""
    process = subprocess.Popen([sys.executable, "-m", __spec__.name, "--child", json.dumps(job)], pass_fds=fds)
    try:
        for _ in range(WARM_UP):
            step()
        done, began = 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            for _ in range(10):
                step()
            done += 10
        return done / spent
    finally:
        process.kill()
        process.wait()


def samples_per_second(backend: str, size: str, seconds: float) -> float:
    stop = StopFlag()
    spec, columns, _ = sample_spec(size)
    settings = {"producers": 1, "consumers": 1, "columns": columns, "slots": SLOTS, "when_full": "block"}
    link = make_sample_link(backend, spec, stop=stop, options=StreamOptions(), **settings)
    consumer = link.consumer(0)

    def step() -> None:
        sample = consumer.get(PATIENCE)
        assert sample is not None
        sample.release()

    job = {"kind": "samples", "size": size, "link": link.descriptor(), "stop": stop.fileno()}
    try:
        return run_with_child(job, [*link.fds(), stop.fileno()], step, seconds)
    finally:
        consumer.close()
        link.close()


def inline_samples_per_second(size: str, seconds: float) -> float:
    spec, columns, _ = sample_spec(size)
    settings = {"producers": 1, "consumers": 1, "columns": columns, "slots": SLOTS, "when_full": "block"}
    link = make_sample_link("inline", spec, stop=StopFlag(), options=StreamOptions(), **settings)
    producer, consumer, sample = link.producer(0), link.consumer(0), spec.empty(columns)

    def step() -> None:
        producer.put(sample)
        got = consumer.get(0.0)
        assert got is not None
        got.release()

    return _alone(step, seconds)


def ring_per_second(size: str, seconds: float) -> float:
    nbytes = sample_spec(size)[2]
    fds = Ring.create(nbytes)
    ring = Ring(nbytes, fds)

    def step() -> None:
        ring.get()
        ring.release()

    try:
        return run_with_child({"kind": "ring", "nbytes": nbytes, "fds": fds}, list(fds), step, seconds)
    finally:
        for fd in fds:
            os.close(fd)


def pyzmq_per_second(size: str, seconds: float) -> float:
    nbytes = sample_spec(size)[2]
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.set(zmq.RCVHWM, SLOTS)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        copy = nbytes < COPY_BELOW
        return run_with_child(
            {"kind": "pyzmq", "nbytes": nbytes, "port": port}, [], lambda: socket.recv(copy=copy), seconds
        )


def copies_per_second(size: str, seconds: float) -> float:
    source = np.ones(sample_spec(size)[2], np.uint8)
    target = np.zeros_like(source)

    def step() -> None:
        target[...] = source

    return _alone(step, seconds)


def _alone(step: Callable[[], None], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        for _ in range(10):
            step()
        done += 10
    return done / spent


def round_trips_per_second(backend: str, requests: int, seconds: float) -> float:
    """Batches of so many one-row requests of one client, sent together and waited for."""
    stop = StopFlag()
    settings = {"clients": 1, "servers": 1, "members": requests, "rows": 1}
    link = make_inference_link(backend, REQUEST_SPEC, stop=stop, options=StreamOptions(), **settings)
    client, request = link.client(0), zeros(REQUEST_SPEC.request, (1,))

    def step() -> None:
        for member in range(requests):
            client.post(member, request)
        client.flush()
        for member in range(requests):
            assert client.collect(member, PATIENCE) is not None

    job = {"kind": "inference", "link": link.descriptor(), "stop": stop.fileno()}
    try:
        return run_with_child(job, [*link.fds(), stop.fileno()], step, seconds)
    finally:
        client.close()
        link.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the streams.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of each measurement")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        with contextlib.suppress(Stopped):
            child(args.child)
        return

    measurements: dict[str, Callable[[], float]] = {}
    for size in SIZES:
        measurements[f"memcpy {size}"] = lambda size=size: copies_per_second(size, args.seconds)
        measurements[f"ring {size}"] = lambda size=size: ring_per_second(size, args.seconds)
        measurements[f"shared_memory {size}"] = lambda size=size: samples_per_second(
            "shared_memory", size, args.seconds
        )
        measurements[f"pyzmq {size}"] = lambda size=size: pyzmq_per_second(size, args.seconds)
        measurements[f"socket {size}"] = lambda size=size: samples_per_second("socket", size, args.seconds)
        measurements[f"inline {size}"] = lambda size=size: inline_samples_per_second(size, args.seconds)
    for backend in BACKENDS:
        for n in REQUESTS:
            measurements[f"{backend} round trip of {n}"] = lambda backend=backend, n=n: round_trips_per_second(
                backend, n, args.seconds
            )
    rates: dict[str, list[float]] = {name: [] for name in measurements}
    for _ in range(args.rounds):
        for name, measure in measurements.items():
            rates[name].append(measure())
    medians = {name: statistics.median(values) for name, values in rates.items()}

    print(f"{args.rounds} rounds of {args.seconds} s each, medians")
    for name, rate in medians.items():
        size = name.split()[-1]
        if size in SIZES:
            print(f"{name:24} {rate:10.0f} messages/s {rate * sample_spec(size)[2] / 1e9:8.2f} GB/s")
        else:
            print(f"{name:32} {1e6 / rate:10.1f} us")

    def ratios(ours: str, theirs: str) -> dict[str, float]:
        """Median over the rounds of what `ours` is of `theirs`, measured right after one another."""
        return {
            size: round(
                statistics.median(
                    a / b for a, b in zip(rates[f"{ours} {size}"], rates[f"{theirs} {size}"], strict=True)
                ),
                3,
            )
            for size in SIZES
        }

    result = {
        "shared_memory_of_ring": ratios("shared_memory", "ring"),
        "socket_of_pyzmq": ratios("socket", "pyzmq"),
        "rates": {name: [round(value, 1) for value in values] for name, values in rates.items()},
        "bytes": {size: sample_spec(size)[2] for size in SIZES},
        "hardware": describe(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
