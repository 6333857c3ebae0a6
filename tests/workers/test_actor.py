"""A real actor over real streams: what it sends, to whom, and what it counts."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from envs.null import NullConfig
from envs.toy import CountingConfig, CountingVector, MemoryConfig
from envs.toy_agents import ScriptedAgentsConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.api import EnvironmentConfig, Tick
from srl_core.base.arrays import Arrays
from srl_core.base.errors import RunError
from srl_core.config import (
    ActorConfig,
    Experiment,
    PolicyWorkerConfig,
    RouteConfig,
    StreamsConfig,
    TrajectoryConfig,
)
from srl_core.networks.config import NetworkConfig
from srl_core.streams import BACKENDS
from tests.workers.world import world

EACH_STEP = TrajectoryConfig(sample_steps=1)


def scripted(*routes: RouteConfig, num_envs: int = 1) -> Experiment:
    return Experiment(
        ScriptedAgentsConfig(),
        NullAlgorithmConfig(),
        routes=routes,
        trajectory=EACH_STEP,
        actor=ActorConfig(count=1, envs_per_member=num_envs),
    )


def steps_of(samples: list[Arrays]) -> list[tuple]:
    """(agent, step, reward, end, first, valid) of every trajectory's first step, in order."""
    found = []
    for sample in samples:
        for b in range(sample["reward"].shape[1]):
            agent, step = sample["observation.vector"][0, b].astype(int).tolist()
            end = "T" if sample["terminated"][0, b] else "t" if sample["truncated"][0, b] else ""
            flags = (bool(sample["first"][0, b]), bool(sample["valid"][0, b]))
            found.append((agent, step, float(sample["reward"][0, b]), end, *flags))
    return found


LIVES = {
    0: [
        (0, 0, 1.0, "", True, True),
        (0, 1, 2.0, "", False, True),
        (0, 2, 3.0, "T", False, True),
        (0, 3, 0.0, "", False, False),
        (0, 8, 9.0, "", True, True),
        (0, 9, 10.0, "", False, True),
        (0, 10, 11.0, "", False, True),
        (0, 11, 12.0, "T", False, True),
        (0, 12, 0.0, "", False, False),
    ],
    1: [
        (1, 0, 1.0, "", True, True),
        (1, 1, 5.0, "", False, True),  # step 3 pays too, though the agent does not act in it
        (1, 3, 4.0, "", False, True),
        (1, 4, 5.0, "t", False, True),
        (1, 5, 0.0, "", False, False),
    ],
    2: [(2, s, s + 1.0, "T" if s == 7 else "", s == 0, True) for s in range(8)] + [(2, 8, 0.0, "", False, False)],
}


def test_agents_that_come_and_go_are_trajectories_of_their_own(tmp_path: Path) -> None:
    with world(scripted(RouteConfig()), tmp_path) as w:
        steps = steps_of(w.act(w.worker("actor-0"), 60)["default"])
    for agent, life in LIVES.items():
        mine = [s for s in steps if s[0] == agent]
        assert mine[: 3 * len(life)] == 3 * life


def test_routes_split_agents_between_policies(tmp_path: Path) -> None:
    routes = (RouteConfig("early", "a"), RouteConfig("late", "b", train=False), RouteConfig(".*", "b"))
    with world(scripted(*routes), tmp_path) as w:
        samples = w.act(w.worker("actor-0"), 60)
    a, b = steps_of(samples["a"]), steps_of(samples["b"])
    assert a[:27] == 3 * LIVES[0]
    assert b[:15] == 3 * LIVES[1]
    assert {s[0] for s in a} == {0}
    assert {s[0] for s in b} == {1}  # what is not trained on is not sent


def test_a_policy_that_is_not_trained_sends_nothing(tmp_path: Path) -> None:
    with world(scripted(RouteConfig("late", "frozen", train=False), RouteConfig(".*", "a")), tmp_path) as w:
        samples = w.act(w.worker("actor-0"), 60)
        assert w.channels["frozen"].samples is None
    assert samples["frozen"] == []
    assert {s[0] for s in steps_of(samples["a"])} == {0, 1}


