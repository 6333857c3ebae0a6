"""The deterministic launcher: one seed, one result; resume is exact to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srl_core.base.errors import UserError
from srl_core.config import BudgetConfig, EvaluationConfig, Experiment, to_json
from srl_core.launchers import run_experiment
from srl_core.services.checkpoints import Checkpoints
from srl_core.services.metrics import read_records
from tests.launchers.experiments import small_cartpole


def final_state(run_dir: Path) -> dict:
    found = Checkpoints(run_dir / "checkpoints" / "default").load_latest()
    assert found is not None
    return found[1]


def digest(state: object) -> str:
    """SHA-256 over every array and number of a nested state, training time left out."""
    h = hashlib.sha256()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for key in sorted(value, key=str):
                if key != "t":
                    h.update(str(key).encode())
                    walk(value[key])
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, np.ndarray):
            h.update(value.dtype.name.encode() + value.tobytes())
        else:
            h.update(repr(value).encode())

    walk(state)
    return h.hexdigest()


def without_clocks(state: dict) -> dict:
    """The state without counters of elapsed time."""
    launcher = state["launcher"]
    if launcher is not None:
        actors = [
            {**a, "row": {k: v for k, v in a["row"].items() if k not in ("wait_seconds", "heartbeat", "cpu_seconds")}}
            for a in launcher["actors"]
        ]
        state = {**state, "launcher": {"actors": actors}}
    return state


def run(experiment: Experiment, path: Path, *, resume: bool = False) -> dict:
    run_experiment(experiment, path, launcher="inline", resume=resume)
    return without_clocks(final_state(path))


VARIANTS = {
    "plain": {},
    "reuse": {"trainer": {"sample_reuse": 3, "queue_size": 2}},
    "publish_every_3": {"trainer": {"publish_every": 3}},
    "ring": {"actor": {"ring_size": 3}},
    "wide_samples": {"actor": {"envs_per_member": 12}},
}


def variant(name: str) -> Experiment:
    experiment = small_cartpole()
    for group, fields in VARIANTS[name].items():
        experiment = replace(experiment, **{group: replace(getattr(experiment, group), **fields)})
    return experiment


@pytest.mark.parametrize("name", VARIANTS)
def test_same_seed_same_weights(tmp_path: Path, name: str) -> None:
    experiment = variant(name)
    first, second = run(experiment, tmp_path / "a"), run(experiment, tmp_path / "b")
    assert digest(first) == digest(second)
    other = run(replace(experiment, seed=2), tmp_path / "c")
    assert digest(first["algorithm"]) != digest(other["algorithm"])


@pytest.mark.parametrize("name", VARIANTS)
def test_resume_is_exact(tmp_path: Path, name: str) -> None:
    """n updates straight equal k, a stop, and n - k more: parameters, optimizer, RNG, environments, counters."""
    experiment = variant(name)
    straight = run(experiment, tmp_path / "straight")
    half = replace(experiment, budget=BudgetConfig(updates=9))
    path = tmp_path / "resumed"
    run(half, path)
    (path / "config.json").write_text(json.dumps(to_json(experiment)))  # a longer budget for the second part
    resumed = run(experiment, path, resume=True)
    assert resumed["updates"] == straight["updates"] == 20
    assert digest(resumed) == digest(straight)


KILLED = """
import json, os, sys
from pathlib import Path
from srl_core.config import experiment_from_json
from srl_core.launchers import run_experiment
from srl_core.workers.trainer import TrainerWorker

updates, save = int(sys.argv[2]), TrainerWorker.save
def save_then_die(self, launcher=None):
    save(self, launcher)
    if self.updates >= updates:
        os.kill(os.getpid(), 9)
TrainerWorker.save = save_then_die
run_experiment(experiment_from_json(json.load(sys.stdin)), Path(sys.argv[1]), launcher="inline")
"""


@pytest.mark.integration
def test_fifty_updates_kill_and_fifty_more_equal_a_hundred(tmp_path: Path) -> None:
    experiment = replace(small_cartpole(), budget=BudgetConfig(updates=100))
    straight = run(experiment, tmp_path / "straight")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed"), "50"],
        input=json.dumps(to_json(experiment)).encode(),
        check=False,
        cwd=os.getcwd(),
    )
    assert done.returncode == -9
    assert final_state(tmp_path / "killed")["updates"] == 50
    assert digest(run(experiment, tmp_path / "killed", resume=True)) == digest(straight)


def test_counts_equal_what_was_done(tmp_path: Path) -> None:
    experiment = small_cartpole()
    result = run_experiment(experiment, tmp_path / "run", launcher="inline")
    counts = result.counts
    assert counts["updates"] == 20
    # Final observations and resets are no env steps; everything else in 20 batches of 8 x 16 is.
    assert 0.8 * 20 * 128 < counts["env_steps_consumed"] <= 20 * 128
    assert counts["env_steps_consumed"] * experiment.algorithm.epochs == counts["gradient_samples"]  # type: ignore[attr-defined]
    assert counts["env_steps_generated"] >= counts["env_steps_consumed"]
    assert counts["frames"] == counts["env_steps_generated"]
    records = list(read_records(tmp_path / "run" / "metrics.jsonl", "train"))
    assert len(records) == 20
    steps = [r["env_steps"] for r in records]
    assert steps == sorted(steps)
    assert steps[-1] == counts["env_steps_consumed"]


def test_evaluation_changes_nothing_in_training(tmp_path: Path) -> None:
    experiment = small_cartpole()
    plain = run(experiment, tmp_path / "plain")
    evaluation = EvaluationConfig(interval_seconds=0.05, final=True, episodes=4, envs=2)
    evaluated = run(replace(experiment, evaluation=evaluation), tmp_path / "evaluated")
    assert digest(plain) == digest(evaluated)
    records = list(read_records(tmp_path / "evaluated" / "metrics.jsonl", "evaluation"))
    assert records
    assert records[-1]["final"] == 1
    assert all(len(r["returns"]) == 4 for r in records)


def test_a_finished_directory_is_not_overwritten(tmp_path: Path) -> None:
    run(small_cartpole(), tmp_path / "run")
    with pytest.raises(UserError, match="holds a run already"):
        run(small_cartpole(), tmp_path / "run")
