"""The trainer: which batches it trains on, in what order, what it publishes, and when it is done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from envs.toy import CountingConfig
from envs.toy_agents import ScriptedAgentsConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig, NullPolicy
from srl_core.api import EnvironmentSpec, SampleBatch
from srl_core.base.arrays import Arrays
from srl_core.base.errors import RunError
from srl_core.config import (
    ActorConfig,
    BudgetConfig,
    Experiment,
    RouteConfig,
    StreamsConfig,
    TrainerConfig,
    TrajectoryConfig,
)
from srl_core.launchers import run_experiment
from srl_core.services.checkpoints import Checkpoints
from srl_core.workers.trainer import TrainerWorker
from tests.workers.world import World, world

STEPS, COLUMNS = 4, 3


@dataclass(frozen=True)
class RecordingConfig(NullAlgorithmConfig):
    """An algorithm whose parameters tell the whole sequence of batches."""

    kind: ClassVar[str] = "recording"

    def build(self, environment: EnvironmentSpec, *, device: str, seed: int) -> Recording:
        return Recording(environment)


class RecordingPolicy(NullPolicy):
    def __init__(self, environment: EnvironmentSpec) -> None:
        super().__init__(environment)
        self.parameters = np.zeros(1, np.float32)

    def read_parameters(self) -> Arrays:
        return {"updates": self.parameters.copy()}


class Recording:
    def __init__(self, environment: EnvironmentSpec) -> None:
        self.policy = RecordingPolicy(environment)
        self.skip_reason = "not finite: loss"
        self.trained: list[tuple[int, int]] = []
        """(number, uses before) of each batch."""
        self.versions: list[int] = []
        self.skip: list[int] = []

    def update(self, batch: SampleBatch) -> dict[str, float]:
        number = int(batch.arrays["action"][0, 0, 0])
        self.trained.append((number, batch.uses))
        self.versions.append(int(batch.arrays["version"].min()))
        self.policy.parameters = np.cos(7 * self.policy.parameters + number).astype(np.float32)
        skipped = float(self.skip.pop(0) if self.skip else 0)
        return {"gradient_steps": 1 - skipped, "gradient_samples": float(STEPS * COLUMNS), "skipped": skipped}

    def state_dict(self) -> dict[str, Any]:
        return {"parameters": {"updates": self.policy.parameters}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.policy.parameters = np.array(state["parameters"]["updates"])


def experiment(budget: BudgetConfig | None = None, **trainer) -> Experiment:
    return Experiment(
        CountingConfig(),
        RecordingConfig(),
        trajectory=TrajectoryConfig(sample_steps=STEPS),
        actor=ActorConfig(count=1, envs_per_member=COLUMNS),
        trainer=TrainerConfig(**{"batch_size": COLUMNS, "checkpoint_seconds": 600, "prefetch": False, **trainer}),
        budget=budget or BudgetConfig(),
    )


def send(w: World, number: int, version: int = 0) -> None:
    """One batch of samples that carry `number`."""
    channel = w.channels["default"]
    sample = channel.samples_spec.empty(COLUMNS)
    sample["action"][...], sample["version"][...], sample["valid"][...] = number, version, True
    sample["env_steps"][...] = 1.0
    assert channel.samples is not None
    channel.samples.producer(0).put(sample)


def trainer_of(w: World) -> tuple[TrainerWorker, Recording]:
    worker = w.worker("trainer-default-0")
    assert isinstance(worker.algorithm, Recording)
    return worker, worker.algorithm


def drain(worker: TrainerWorker, polls: int = 100) -> bool:
    """Poll until nothing is left; whether it finished."""
    for _ in range(polls):
        result = worker.poll(0.0)
        if result.finished or not result.busy:
            return result.finished
    raise AssertionError("the trainer never rests")


@pytest.mark.parametrize(
    ("budget", "updates"),
    [(BudgetConfig(updates=3), 3), (BudgetConfig(env_steps=4 * STEPS * COLUMNS), 4), (BudgetConfig(env_steps=25), 3)],
)
def test_training_ends_with_its_budget(tmp_path: Path, budget: BudgetConfig, updates: int) -> None:
    with world(experiment(budget), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        for number in range(7):
            send(w, number)
        assert drain(worker)
        assert len(algorithm.trained) == updates == w.table.total("updates")
        assert w.table.total("env_steps_consumed") == updates * STEPS * COLUMNS
        assert w.channels["default"].parameters.version() == updates
        worker.drain()
        assert Checkpoints(tmp_path / "checkpoints" / "default").load_latest()[1]["updates"] == updates  # type: ignore[index]


def test_training_ends_when_the_evaluator_says_so_or_time_is_up(tmp_path: Path) -> None:
    with world(experiment(BudgetConfig(target_return=1.0)), tmp_path / "a") as w:
        worker, algorithm = trainer_of(w)
        send(w, 0)
        assert not drain(worker)
        w.table.row("actor-0").set("target_reached", 1)
        send(w, 1)
        assert drain(worker)
        assert len(algorithm.trained) == 2
    with world(experiment(BudgetConfig(seconds=1e-6)), tmp_path / "b") as w:
        assert trainer_of(w)[0].poll(0.0).finished


def test_parameters_are_published_every_so_many_updates(tmp_path: Path) -> None:
    with world(experiment(publish_every=3), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        seen = []
        for number in range(8):
            send(w, number)
            worker.poll(0.0)
            version, parameters = w.channels["default"].parameters.read()  # type: ignore[misc]
            seen.append(version)
            if (number + 1) % 3 == 0:
                np.testing.assert_array_equal(parameters["updates"], algorithm.policy.parameters)
        assert seen == [0, 0, 1, 1, 1, 2, 2, 2]


def test_no_batch_older_than_the_bound_is_trained_on(tmp_path: Path) -> None:
    with world(experiment(max_staleness=1, queue_size=3), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        ages = np.random.default_rng(0).integers(0, 4, 60)
        for number, age in enumerate(ages):
            send(w, number, max(0, worker.version - int(age)))
            if number % 4 == 3:  # some wait in the queue and age there
                drain(worker)
        drain(worker)
        records = w.records.of("train")
        assert w.table.total("stale_batches") > 10
        assert len(algorithm.trained) + w.table.total("stale_batches") == 60
        assert len(algorithm.trained) > 5
        assert all(0 <= r["staleness"] <= 1 for r in records)
        for before, version in enumerate(algorithm.versions):
            assert version >= before - 1  # one version for each update


def test_a_batch_that_grew_stale_loses_its_other_uses_too(tmp_path: Path) -> None:
    with world(experiment(max_staleness=1, sample_reuse=4, queue_size=1), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        send(w, 0)
        drain(worker)
        assert algorithm.trained == [(0, 0), (0, 1)]
        assert w.table.total("stale_batches") == 1


def test_batches_are_used_again_in_the_order_of_the_rule(tmp_path: Path) -> None:
    """Most uses left first, then newest; worked out by hand for a queue of two and three uses."""
    with world(experiment(sample_reuse=3, queue_size=2), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        for number in range(3):
            send(w, number)
        drain(worker)
        # 0 and 1 wait. 1 is newer; while it is trained on, nothing arrives. Then 0 has more uses left than 1.
        # Both have two left now: 1 again. Then 0; one left each: 1, which leaves for good. 2 takes its place: it has
        # more uses left than 0 until both have one, and then it is the newer.
        expected = [(1, 0), (0, 0), (1, 1), (0, 1), (1, 2), (2, 0), (2, 1), (2, 2), (0, 2)]
        assert algorithm.trained == expected
        assert w.table.total("dropped_batches") == w.table.total("dropped_reuses") == 0
        assert w.table.total("env_steps_consumed") == 3 * STEPS * COLUMNS  # each step counts once
        assert w.table.total("gradient_samples") == 9 * STEPS * COLUMNS


def test_where_streams_drop_the_newest_batch_is_always_taken_in(tmp_path: Path) -> None:
    base = experiment(sample_reuse=3, queue_size=1)
    with world(replace(base, streams=StreamsConfig(when_full="drop_oldest")), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        send(w, 0)
        worker.poll(0.0)
        send(w, 1)
        drain(worker)
        assert algorithm.trained == [(0, 0), (1, 0), (1, 1), (1, 2)]
        assert w.table.total("dropped_reuses") == 2
        assert w.table.total("dropped_batches") == 0


def test_prefetching_gives_the_same_parameters(tmp_path: Path) -> None:
    sequences = []
    for prefetch in (False, True):
        with world(experiment(prefetch=prefetch, queue_size=1), tmp_path / str(prefetch), "shared_memory") as w:
            worker, algorithm = trainer_of(w)
            sequence = []
            for number in range(20):
                send(w, number)
            while len(sequence) < 20:
                assert worker.poll(20.0).busy
                sequence.append(algorithm.policy.parameters.tobytes())
            w.stop.set()
        sequences.append(sequence)
        assert [number for number, _ in algorithm.trained] == list(range(20))
    assert sequences[0] == sequences[1]
    assert len(set(sequences[0])) == 20


def test_the_run_is_aborted_with_its_reason_after_too_many_skipped_updates(tmp_path: Path) -> None:
    with world(experiment(max_skipped=3), tmp_path) as w:
        worker, algorithm = trainer_of(w)
        algorithm.skip = [1, 1, 0, 1, 1, 1]
        for number in range(5):
            send(w, number)
            worker.poll(0.0)
        send(w, 5)
        with pytest.raises(RunError, match=r"3 updates in a row .*trainer\.max_skipped.* not finite: loss"):
            worker.poll(0.0)
        assert w.table.total("skipped_updates") == 5


@pytest.mark.parametrize(("seconds", "kept"), [(0.0, 2), (600.0, 1)])
def test_checkpoints_come_as_often_as_configured(tmp_path: Path, seconds: float, kept: int) -> None:
    with world(experiment(checkpoint_seconds=seconds, checkpoint_keep=2), tmp_path) as w:
        worker, _ = trainer_of(w)
        checkpoints = Checkpoints(tmp_path / "checkpoints" / "default")
        for number in range(4):
            send(w, number)
            worker.poll(0.0)
            found = checkpoints.load_latest()
            assert (found[1]["updates"] if found else 0) == (number + 1 if seconds == 0 else 0)
        worker.drain()
        found = checkpoints.load_latest()
        assert found is not None
        assert found[1]["updates"] == 4
        assert len([p for p in (tmp_path / "checkpoints" / "default").iterdir() if not p.name.startswith(".")]) == kept
    with world(experiment(), tmp_path) as w:  # and a new trainer goes on from there
        again, algorithm = trainer_of(w)
        assert (again.updates, again.version, again.env_steps) == (4, 4, 4 * STEPS * COLUMNS)
        np.testing.assert_array_equal(algorithm.policy.parameters, worker.algorithm.policy.parameters)  # type: ignore[attr-defined]


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("backend", ["inline", "shared_memory", "socket"])
def test_a_starved_trainer_waits_no_longer_than_it_may(tmp_path: Path, backend: str, prefetch: bool) -> None:
    with world(experiment(prefetch=prefetch), tmp_path, backend) as w:
        worker, _ = trainer_of(w)
        began = time.monotonic()
        assert not worker.poll(0.2).busy
        assert time.monotonic() - began < 5
        assert w.table.total("wait_seconds") < 5
        w.stop.set()


def test_a_batch_without_any_action_is_no_trouble(tmp_path: Path) -> None:
    with world(experiment(), tmp_path) as w:
        worker, _ = trainer_of(w)
        channel = w.channels["default"]
        assert channel.samples is not None
        channel.samples.producer(0).put(channel.samples_spec.empty(COLUMNS))
        assert worker.poll(0.0).busy
        assert w.records.of("train")[0]["staleness"] == 0


@pytest.mark.parametrize("launcher", ["inline", pytest.param("local", marks=pytest.mark.integration)])
def test_policies_whose_batches_fill_at_different_rates_all_get_their_updates(tmp_path: Path, launcher: str) -> None:
    """The trainer that is done first must not stop the actors on which the other one depends."""
    run = Experiment(
        ScriptedAgentsConfig(),
        NullAlgorithmConfig(),
        routes=(RouteConfig("middle", "slow"), RouteConfig(".*", "fast")),
        trajectory=TrajectoryConfig(sample_steps=4),
        actor=ActorConfig(count=1, envs_per_member=4),
        trainer=TrainerConfig(batch_size=8),
        budget=BudgetConfig(updates=12),
    )
    result = run_experiment(run, tmp_path / "run", launcher=launcher)  # type: ignore[arg-type]
    assert result.counts["updates"] == 24


def test_a_budget_of_env_steps_is_that_of_all_policies_together(tmp_path: Path) -> None:
    run = Experiment(
        CountingConfig(agents=2),
        NullAlgorithmConfig(),
        routes=(RouteConfig("player_0", "a"), RouteConfig(".*", "b")),
        trajectory=TrajectoryConfig(sample_steps=5),
        actor=ActorConfig(count=1, envs_per_member=4),
        trainer=TrainerConfig(batch_size=4),
        budget=BudgetConfig(env_steps=2000),
    )
    counts = run_experiment(run, tmp_path / "run", launcher="inline").counts
    assert 2000 <= counts["env_steps_consumed"] <= 2100
    assert counts["env_steps_consumed"] <= counts["env_steps_generated"] <= 2200
