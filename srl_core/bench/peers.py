"""`make bench-peers`: Sample Factory and this project on the same work, in turn, on the same cores.

Pong, the small network, fp32 for Sample Factory (it has no other CPU mode) and the preset's own precision for us, one
pass over each sample, the same minibatch. Sample Factory 2.1.1 lives in a virtual environment of its own, because it
needs numpy < 2. Env steps are unique ones that the learner has consumed. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def children_cpu() -> float:
    """CPU-seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_sample_factory(
    python: Path, *, workers: int, minibatch: int, warm_up: float, window: float
) -> dict[str, float]:
    """One run of `warm_up + window` seconds; rates over the window, CPU time over the whole run."""
    script = Path(__file__).with_name("peer_sample_factory.py")
    envs = 32 // workers
    settings = {
        "algo": "APPO", "env": "atari_pong", "experiment": "bench", "device": "cpu", "serial_mode": False,
        "async_rl": True, "num_workers": workers, "num_envs_per_worker": envs, "worker_num_splits": 2,
        "batch_size": minibatch, "num_batches_per_epoch": 4, "num_epochs": 1, "rollout": 64, "recurrence": 1,
        "summaries_use_frameskip": False, "train_for_seconds": int(warm_up + window + 5), "train_for_env_steps": 10**9,
        "normalize_input": False, "normalize_returns": False, "save_every_sec": 10**6, "log_to_file": False,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        before = children_cpu()
        process = subprocess.Popen(
            [str(python), str(script), f"--train_dir={directory}", *(f"--{k}={v}" for k, v in settings.items())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        seen: list[tuple[float, int]] = []
        tail: list[str] = []
        for line in process.stdout:
            tail = [*tail[-20:], line]
            if match := _FRAMES.search(line):
                seen.append((time.monotonic(), int(match[1])))
        if process.wait() != 0:
            raise RuntimeError("Sample Factory failed:\n" + "".join(tail))
        cpu = children_cpu() - before
    trained = [(t, n) for t, n in seen if n > 0]
    first = next((t, n) for t, n in trained if t >= trained[0][0] + warm_up / 2)
    last = trained[-1]
    return {
        "env_steps_per_s": (last[1] - first[1]) / (last[0] - first[0]),
        "env_steps_per_cpu_s": last[1] / cpu,
        "seconds": last[0] - first[0],
    }


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
