"""Runs that end before or beside their work: nothing half-written, no process left, the first cause told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from srl_core.base.errors import RunError, UserError
from srl_core.base.processes import Child
from srl_core.config import BudgetConfig, StreamsConfig
from srl_core.launchers import Progress, run_experiment
from srl_core.launchers.finish import finish_run, record_progress
from srl_core.launchers.local import root_cause
from srl_core.launchers.prepare import make_table, prepare
from srl_core.services.checkpoints import Checkpoints
from srl_core.workers.context import RunClock
from tests.launchers.experiments import null_run


def status(run: Path) -> str:
    return json.loads((run / "metadata.json").read_text())["status"]


def test_too_little_memory_for_streams_leaves_no_directory(tmp_path: Path) -> None:
    experiment = null_run(streams=StreamsConfig(slots=100_000_000))
    with pytest.raises(UserError, match="shared memory for"):
        run_experiment(experiment, tmp_path / "new" / "run")
    assert not (tmp_path / "new" / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".mine").touch()
    with pytest.raises(UserError, match="shared memory for"):
        run_experiment(experiment, tmp_path / "run")
    assert os.listdir(tmp_path / "run") == [".mine"]


@pytest.mark.parametrize("launcher", ["inline", "local"])
def test_a_resume_that_cannot_begin_is_marked_failed(tmp_path: Path, launcher: str) -> None:
    experiment = null_run(budget=BudgetConfig(updates=2))
    run_experiment(experiment, tmp_path, launcher="inline")
    for state in (tmp_path / "checkpoints").rglob("state.json"):
        state.write_text("{}")
    with pytest.raises(RunError, match="can be read"):
        run_experiment(experiment, tmp_path, launcher=launcher, resume=True)  # type: ignore[arg-type]
    assert status(tmp_path) == "failed"


def test_metadata_that_cannot_be_written_hides_no_cause(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prepared = prepare(null_run(), tmp_path, resume=False)
    run, table, clock = prepared.run, make_table(prepared), RunClock(time.monotonic())
    (tmp_path / "metadata.json").unlink()
    (tmp_path / "metadata.json").mkdir()  # like a full disk, it takes no file
    record_progress(run, table, clock)
    assert "metadata.json cannot be written" in caplog.text
    with pytest.raises(RunError, match="the real cause"):
        finish_run(run, table, clock, error=RunError("the real cause"), signal=None)
    with pytest.raises(RunError, match=r"metadata\.json cannot be written"):
        finish_run(run, table, clock, error=None, signal=None)
    run.close()


def test_a_worker_that_was_killed_first_is_the_cause(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    report = {"time": time.time(), "error": "what follows", "traceback": ""}
    (tmp_path / "logs" / "actor-1.error.json").write_text(json.dumps(report))
    children = []
    for name in ("actor-0", "actor-1"):
        process = subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(1)"], stdin=subprocess.PIPE)
        children.append(Child(name, process, -1))
    children[0].process.kill()
    for child in children:
        child.process.communicate(b"\n")
    assert root_cause(tmp_path, children).startswith("actor-0 was killed by signal 9")
    assert root_cause(tmp_path, children[1:]) == "actor-1 failed: what follows"


@pytest.mark.integration
def test_reports_of_an_earlier_part_are_forgotten(tmp_path: Path) -> None:
    stale = tmp_path / "run" / "logs" / "actor-0.error.json"
    stale.parent.mkdir(parents=True)
    stale.write_text(json.dumps({"time": 0.0, "error": "of yesterday", "traceback": ""}))
    run_experiment(null_run(budget=BudgetConfig(updates=3)), tmp_path / "run")
    assert not stale.exists()


@pytest.mark.integration
def test_a_reader_that_leaves_ends_the_run_in_order(tmp_path: Path) -> None:
    def report(progress: Progress) -> None:
        if progress.updates > 0:
            raise BrokenPipeError

    before = set(psutil.Process().children())
    with pytest.raises(BrokenPipeError):
        run_experiment(null_run(budget=BudgetConfig(seconds=600)), tmp_path / "run", report=report)
    assert set(psutil.Process().children()) <= before
    assert status(tmp_path / "run") == "interrupted"
    assert Checkpoints(tmp_path / "run" / "checkpoints" / "default").load_latest() is not None


def test_processes_that_cannot_be_started_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(RunError, match="trainer-default-0 cannot be started after 0 other processes"):
        run_experiment(null_run(), tmp_path / "run")
    assert status(tmp_path / "run") == "failed"


@pytest.mark.parametrize("changes", [{"batch_size": 10_000_000}, {"queue_size": 10**12}], ids=["batch", "queue"])
def test_batches_that_no_memory_holds_are_refused_first(tmp_path: Path, changes: dict[str, int]) -> None:
    experiment = null_run()
    with pytest.raises(UserError, match=r"trainer\.batch_size is"):
        run_experiment(replace(experiment, trainer=replace(experiment.trainer, **changes)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
