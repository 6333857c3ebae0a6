"""The policy worker: batches of whatever has arrived, and parameters that only ever get newer."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from envs.toy import CountingConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.base.arrays import Arrays
from srl_core.config import ActorConfig, Experiment, PolicyWorkerConfig
from srl_core.networks.config import NetworkConfig
from srl_core.streams import BACKENDS
from tests.workers.world import World, world

ROWS = 4
PATIENCE = 20.0


def experiment(**policy_worker) -> Experiment:
    return Experiment(
        CountingConfig(),
        PPOConfig(network=NetworkConfig(hidden=(8,))),
        actor=ActorConfig(count=3, ring_size=2, envs_per_member=ROWS, inference="remote"),
        policy_worker=PolicyWorkerConfig(**policy_worker),
    )


def request(number: int, rows: int = ROWS) -> Arrays:
    random = np.random.default_rng(number)
    return {
        "observation.vector": random.normal(size=(rows, 1)).astype(np.float32),
        "first": np.zeros(rows, bool),
        "noise": random.random((rows, 1), dtype=np.float32),
    }


def clients(w: World, *indices: int):
    link = w.channels["default"].inference
    assert link is not None
    made = [link.client(i) for i in indices]
    for client in made:
        w._stack.callback(client.close)
    return made


def collect(client, member: int = 0) -> Arrays:
    reply = client.collect(member, PATIENCE)
    assert reply is not None
    return reply


def poll_until(worker, w: World, requests: int) -> list[int]:
    """Poll until so many rows are answered; returns the rows of each batch."""
    row, sizes = w.table.row(worker.name), []
    while row.get("requests") < requests:
        before = row.get("requests")
        assert worker.poll(PATIENCE).busy
        sizes.append(int(row.get("requests") - before))
    return sizes


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_that_has_arrived_is_one_batch_and_everybody_gets_their_own_reply(tmp_path: Path, backend: str) -> None:
    with world(experiment(), tmp_path, backend) as w:
        worker, asking = w.worker("policy-default-0"), clients(w, 0, 1, 2)
        for i, client in enumerate(asking):
            for member in range(2):
                client.post(member, request(2 * i + member, rows=member + 3))
            client.flush()
        sizes = poll_until(worker, w, 3 * (3 + 4))
        assert len(sizes) <= 3  # 1 but for messages that were still under way
        alone = w.experiment.algorithm.build_policy(w.spec, device="cpu", seed=w.experiment.seed)
        for i, client in enumerate(asking):
            for member in range(2):
                reply, expected = collect(client, member), alone.act(request(2 * i + member, rows=member + 3))
                for name in expected:
                    np.testing.assert_allclose(reply[name], expected[name], rtol=1e-5, atol=1e-6)
                assert (reply["version"] == 0).all()


def test_a_batch_is_bounded_and_nothing_is_left_out(tmp_path: Path) -> None:
    with world(experiment(max_batch_size=2 * ROWS + 1), tmp_path) as w:
        worker, asking = w.worker("policy-default-0"), clients(w, 0, 1, 2)
        for client in asking:
            for member in range(2):
                client.post(member, request(member))
            client.flush()
        assert poll_until(worker, w, 6 * ROWS) == [2 * ROWS] * 3  # whole requests
        assert not worker.poll(0.0).busy
        assert all(client.collect(member, 0.0) is not None for client in asking for member in range(2))


def test_a_request_larger_than_the_bound_is_served_all_the_same(tmp_path: Path) -> None:
    with world(experiment(max_batch_size=1), tmp_path) as w:
        worker, (client,) = w.worker("policy-default-0"), clients(w, 0)
        client.post(0, request(0))
        client.flush()
        assert poll_until(worker, w, ROWS) == [ROWS]


@pytest.mark.parametrize("backend", ["shared_memory", "socket"])
def test_a_lone_request_is_served_at_once(tmp_path: Path, backend: str) -> None:
    """No timer gathers a batch: a round trip takes far less than the poll may wait."""
    with world(experiment(), tmp_path, backend) as w:
        worker, (client,) = w.worker("policy-default-0"), clients(w, 0)
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                worker.poll(5.0)

        thread = threading.Thread(target=serve)
        thread.start()
        client.post(0, request(0))
        client.flush()
        collect(client)
        began = time.monotonic()
        for number in range(20):
            client.post(0, request(number))
            client.flush()
            collect(client)
        seconds = time.monotonic() - began
        done.set()
        client.post(0, request(0))
        client.flush()
        thread.join()
        assert seconds < 5.0
        assert w.table.total("inference_batches") >= 21


def test_parameters_are_pulled_between_batches_and_versions_never_go_back(tmp_path: Path) -> None:
    with world(experiment(), tmp_path) as w:
        worker, (client,) = w.worker("policy-default-0"), clients(w, 0)
        service = w.channels["default"].parameters
        other = w.experiment.algorithm.build_policy(w.spec, device="cpu", seed=77)
        versions, values = [], []
        for number in range(6):
            if number in (2, 3):
                service.publish(number, other.read_parameters())
            client.post(0, request(0))
            client.flush()
            assert worker.poll(0.0).busy
            reply = collect(client)
            versions.append(int(reply["version"][0]))
            values.append(reply["value"])
        assert versions == [0, 0, 2, 3, 3, 3]
        np.testing.assert_array_equal(values[1], values[0])
        np.testing.assert_allclose(values[2], other.act(request(0))["value"], rtol=1e-5)
        assert not np.allclose(values[2], values[0])


def test_parameters_are_looked_for_no_more_often_than_configured(tmp_path: Path) -> None:
    with world(experiment(pull_seconds=600.0), tmp_path) as w:
        worker, (client,) = w.worker("policy-default-0"), clients(w, 0)
        service = w.channels["default"].parameters
        versions = []
        for number in range(1, 4):
            service.publish(number, service.read()[1])  # type: ignore[index]
            client.post(0, request(0))
            client.flush()
            worker.poll(0.0)
            versions.append(int(collect(client)["version"][0]))
        assert versions == [1, 1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_idle_worker_waits_no_longer_than_it_may(tmp_path: Path, backend: str) -> None:
    with world(experiment(), tmp_path, backend) as w:
        worker = w.worker("policy-default-0")
        began = time.monotonic()
        assert not worker.poll(0.1).busy
        assert time.monotonic() - began < 5
        assert w.table.total("inference_batches") == 0
