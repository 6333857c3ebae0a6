"""`make bench-peers`: Sample Factory and this project on the same work, in turn, on the same cores.

Pong, the small network, fp32 for Sample Factory (it has no other CPU mode) and the preset's own precision for us, one
pass over each sample, the same minibatch. Sample Factory 2.1.1 lives in a virtual environment of its own, because it
needs numpy < 2. Env steps are unique ones that the learner has consumed. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from srl_core.base.errors import RunError
from srl_core.base.hardware import describe
from srl_core.bench.throughput import cores, placements, run_window
from srl_core.config import Experiment

PACKAGES = [
    "torch==2.13.0",
    "numpy<2",
    "gymnasium==0.29.1",
    "sample-factory==2.1.1",
    "ale-py>=0.12,<0.13",
    "opencv-python-headless<5",
]

_FRAMES = re.compile(r"Total num frames: (\d+)")


def make_environment(path: Path) -> Path:
    """The virtual environment with Sample Factory at `path`, made at the first call; returns its Python."""
    python = path / "bin" / "python"
    if not (path / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (path / "ready").touch()
    return python


def tree_cpu(root: psutil.Process) -> float:
    """CPU-seconds of a process and all that descend from it."""
    spent = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def run_sample_factory(
    python: Path, *, workers: int, minibatch: int, warm_up: float, window: float
) -> dict[str, float]:
    """Train until warm-up and window have passed, counted from the first trained step; rates over the window."""
    script = Path(__file__).with_name("peer_sample_factory.py")
    envs = 32 // workers
    settings = {
        "algo": "APPO", "env": "atari_pong", "experiment": "bench", "device": "cpu", "serial_mode": False,
        "async_rl": True, "num_workers": workers, "num_envs_per_worker": envs, "worker_num_splits": 2,
        "batch_size": minibatch, "num_batches_per_epoch": 4, "num_epochs": 1, "rollout": 64, "recurrence": 1,
        "summaries_use_frameskip": False, "train_for_env_steps": 10**9,
        "normalize_input": False, "normalize_returns": False, "save_every_sec": 10**6, "log_to_file": False,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [str(python), str(script), f"--train_dir={directory}", *(f"--{k}={v}" for k, v in settings.items())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            first, last = _window(process, warm_up, window)
        finally:  # it is not asked to end by itself: its own time limit is not kept
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    steps = last.steps - first.steps
    return {
        "env_steps_per_s": steps / (last.time - first.time),
        "env_steps_per_cpu_s": steps / (last.cpu - first.cpu),
        "seconds": last.time - first.time,
    }


@dataclass(frozen=True)
class _Mark:
    time: float
    steps: int
    cpu: float


def _window(process: subprocess.Popen, warm_up: float, window: float) -> tuple[_Mark, _Mark]:
    """Time, env steps and CPU time at the first reports after the warm-up and after the window."""
    assert process.stdout is not None
    root, began, first = psutil.Process(process.pid), None, None
    tail: list[str] = []
    for line in process.stdout:
        tail = [*tail[-20:], line]
        match = _FRAMES.search(line)
        if match is None or int(match[1]) == 0:
            continue
        mark = _Mark(time.monotonic(), int(match[1]), tree_cpu(root))
        began = began or mark
        if first is None and mark.time - began.time >= warm_up:
            first = mark
        elif first is not None and mark.time - first.time >= window:
            return first, mark
    raise RunError("Sample Factory ended too early:\n" + "".join(tail))


def compare(experiment: Experiment, python: Path, *, rounds: int, warm_up: float, window: float) -> dict:
    """Interleaved rounds; the object that is printed last."""
    minibatch = experiment.algorithm.minibatch_size  # type: ignore[attr-defined]
    rows: list[dict[str, dict[str, float]]] = []
    for index in range(rounds):
        row = {
            f"sample_factory_{workers}_workers": run_sample_factory(
                python, workers=workers, minibatch=minibatch, warm_up=warm_up, window=window
            )
            for workers in (2, 4)
        }
        row["srl"] = run_window(placements(experiment)["inline"], warm_up, window)
        rows.append(row)
        for name, result in row.items():
            print(
                f"round {index + 1}: {name} {result['env_steps_per_s']:,.0f} env steps/s, "
                f"{result['env_steps_per_cpu_s']:,.0f} per CPU-second",
                flush=True,
            )
    median = {
        name: {key: statistics.median(r[name][key] for r in rows) for key in ("env_steps_per_s", "env_steps_per_cpu_s")}
        for name in rows[0]
    }
    ratios = [r["srl"]["env_steps_per_s"] / max(v["env_steps_per_s"] for k, v in r.items() if k != "srl") for r in rows]
    return {
        "median": median,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "minibatch": minibatch,
        "rounds": rows,
        "cores": cores(),
        "hardware": describe(),
    }


def main() -> None:
    from reproductions.presets.atari import atari_ppo

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=15.0)
    parser.add_argument("--window", type=float, default=40.0)
    parser.add_argument("--venv", type=Path, default=Path(".venv-sample-factory"))
    args = parser.parse_args()
    python = make_environment(args.venv)
    print(json.dumps(compare(atari_ppo(), python, rounds=args.rounds, warm_up=args.warm_up, window=args.window)))


if __name__ == "__main__":
    main()
