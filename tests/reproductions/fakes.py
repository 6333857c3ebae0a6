"""A tiny experiment and a runner that writes run directories in the real format, without training anything."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from envs.null import NullConfig
from reproductions.pipeline.spec import RunSpec
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.base.run_directory import RunDirectory
from srl_core.base.seeding import generator
from srl_core.config import ActorConfig, Experiment, to_json


def experiment(game: str = "Pong", profile: str = "smoke") -> Experiment:
    """Stands for a preset; nothing of it is ever built."""
    count = {"smoke": 1, "desk": 3, "node": 32, "cluster": 128}[profile]
    return Experiment(NullConfig(), NullAlgorithmConfig(), name=game, actor=ActorConfig(count=count))


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def learning_lines(seed: int, final: float = 19.5, evaluations: int = 40) -> list[dict[str, Any]]:
    """Evaluations of 10 games each that rise from -21 to `final` along a logistic curve."""
    random = generator(seed, "fake")
    lines = []
    for i in range(evaluations):
        steps, t = 50_000 * (i + 1), 27.0 * (i + 1) + seed
        rise = 1 / (1 + np.exp(-(i - 15 - seed) / 3.0))
        mean = -20.5 + (final + 20.5) * rise
        returns = np.clip(np.round(mean + random.normal(0, 1.0, 10), 1), -21, 21).tolist()
        common = {"t": t, "env_steps": steps, "version": i}
        lines.append({"kind": "train", **common, "loss": 0.1})
        lines.append(
            {
                "kind": "evaluation",
                **common,
                "episodes": 10,
                "return_mean": float(np.mean(returns)),
                "returns": returns,
                "lengths": [1700] * 10,
            }
        )
    return lines


def throughput_lines(seconds: float, rate: float, cores: float = 1.9) -> list[dict[str, Any]]:
    """Updates of 4,096 env steps each at `rate` env steps/s, and a progress line every half second."""
    updates = int(seconds * rate / 4096)
    lines = [
        {"kind": "train", "t": i * 4096 / rate, "env_steps": i * 4096, "version": i, "loss": 0.0}
        for i in range(1, updates + 1)
    ]
    for i in range(int(seconds * 2)):
        t = i / 2
        steps = int(t * rate / 4096) * 4096
        lines.append(
            {
                "kind": "progress",
                "t": t,
                "env_steps_generated": steps + 100,
                "env_steps_consumed": steps,
                "cpu_seconds": cores * t,
            }
        )
    return sorted(lines, key=lambda line: line["t"])


@dataclass
class FakeRunner:
    """Counts its calls; `dies` names runs whose process is killed half-way in their first call."""

    dies: set[str] = field(default_factory=set)
    final: float = 19.5
    started: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)

    def __call__(self, run: RunSpec, run_dir: Path) -> None:
        (self.resumed if (run_dir / "metadata.json").exists() else self.started).append(run.id)
        directory = RunDirectory.create(run_dir, to_json(run.experiment), seed=run.seed)
        try:
            if run.id in self.dies:
                self.dies.remove(run.id)
                directory.metrics.write_text('{"kind": "progress", "t": 1.0, "env')
                return
            self._measure(run, run_dir)
            directory.update(seconds=1200.0, cpu_seconds=2300.0, counts={"env_steps_consumed": 2_000_000.0})
            directory.finish("completed")
        finally:
            directory.close()

    def _measure(self, run: RunSpec, run_dir: Path) -> None:
        if run.measures == "limit":
            limit = {"simulation": 3000.0, "inference": 9000.0, "training": 4000.0, "limit": 2880.0 + 10 * run.seed}
            (run_dir / "limit.json").write_text(json.dumps(limit))
            return
        if run.x is None:
            write_lines(run_dir / "metrics.jsonl", learning_lines(run.seed, self.final))
            return
        rate = 2700.0 * (1 - 0.45 ** float(run.x)) * (1.0 if run.system.startswith("inline") else 0.93)
        rate *= generator(run.seed, run.slug).uniform(0.97, 1.03)
        lines = throughput_lines(run.experiment.budget.seconds or 10.0, rate)
        write_lines(run_dir / "metrics.jsonl", lines)
