"""`make bench-dataflow`: the price of the dataflow itself.

Simulation, inference and training are replaced by null ones with Atari's shapes (84x84x4 uint8), and everything else is
the real thing: actor, trajectory cutting, sample stream, batch assembly, trainer, counters. Beside it, in the same run,
the time that plain memcpy takes for the bytes that must move. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from envs.null import NullConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.base.hardware import describe
from srl_core.bench.throughput import cores, run_window
from srl_core.config import ActorConfig, Experiment, StreamsConfig, TrainerConfig, TrajectoryConfig

BACKENDS = ("shared_memory", "socket")


def experiment(backend: str, *, stacked: bool) -> Experiment:
    """One actor with inline null inference; `stacked` declares the four frames a stack, so that each travels once."""
    return Experiment(
        NullConfig(frame_stack=stacked),
        NullAlgorithmConfig(),
        name="dataflow",
        actor=ActorConfig(count=1, envs_per_member=64),
        trajectory=TrajectoryConfig(sample_steps=64),
        trainer=TrainerConfig(batch_size=64, checkpoint_seconds=600),
        streams=StreamsConfig(backend=backend, slots=2),  # type: ignore[arg-type]
    )


def memcpy_bytes_per_s(nbytes: int = 1 << 26) -> float:
    """Bytes/s of copying one large array into another."""
    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    began, copied = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        np.copyto(target, source)
        copied += nbytes
    return copied / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=4.0)
    parser.add_argument("--window", type=float, default=8.0)
    args = parser.parse_args()
    rates: dict[str, list[float]] = {}
    memcpy: list[float] = []
    for index in range(args.rounds):
        memcpy.append(memcpy_bytes_per_s())
        for backend in BACKENDS:
            for stacked in (False, True):
                name = backend + ("_frames_once" if stacked else "")
                result = run_window(experiment(backend, stacked=stacked), args.warm_up, args.window)
                rates.setdefault(name, []).append(result["env_steps_per_s"])
                print(f"round {index + 1}: {name} {result['env_steps_per_s']:,.0f} env steps/s", flush=True)
    median = {name: statistics.median(values) for name, values in rates.items()}
    copy = statistics.median(memcpy)
    observation = 84 * 84 * 4
    # Three copies each: into the trajectory, into the stream, into the batch.
    share = {name: median[name] * 3 * (observation // 4 if "once" in name else observation) / copy for name in median}
    print(
        json.dumps(
            {
                "env_steps_per_s": median,
                "memcpy_bytes_per_s": copy,
                "memcpy_share": share,
                "rounds": rates,
                "cores": cores(),
                "hardware": describe(),
            }
        )
    )


if __name__ == "__main__":
    main()
