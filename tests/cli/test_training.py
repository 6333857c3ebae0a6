"""Whole runs as their users start, stop and look at them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import TINY, srl

pytestmark = pytest.mark.integration


def metadata(path: Path) -> dict:
    return json.loads((path / "metadata.json").read_text())


def test_a_run_from_start_to_evaluation(tmp_path: Path) -> None:
    done = srl("run", "cartpole", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    run = tmp_path / "runs/cartpole-s1"
    assert metadata(run)["status"] == "completed"
    for part in ("runs/cartpole-s1/checkpoints", "metrics.jsonl", "tensorboard --logdir", "srl eval runs/cartpole-s1"):
        assert part in done.stdout
    assert "\r" not in done.stdout

    again = srl("run", "cartpole", *TINY, "--run-dir", "runs/cartpole-s1", cwd=tmp_path)
    assert again.returncode == 2
    assert "holds a run already" in again.stderr.splitlines()[-1]

    finished = srl("resume", "cartpole-s1", cwd=tmp_path)
    assert finished.returncode == 0
    assert "is completed: there is nothing left to train" in finished.stdout

    second = srl("run", "cartpole", *TINY, "budget.env_steps=500", cwd=tmp_path)
    assert second.returncode == 0
    assert metadata(tmp_path / "runs/cartpole-s1-2")["status"] == "completed"

    evaluated = srl("eval", "runs/cartpole-s1", "--episodes", "4", cwd=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "95 % interval" in evaluated.stdout
    assert evaluated.stdout == srl("eval", "cartpole-s1", "--episodes", "4", cwd=tmp_path).stdout, "the same seed"
    assert evaluated.stdout != srl("eval", "cartpole-s1", "--episodes", "4", "--seed", "1", cwd=tmp_path).stdout

    video = srl("eval", "cartpole-s1", "--episodes", "1", "--video", "x.mp4", cwd=tmp_path)
    assert video.returncode == 2
    assert "environment 'cartpole' cannot be drawn" in video.stderr.splitlines()[-1]
    assert not (tmp_path / "x.mp4").exists()

    watched = srl("watch", "cartpole-s1", cwd=tmp_path)
    assert watched.returncode == 0
    assert "completed after" in watched.stdout
    assert "env steps/s" in watched.stdout


def start(arguments: list[str], cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "srl_core.cli", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_trained(process: subprocess.Popen[str]) -> None:
    """Read its progress until steps have been trained on."""
    assert process.stdout is not None
    for line in process.stdout:
        if " trained |" in line and " 0 trained |" not in line:
            return
    raise AssertionError(f"the run ended before it trained: {process.stderr.read() if process.stderr else ''}")


@pytest.mark.parametrize("launcher", ["inline", "local"])
def test_ctrl_c_leaves_a_checkpoint_and_resume_goes_on(launcher: str, tmp_path: Path) -> None:
    shm = set(os.listdir("/dev/shm"))
    endless = ["budget.env_steps=0", "budget.seconds=600", "budget.target_return=inf", "--launcher", launcher]
    process = start(["run", "cartpole", *TINY, *endless, "--run-dir", "run"], tmp_path)
    until_trained(process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert bool(children) == (launcher == "local")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "go on:       srl resume run" in out
    assert not [child for child in children if child.is_running()]
    assert set(os.listdir("/dev/shm")) <= shm
    first = metadata(tmp_path / "run")
    assert first["status"] == "interrupted"
    assert any((tmp_path / "run/checkpoints/default").iterdir())

    process = start(["resume", "run", "--launcher", launcher], tmp_path)
    until_trained(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    second = metadata(tmp_path / "run")
    assert second["resumes"] == 1
    for name in ("env_steps_consumed", "updates", "gradient_steps"):
        assert second["counts"][name] > first["counts"][name]
    assert second["wall_seconds"] > first["wall_seconds"]


def test_a_failing_run_names_its_root_cause_last(tmp_path: Path) -> None:
    done = srl("run", "cartpole", *TINY, "algorithm.learning_rate=1e38", "trainer.max_skipped=2", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert metadata(tmp_path / "runs/cartpole-s1")["status"] == "failed"
    assert done.stderr.splitlines()[-1] == metadata(tmp_path / "runs/cartpole-s1")["error"]


def test_pong_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    tiny = ["--launcher", "inline", "budget.updates=1", "environment.max_frames=400", "evaluation.final=false"]
    small = ["evaluation.interval_seconds=0", "actor.count=1", "actor.envs_per_member=4", "trainer.batch_size=4"]
    done = srl("run", "pong", *tiny, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = srl("eval", "pong-s1", "--episodes", "1", "--video", "videos/pong.mp4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    import imageio_ffmpeg

    frames = imageio_ffmpeg.read_frames(str(tmp_path / "videos/pong.mp4"))
    meta = next(frames)
    assert meta["size"] == (320, 420)
    assert meta["fps"] == 15
    pictures = list(frames)
    assert 95 <= len(pictures) <= 105, "400 frames, 4 of them a step, and the first"
    assert len(set(pictures)) > 10, "something moves"