@pytest.mark.parametrize(
    ("routes", "counted"),
    [
        ((RouteConfig(),), set(range(12))),
        ((RouteConfig("early", "a"), RouteConfig(".*", "b")), set(range(12))),
        # Steps in which only agents act that are not trained are in no sample.
        (
            (RouteConfig("early", "a"), RouteConfig("middle", "b"), RouteConfig("late", "b", train=False)),
            {0, 1, 2, 3, 4, 8, 9, 10, 11},
        ),
    ],
    ids=["one", "two", "untrained"],
)
def test_shares_of_all_policies_sum_to_the_env_steps(tmp_path: Path, routes: tuple, counted: set) -> None:
    games = 4
    with world(scripted(*routes), tmp_path) as w:
        actor = w.worker("actor-0")
        samples = w.act(actor, 13 * (games + 1) + 2)
    shares: dict[int, list[float]] = {s: [] for s in range(13)}
    seen: dict[tuple[int, int], int] = {}
    for sample in [s for group in samples.values() for s in group]:
        for b in range(sample["reward"].shape[1]):
            agent, step = sample["observation.vector"][0, b].astype(int).tolist()
            game = seen[agent, step] = seen.get((agent, step), -1) + 1
            if game < games:
                shares[step].append(float(sample["env_steps"][0, b]))
    for step, parts in shares.items():
        assert sum(parts) == pytest.approx(games if step in counted else 0), step


@pytest.mark.parametrize("inference", ["inline", "remote"])
def test_env_steps_frames_and_agent_steps_are_counted_apart(tmp_path: Path, inference: str) -> None:
    experiment = Experiment(
        NullConfig(shape=(8,), agents=3, frame_skip=4, episode_steps=7),
        NullAlgorithmConfig(),
        trajectory=EACH_STEP,
        actor=ActorConfig(count=1, ring_size=2, envs_per_member=5, inference=inference),  # type: ignore[arg-type]
    )
    with world(experiment, tmp_path) as w:
        servers = [w.worker("policy-default-0")] if inference == "remote" else []
        actor = w.worker("actor-0")
        built = [CountedVector(environment) for environment in actor._ring]
        actor._ring = built
        samples = w.act(actor, 400, *servers)["default"]
        counts = w.table.row("actor-0").values()
    true_steps = sum(b.env_steps for b in built)
    assert true_steps > 1000
    assert counts["env_steps_generated"] == true_steps
    assert counts["frames"] == 4 * true_steps
    assert 0 <= counts["agent_steps"] - 3 * true_steps <= 2 * 15  # what is asked but not yet done
    assert counts["episodes"] == true_steps // 7 - (true_steps // 7) % 5
    assert counts["return_sum"] == 7 * counts["episodes"]
    shares = sum(float(s["env_steps"][0].sum()) for s in samples)
    assert 0 <= true_steps - shares <= 2 * 5


class CountedVector:
    """Counts what really happens: steps from an observation that did not end a game."""

    def __init__(self, environment) -> None:
        self._environment, self.spec = environment, environment.spec
        self.env_steps, self._over = 0, False

    def reset(self, seed: int) -> Tick:
        return self._environment.reset(seed)

    def send(self, actions: np.ndarray) -> None:
        self._environment.send(actions)

    def recv(self) -> Tick:
        tick = self._environment.recv()
        self.env_steps += 0 if self._over else self.spec.num_envs
        self._over = bool(tick.episodes)
        return tick

    def close(self) -> None:
        self._environment.close()


RECURRENT = Experiment(
    MemoryConfig(symbols=3, delay=2),
    PPOConfig(network=NetworkConfig(hidden=(16,), recurrent="lstm", recurrent_size=8), chunk_steps=5),
    trajectory=TrajectoryConfig(sample_steps=5),
    actor=ActorConfig(count=1, ring_size=2, envs_per_member=3, inference="remote"),
)


def trajectories(experiment: Experiment, path: Path, backend: str, servers: int = 1) -> list[Arrays]:
    with world(experiment, path, backend) as w:
        workers = [
            w.worker("policy-default-0") for _ in range(servers if experiment.actor.inference == "remote" else 0)
        ]
        actor = w.worker("actor-0")
        samples: list[Arrays] = []
        while len(samples) < 12:
            samples += w.act(actor, 5, *workers)["default"]
        return samples[:12]


