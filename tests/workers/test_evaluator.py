"""Evaluation: whole games, an equal number from each environment, of one frozen version."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from envs.toy import ChainConfig, CountingConfig
from envs.toy_agents import ScriptedAgentsConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.api import PolicySpec
from srl_core.base.arrays import Arrays, ArraySpec
from srl_core.config import ActorConfig, EvaluationConfig, Experiment
from srl_core.launchers.topology import AgentRoute
from srl_core.networks.config import NetworkConfig
from srl_core.workers.evaluator import TAG, play_episodes
from tests.workers.world import world

ALL = AgentRoute("default", (0,), (0,))


@pytest.mark.parametrize(("episodes", "each"), [(6, 2), (7, 3), (1, 1)])
def test_every_environment_plays_as_many_games(episodes: int, each: int) -> None:
    """Games differ in length: with the first to end, short ones would count too often."""
    environment = ChainConfig(states=3, max_steps=30).build(3, training=False)
    policy = NullAlgorithmConfig().build_policy(environment.spec, device="cpu", seed=1)
    games = play_episodes(environment, [(policy, ALL)], episodes=episodes, seed=5, greedy=False)
    assert games is not None
    assert [game.env for game in games] == np.repeat([0, 1, 2], each).tolist()
    assert len({game.length for game in games}) > 1
    assert all(game.length == 30 or game.returns == (1.0,) for game in games)


class Remembering:
    """A policy whose recurrent state counts its own steps, and which keeps what it was asked."""

    def __init__(self, spec: PolicySpec) -> None:
        self.spec = spec
        self.asked: list[Arrays] = []

    def act(self, request: Arrays, *, greedy: bool = False) -> Arrays:
        self.asked.append({name: array.copy() for name, array in request.items()})
        n = len(request["first"])
        before = np.where(request["first"][:, None], 0, request["state.steps"])
        zero = np.zeros(n, np.float32)
        return {"action": np.zeros((n, 1), np.int64), "log_prob": zero, "value": zero, "state.steps": before + 1}


def test_an_absent_agent_keeps_its_recurrent_state() -> None:
    environment = ScriptedAgentsConfig().build(1, training=False)
    observation = environment.spec.observation
    policy = Remembering(PolicySpec(observation, {"steps": ArraySpec((1,), "float32")}, ArraySpec((1,), "int64")))
    games = play_episodes(environment, [(policy, AgentRoute("p", (1,), ()))], episodes=1, seed=0, greedy=False)  # type: ignore[list-item]
    assert games is not None
    assert games[0].returns == (48.0, 15.0, 36.0)
    # The middle agent acts at the observations 0, 1, 3 and 4; in between it is absent once.
    assert [policy.asked[t]["state.steps"][0, 0] for t in (1, 3, 4)] == [1, 2, 3]


def experiment(**evaluation) -> Experiment:
    return Experiment(
        CountingConfig(steps=5),
        PPOConfig(network=NetworkConfig(hidden=(4,))),
        actor=ActorConfig(count=1, envs_per_member=2),
        evaluation=EvaluationConfig(**{"episodes": 6, "envs": 3, **evaluation}),
    )


def test_one_frozen_version_is_played_and_reported(tmp_path: Path) -> None:
    with world(experiment(interval_seconds=1e-6), tmp_path) as w:
        worker, service = w.worker("evaluator-0"), w.channels["default"].parameters
        first, second = (
            w.experiment.algorithm.build_policy(w.spec, device="cpu", seed=s).read_parameters() for s in (8, 9)
        )
        service.publish(4, first)
        receive, parameters = worker._environment.recv, []

        def recv():
            if service.version() == 4:  # training goes on while the games are played
                service.publish(5, second)
            parameters.append(worker._policies[0][0].read_parameters())
            return receive()

        worker._environment.recv = recv
        assert worker.poll(0.0).busy
        assert len(parameters) >= 10
        for read in parameters:
            for name in first:
                np.testing.assert_array_equal(read[name], first[name])
        assert service.version(TAG) == 4
        assert service.version() == 5
        assert worker.poll(0.0).busy
        records = w.records.of("evaluation")
    assert [r["version"] for r in records] == [4, 5]
    assert all(r["returns"] == [5.0] * 6 and r["lengths"] == [5] * 6 and r["episodes"] == 6 for r in records)
    assert [r["final"] for r in records] == [0, 0]


def test_what_is_evaluated_is_in_no_count_of_training(tmp_path: Path) -> None:
    with world(experiment(interval_seconds=1e-6), tmp_path) as w:
        w.worker("evaluator-0").poll(0.0)
        for column in ("env_steps_generated", "frames", "agent_steps", "episodes", "return_sum", "updates"):
            assert w.table.total(column) == 0, column
        assert w.table.total("evaluations") == 1
        assert w.table.total("evaluation_return") == 5.0
        assert w.arrived() == []


def test_the_last_version_is_evaluated_once_after_training(tmp_path: Path) -> None:
    with world(experiment(final=True), tmp_path) as w:
        worker, trainer = w.worker("evaluator-0", deterministic=True), w.table.row("trainer-default-0")
        assert not worker.poll(0.0).busy
        trainer.set("finished", 1)
        assert worker.poll(0.0).finished
        assert worker.poll(0.0).finished
        assert [r["final"] for r in w.records.of("evaluation")] == [1]


def test_an_evaluation_ends_at_once_when_the_run_stops(tmp_path: Path) -> None:
    with world(experiment(interval_seconds=1e-6, episodes=10**6), tmp_path) as w:
        worker = w.worker("evaluator-0")
        w.stop.set()
        began = time.monotonic()
        worker.poll(0.0)
        assert time.monotonic() - began < 5
        assert w.records.of("evaluation") == []
