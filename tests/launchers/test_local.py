"""The local launcher: real processes, real streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from srl_core.base.errors import RunError
from srl_core.config import BudgetConfig, EvaluationConfig, Experiment, StreamsConfig, to_json
from srl_core.launchers import run_experiment
from srl_core.services.checkpoints import Checkpoints
from srl_core.services.metrics import read_records
from tests.launchers.experiments import null_run, small_cartpole

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("backend", ["shared_memory", "socket"])
@pytest.mark.parametrize("inference", ["inline", "remote"])
def test_a_run_completes_over_every_stream(tmp_path: Path, backend: str, inference: str) -> None:
    experiment = null_run(streams=StreamsConfig(backend=backend))  # type: ignore[arg-type]
    experiment = replace(experiment, actor=replace(experiment.actor, inference=inference, ring_size=2))
    before = set(os.listdir("/dev/shm"))
    result = run_experiment(experiment, tmp_path / "run")
    assert result.status == "completed"
    assert result.counts["updates"] == 100
    assert result.counts["dropped_trajectories"] == 0
    assert set(os.listdir("/dev/shm")) <= before
    metadata = json.loads((tmp_path / "run" / "metadata.json").read_text())
    assert metadata["status"] == "completed"
    assert metadata["counts"]["env_steps_consumed"] == result.counts["env_steps_consumed"]


def test_cartpole_learns_in_processes(tmp_path: Path) -> None:
    from reproductions.presets.classic import cartpole

    experiment = replace(cartpole(), evaluation=EvaluationConfig(interval_seconds=3, final=True, episodes=10, envs=10))
    experiment = replace(experiment, budget=BudgetConfig(seconds=60, target_return=475))
    run_experiment(experiment, tmp_path / "run")
    last = list(read_records(tmp_path / "run" / "metrics.jsonl", "evaluation"))[-1]
    assert last["return_mean"] >= 475


SCRIPT = """
import json, sys
from pathlib import Path
from srl_core.config import experiment_from_json
from srl_core.launchers import run_experiment
result = run_experiment(experiment_from_json(json.load(sys.stdin)), Path(sys.argv[1]))
sys.exit(result.exit_code)
"""


STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def no_run_outlives_its_test() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()  # its workers die with it
        process.wait()


def start(experiment: Experiment, path: Path) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdin=subprocess.PIPE, start_new_session=True)
    STARTED.append(process)
    assert process.stdin is not None
    process.stdin.write(json.dumps(to_json(experiment)).encode())
    process.stdin.close()
    return process


def wait_for(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_trained(path: Path) -> bool:
    metrics = path / "metrics.jsonl"
    return metrics.exists() and any(True for _ in read_records(metrics, "train"))


def session_processes(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


ENDLESS = BudgetConfig(seconds=600)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("group", [True, False], ids=["everybody", "controller"])
def test_a_signal_leaves_a_checkpoint_and_no_process(tmp_path: Path, number: int, code: int, group: bool) -> None:
    """Terminals send Ctrl-C to all processes, service managers and `timeout` SIGTERM."""
    before = set(os.listdir("/dev/shm"))
    experiment = replace(small_cartpole(), budget=ENDLESS)
    experiment = replace(experiment, trainer=replace(experiment.trainer, checkpoint_seconds=600))
    process = start(experiment, tmp_path / "run")
    wait_for(lambda: has_trained(tmp_path / "run"))
    os.killpg(process.pid, number) if group else process.send_signal(number)
    assert process.wait(15) == code
    assert session_processes(process.pid) == []
    assert set(os.listdir("/dev/shm")) <= before
    assert json.loads((tmp_path / "run" / "metadata.json").read_text())["status"] == "interrupted"
    found = Checkpoints(tmp_path / "run" / "checkpoints" / "default").load_latest()
    assert found is not None
    assert found[1]["updates"] > 0


def test_workers_die_with_a_killed_controller_and_the_run_resumes(tmp_path: Path) -> None:
    experiment = replace(small_cartpole(), budget=ENDLESS)
    process = start(experiment, tmp_path / "run")
    wait_for(lambda: has_trained(tmp_path / "run"))
    assert len(session_processes(process.pid)) == 4  # controller, trainer, two actors
    process.kill()
    process.wait()
    wait_for(lambda: not session_processes(process.pid), 10)
    found = Checkpoints(tmp_path / "run" / "checkpoints" / "default").load_latest()
    assert found is not None
    updates = found[1]["updates"]
    # The budget belongs to the configuration: a resumed run with another one needs its file changed.
    longer = replace(experiment, budget=BudgetConfig(updates=updates + 5))
    (tmp_path / "run" / "config.json").write_text(json.dumps(to_json(longer)))
    result = run_experiment(longer, tmp_path / "run", resume=True)
    assert result.counts["updates"] == updates + 5
    times = [r["t"] for r in read_records(tmp_path / "run" / "metrics.jsonl", "train")]
    assert times == sorted(times)


def test_the_root_cause_is_reported_not_what_follows(tmp_path: Path) -> None:
    experiment = null_run()
    broken = replace(experiment, environment=replace(experiment.environment, fail_after=50))  # type: ignore[call-arg]
    with pytest.raises(RunError, match=r"actor-\d failed: RuntimeError: null environment was told to fail"):
        run_experiment(broken, tmp_path / "run")
    metadata = json.loads((tmp_path / "run" / "metadata.json").read_text())
    assert metadata["status"] == "failed"
    assert "told to fail" in metadata["error"]


def test_many_actors_on_few_cores_run_slowly_but_run(tmp_path: Path) -> None:
    experiment = null_run(budget=BudgetConfig(updates=20))
    many = replace(experiment, actor=replace(experiment.actor, count=24, envs_per_member=1))
    assert run_experiment(many, tmp_path / "run").counts["updates"] == 20


def test_an_actor_with_remote_inference_never_imports_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from srl_core.workers import main, actor; from srl_core.config import experiment_from_json;"
        "import json; experiment_from_json(json.load(sys.stdin)).environment; assert 'torch' not in sys.modules"
    )
    data = json.dumps(to_json(small_cartpole())).encode()
    subprocess.run([sys.executable, "-c", code], input=data, check=True)
    experiment = replace(small_cartpole(), budget=ENDLESS)
    experiment = replace(experiment, actor=replace(experiment.actor, inference="remote"))
    process = start(experiment, tmp_path / "run")
    wait_for(lambda: has_trained(tmp_path / "run"))
    actors = [p for p in session_processes(process.pid) if "--kind=actor" in p.cmdline()]
    assert len(actors) == 2
    for actor in actors:
        assert not any("libtorch" in m.path for m in actor.memory_maps())
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 130
