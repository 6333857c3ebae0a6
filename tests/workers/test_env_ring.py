"""The environment ring: with step time e and reply time d, nothing waits once the ring has 1 + d / e members."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from envs.null import NullConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.api import Stopped
from srl_core.config import ActorConfig, Experiment, TrajectoryConfig
from tests.workers.world import World, world

STEP, REPLY, TICKS = 0.02, 0.05, 60
BASE = Experiment(
    NullConfig(shape=(8,), step_seconds=STEP, step_kind="sleep"),
    NullAlgorithmConfig(),
    trajectory=TrajectoryConfig(sample_steps=50),
    actor=ActorConfig(count=1, envs_per_member=1, inference="remote"),
)


def slow_server(w: World) -> None:
    """Answers each message `REPLY` seconds after it came, however many there are: a server with a long way to it."""
    link = w.channels["default"].inference
    assert link is not None
    server, due = link.server(0), deque()
    try:
        while not w.stop.is_set():
            wait = max(0.0, due[0][0] - time.monotonic()) if due else 0.05
            requests = server.receive(1, wait)
            if requests is not None:
                requests.arrays = {}
                due.append((time.monotonic() + REPLY, requests))
            while due and due[0][0] <= time.monotonic():
                asked = due.popleft()[1]
                n = asked.rows
                zero = np.zeros(n, np.float32)
                reply = {"action": np.zeros((n, 1), np.int64), "log_prob": zero, "value": zero}
                server.reply(asked, {**reply, "version": np.zeros(n, np.int64)})
    except Stopped:
        pass
    finally:
        server.close()


def idle_share(ring: int, path: Path) -> float:
    """Share of time in which the actor waits for replies and simulates nothing."""
    with world(replace(BASE, actor=replace(BASE.actor, ring_size=ring)), path, "shared_memory") as w:
        thread = threading.Thread(target=slow_server, args=(w,))
        thread.start()
        actor = w.worker("actor-0")
        ticks, waited, began = 0, 0.0, time.monotonic()
        while ticks < TICKS:
            before = time.monotonic()
            if actor.poll(5.0).busy:
                ticks += 1
            waited = w.table.total("wait_seconds")
            assert before - began < 60
        seconds = time.monotonic() - began
        w.stop.set()
        thread.join()
    return waited / seconds


@pytest.mark.slow
def test_idle_time_vanishes_with_a_ring_of_one_plus_reply_over_step(tmp_path: Path) -> None:
    enough = 1 + round(REPLY / STEP + 0.5)
    alone, ringed = idle_share(1, tmp_path / "1"), idle_share(enough + 1, tmp_path / "ring")
    assert alone > 0.4  # d / (d + e) is 0.7
    assert ringed < alone / 3
