"""`make bench-throughput`: what end-to-end training reaches of what simulation, inference and learning alone allow.

Each round measures, one after another: (a) simulation alone, (b) inference alone and (c) gradient steps alone at the
sizes in use, each in env steps per CPU-second with all cores at it, and (d) whole training runs, with inline inference
and with a policy worker over shared memory. The limit is cores / (1/a + 1/b + 1/c). The last line is JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from srl_core.base.arrays import zeros
from srl_core.base.errors import RunError
from srl_core.base.hardware import describe
from srl_core.config import BudgetConfig, EvaluationConfig, Experiment, LoggingConfig, experiment_from_json, to_json
from srl_core.launchers import run_experiment
from srl_core.launchers.prepare import probe

PARTS = ("simulation", "inference", "training")


def per_cpu_second(step: Callable[[], int], seconds: float) -> float:
    """Env steps per CPU-second of this process: `step` does some work and returns how many it did."""
    done, began = 0, time.process_time()
    while (spent := time.process_time() - began) < seconds:
        done += step()
    return done / spent


def make_step(part: str, experiment: Experiment) -> Callable[[], int]:
    """One of `PARTS` alone: a function that does some of it and returns the number of env steps."""
    import torch

    torch.set_num_threads(1)
    if part == "training":
        return _training_step(experiment)
    spec, _ = probe(experiment)
    rng = np.random.default_rng(0)
    if part == "simulation":
        environment = experiment.environment.build(spec.num_envs, training=True)
        environment.reset(1)

        def simulate() -> int:
            environment.send(rng.integers(0, spec.action.nvec, (spec.rows, spec.action.dims)))
            return environment.recv().env_steps

        return simulate
    policy = experiment.algorithm.build_policy(spec, device="cpu", seed=1)
    request = zeros(policy.spec.request, (spec.rows,))
    for name, array in request.items():
        if array.dtype == np.uint8:
            array[...] = rng.integers(0, 255, array.shape)
        elif name == "noise":
            array[...] = rng.random(array.shape)

    def infer() -> int:
        policy.act(request)
        return spec.rows

    return infer


def _training_step(experiment: Experiment) -> Callable[[], int]:
    """Gradient steps on batches of real trajectories, so that masks, resets and rewards are as in training."""
    from srl_core.bench.recording import record_batch

    batch, algorithm = record_batch(experiment)

    def train() -> int:
        batch.uses = 0
        algorithm.update(batch)
        return round(batch.env_steps())

    return train


def measure_here(part: str, experiment: Experiment, seconds: float) -> None:
    """In a process of its own: get ready, say so, wait for a word, measure, print the rate."""
    step = make_step(part, experiment)
    for _ in range(3):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(per_cpu_second(step, seconds)), flush=True)


def run_window(experiment: Experiment, warm_up: float, window: float) -> dict[str, float]:
    """Train for `warm_up + window` seconds in processes; rates over the window.

    Returns env_steps_per_s (unique, consumed), env_steps_per_cpu_s (all processes together) and cpu_use (share of the
    cores).
    """
    experiment = dataclasses.replace(
        experiment,
        budget=BudgetConfig(seconds=warm_up + window + 3),
        evaluation=EvaluationConfig(),
        logging=LoggingConfig(interval_seconds=1.0),
    )
    with tempfile.TemporaryDirectory() as directory:
        run_experiment(experiment, Path(directory) / "run", launcher="local")
        lines = [json.loads(line) for line in (Path(directory) / "run" / "metrics.jsonl").read_text().splitlines()]
    rows = [line for line in lines if line["kind"] == "progress" and line["t"] >= warm_up]
    first = rows[0]
    last = next((row for row in rows if row["t"] >= first["t"] + window), rows[-1])
    steps = last["env_steps_consumed"] - first["env_steps_consumed"]
    seconds = last["t"] - first["t"]
    cpu = last["cpu_seconds"] - first["cpu_seconds"]
    return {
        "env_steps_per_s": steps / seconds,
        "env_steps_per_cpu_s": steps / cpu,
        "cpu_use": cpu / seconds / cores(),
        "seconds": seconds,
    }


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def placements(experiment: Experiment) -> dict[str, Experiment]:
    """The experiment with inline inference, and with a policy worker over shared memory."""
    actor = experiment.actor
    return {
        "inline": dataclasses.replace(experiment, actor=dataclasses.replace(actor, inference="inline")),
        "policy_worker": dataclasses.replace(
            experiment, actor=dataclasses.replace(actor, inference="remote", ring_size=max(2, actor.ring_size))
        ),
    }


def measure_parts(experiment: Experiment, seconds: float) -> dict[str, float]:
    """All of `PARTS` in env steps per CPU-second, each with one process a core at the same time.

    On all cores at once, because cores share caches, memory and often their arithmetic: one busy core among idle ones
    does more in a second than any arrangement of busy ones can.
    """
    return {part: _measure_on_all_cores(part, experiment, seconds) for part in PARTS}


def _measure_on_all_cores(part: str, experiment: Experiment, seconds: float) -> float:
    command = [sys.executable, "-m", "srl_core.bench.throughput", "--part", part, "--seconds", str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(cores())
    ]
    try:
        for word in (json.dumps(to_json(experiment)), "go"):
            for child in children:
                print(word, file=child.stdin, flush=True)
            answers = [child.stdout.readline() for child in children if child.stdout is not None]
        rates = [float(answer) for answer in answers]
    except (ValueError, OSError):
        raise RunError(f"measuring {part} alone failed; its error is printed above") from None
    finally:
        for child in children:
            child.kill()
            child.communicate()
    return statistics.mean(rates)


def measure_limit(experiment: Experiment, seconds: float) -> dict[str, float]:
    """Each part (env steps per CPU-second) and the limit (env steps/s on all cores)."""
    parts = measure_parts(experiment, seconds)
    return {**parts, "limit": cores() * per_core(parts)}


def per_core(parts: dict[str, float]) -> float:
    """Env steps per CPU-second that the parts together allow."""
    return 1.0 / sum(1.0 / parts[part] for part in PARTS)


def benchmark(experiment: Experiment, *, rounds: int, warm_up: float, window: float, seconds: float) -> dict:
    """All rounds; the object that is printed last."""
    runs: list[dict] = []
    measured = [measure_parts(experiment, seconds)]
    for index in range(rounds):
        ends: dict[str, dict[str, float]] = {}
        for name, placement in placements(experiment).items():
            end = ends[name] = run_window(placement, warm_up, window)
            measured.append(measure_parts(experiment, seconds))
            # Others use the machine too: a run is compared with what was measured right before and after it.
            limit = statistics.mean(per_core(parts) for parts in measured[-2:])
            end["limit"] = cores() * limit
            end["ratio"] = end["env_steps_per_s"] / end["limit"]
            end["cpu_ratio"] = end["env_steps_per_cpu_s"] / limit
            print(f"round {index + 1}: " + ", ".join(f"{k} {v:,.0f}" for k, v in measured[-1].items()), flush=True)
            print(
                f"  {name}: {end['env_steps_per_s']:,.0f} env steps/s, ratio {end['ratio']:.3f}, "
                f"CPU ratio {end['cpu_ratio']:.3f}, cores used {end['cpu_use']:.1%}",
                flush=True,
            )
        runs.append(ends)
    median = {
        name: {key: statistics.median(ends[name][key] for ends in runs) for key in runs[0][name]} for name in runs[0]
    }
    best = max(median, key=lambda name: median[name]["env_steps_per_s"])
    return {
        **{part: statistics.median(parts[part] for parts in measured) for part in PARTS},
        "limit": median[best]["limit"],
        "end_to_end": median[best]["env_steps_per_s"],
        "ratio": median[best]["ratio"],
        "cpu_ratio": median[best]["cpu_ratio"],
        "cpu_use": median[best]["cpu_use"],
        "better": best,
        "placements": median,
        "rounds": runs,
        "parts": measured,
        "cores": cores(),
        "hardware": describe(),
    }


def main() -> None:
    from reproductions.presets.atari import atari_ppo

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=12.0, help="seconds before the window")
    parser.add_argument("--window", type=float, default=30.0, help="seconds of the end-to-end window")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU-seconds of each part alone")
    parser.add_argument("--part", choices=PARTS, help="measure one part of the experiment read from standard input")
    args = parser.parse_args()
    if args.part:
        measure_here(args.part, experiment_from_json(json.loads(sys.stdin.readline())), args.seconds)
        return
    result = benchmark(atari_ppo(), rounds=args.rounds, warm_up=args.warm_up, window=args.window, seconds=args.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