def assert_equal_samples(a: list[Arrays], b: list[Arrays]) -> None:
    for x, y in zip(a, b, strict=True):
        assert x.keys() == y.keys()
        for name in x:
            if name in ("log_prob", "value") or name.startswith("state."):  # sums in batches of another size
                np.testing.assert_allclose(x[name], y[name], rtol=1e-5, atol=1e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(x[name], y[name], err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inference", ["inline", "remote"])
def test_same_seed_same_trajectories_over_every_stream(tmp_path: Path, backend: str, inference: str) -> None:
    expected = trajectories(RECURRENT, tmp_path, "inline")
    other = replace(RECURRENT, actor=replace(RECURRENT.actor, inference=inference))
    assert_equal_samples(trajectories(other, tmp_path, backend), expected)
    assert len({s["action"].tobytes() for s in expected}) > 6
    different = replace(RECURRENT, seed=2)
    assert trajectories(different, tmp_path, "inline")[0]["action"].tobytes() != expected[0]["action"].tobytes()


def test_recurrent_state_travels_so_any_policy_worker_may_serve(tmp_path: Path) -> None:
    assert_equal_samples(trajectories(RECURRENT, tmp_path, "inline", 2), trajectories(RECURRENT, tmp_path, "inline", 1))


@dataclass(frozen=True)
class SameStep(EnvironmentConfig):
    """Counting environments that restart within the step that ends a game."""

    kind: ClassVar[str] = "same_step"
    steps: int = 4

    def build(self, num_envs: int, *, training: bool) -> SameStepVector:
        return SameStepVector(CountingConfig(steps=self.steps), num_envs)


class SameStepVector(CountingVector):
    def recv(self) -> Tick:
        tick = super().recv()
        if not tick.episodes:
            return replace(
                tick, final_observation={"vector": np.zeros((0, 1), np.float32)}, final_rows=np.zeros(0, int)
            )
        after = super().recv()  # all games end together
        rows = np.arange(self.spec.num_envs)
        return replace(
            tick,
            observation=after.observation,
            active=after.active,
            first=after.first,
            final_observation=tick.observation,
            final_rows=rows,
        )


def counting(environment: EnvironmentConfig, inference: str) -> Experiment:
    return Experiment(
        environment,
        NullAlgorithmConfig(),
        trajectory=TrajectoryConfig(sample_steps=6),
        actor=ActorConfig(count=1, envs_per_member=3, inference=inference),  # type: ignore[arg-type]
        policy_worker=PolicyWorkerConfig(),
    )


@pytest.mark.parametrize("inference", ["inline", "remote"])
def test_final_observations_come_through_whatever_the_autoreset_mode(tmp_path: Path, inference: str) -> None:
    with world(counting(CountingConfig(steps=4), "inline"), tmp_path) as w:
        expected = w.act(w.worker("actor-0"), 40)["default"]
    with world(counting(SameStep(), inference), tmp_path, "shared_memory") as w:
        if inference == "remote":
            server = w.worker("policy-default-0")
            thread = threading.Thread(target=serve, args=(server, w.stop))
            thread.start()
        samples = w.act(w.worker("actor-0"), 40)["default"]
        w.stop.set()
        if inference == "remote":
            thread.join()
    assert len(expected) >= 5
    for a, b in zip(samples, expected, strict=False):
        for name in ("observation.vector", "reward", "terminated", "truncated", "first", "valid", "env_steps"):
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert not expected[0]["valid"].all()


def serve(worker, stop) -> None:
    from srl_core.api import Stopped

    try:
        while not stop.is_set():
            worker.poll(0.05)
    except Stopped:
        return


def test_same_step_autoreset_cannot_wait_for_a_server_of_its_own_thread(tmp_path: Path) -> None:
    with world(counting(SameStep(), "remote"), tmp_path) as w:
        server, actor = w.worker("policy-default-0"), w.worker("actor-0", deterministic=True)
        with pytest.raises(RunError, match=r"actor\.inference=inline"):
            w.act(actor, 10, server)


def test_waiting_for_a_reply_ends_in_time_and_is_counted(tmp_path: Path) -> None:
    with world(RECURRENT, tmp_path, "shared_memory") as w:
        actor = w.worker("actor-0")
        assert not actor.poll(0.2).busy
        assert 0.1 < w.table.row("actor-0").get("wait_seconds") < 5


def test_dropped_trajectories_are_counted_over_an_exact_resume(tmp_path: Path) -> None:
    experiment = Experiment(
        CountingConfig(),
        NullAlgorithmConfig(),
        trajectory=EACH_STEP,
        actor=ActorConfig(count=1, envs_per_member=2),
        streams=StreamsConfig(when_full="drop_oldest"),
    )
    dropped, state = [0.0], None
    for part in range(2):
        with world(experiment, tmp_path / str(part), slots=1) as w:
            actor = w.worker("actor-0", deterministic=True)
            if state is not None:
                actor.load_state_dict(state)
            for _ in range(10):
                actor.poll(0.0)
            dropped.append(w.table.total("dropped_trajectories"))
            state = actor.state_dict()
    # Nobody reads: of all samples of two trajectories, each part keeps the last one.
    assert dropped[1] > 0
    assert dropped[2] >= 2 * dropped[1]
