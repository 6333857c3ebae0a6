"""The state of a running experiment as numbers: from the worker table to one progress record."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from srl_core.config import BudgetConfig
from srl_core.services.metrics import WorkerTable
from srl_core.workers.context import RunClock


@dataclass(frozen=True)
class Progress:
    """One look at the run. Rates are over the time since the previous look."""

    t: float
    """Training time [s]."""
    env_steps_generated: float
    env_steps_consumed: float
    """Unique env steps the trainers have trained on."""
    frames: float
    agent_steps: float
    gradient_steps: float
    gradient_samples: float
    updates: float
    env_steps_generated_per_s: float
    env_steps_consumed_per_s: float
    """The training throughput."""
    frames_per_s: float
    agent_steps_per_s: float
    gradient_samples_per_s: float
    queue_fill: float
    """Samples that wait for the trainers."""
    staleness: float
    """Mean age [versions] of the last batch."""
    version: float
    episodes: float
    train_return: float
    """Mean return of the games that actors finished since the previous look; NaN if there was none."""
    evaluation_return: float
    """Of the newest evaluation; NaN before the first."""
    restarts: float
    skipped_updates: float
    dropped: float
    """Trajectories, batches and stale batches that were not trained on."""
    cpu_seconds: float
    """CPU time [s] of all workers together."""
    cpu_use: float
    """Share of this process's cores that the workers used."""
    fraction: float
    """Share of the budget that is spent; NaN without a budget."""
    seconds_left: float
    """NaN where it cannot be told."""
    bottleneck: str
    """The part that the others wait for."""

    def numbers(self) -> dict[str, float]:
        """All numeric fields, for the metrics."""
        return {name: value for name, value in asdict(self).items() if name != "bottleneck"}


class ProgressMeter:
    """Turns successive looks at the worker table into `Progress`."""

    def __init__(self, table: WorkerTable, clock: RunClock, budget: BudgetConfig) -> None:
        self._table, self._clock, self._budget = table, clock, budget
        self._cores = len(os.sched_getaffinity(0))
        self._last: dict[str, float] = {}
        self._last_t = clock.now()
        self._last_waits: dict[str, float] = {}

    def look(self) -> Progress:
        """Read the table now."""
        table, t = self._table, self._clock.now()
        seconds = max(t - self._last_t, 1e-9)
        names = (
            "env_steps_generated", "env_steps_consumed", "frames", "agent_steps", "gradient_steps",
            "gradient_samples", "updates", "episodes", "return_sum", "cpu_seconds",
        )  # fmt: skip
        total = {name: table.total(name) for name in names}
        # At the first look everything counted by earlier parts of the run is already there: no rate yet.
        delta = {name: value - self._last.get(name, value) for name, value in total.items()}
        rate = {name: value / seconds for name, value in delta.items()}
        bottleneck = self._bottleneck(seconds)
        self._last, self._last_t = total, t
        fraction = self._fraction(total, t)
        # Their own rows: the controller's counts evaluations of earlier parts of the run, but knows no return of them.
        evaluators = [
            row for n in table.rows() if n.startswith("evaluator") and (row := table.row(n)).get("evaluations")
        ]
        trainers = [table.row(n) for n in table.rows() if n.startswith("trainer")]
        return Progress(
            t=t,
            env_steps_generated=total["env_steps_generated"],
            env_steps_consumed=total["env_steps_consumed"],
            frames=total["frames"],
            agent_steps=total["agent_steps"],
            gradient_steps=total["gradient_steps"],
            gradient_samples=total["gradient_samples"],
            updates=total["updates"],
            env_steps_generated_per_s=rate["env_steps_generated"],
            env_steps_consumed_per_s=rate["env_steps_consumed"],
            frames_per_s=rate["frames"],
            agent_steps_per_s=rate["agent_steps"],
            gradient_samples_per_s=rate["gradient_samples"],
            queue_fill=table.total("queue_fill"),
            staleness=max((row.get("staleness") for row in trainers), default=0.0),
            version=max((row.get("version") for row in trainers), default=0.0),
            episodes=total["episodes"],
            train_return=delta["return_sum"] / delta["episodes"] if delta["episodes"] else float("nan"),
            evaluation_return=evaluators[0].get("evaluation_return") if evaluators else float("nan"),
            restarts=table.total("restarts"),
            skipped_updates=table.total("skipped_updates"),
            dropped=table.total("dropped_trajectories") + table.total("dropped_batches") + table.total("stale_batches"),
            cpu_seconds=total["cpu_seconds"],
            cpu_use=rate["cpu_seconds"] / self._cores,
            fraction=fraction,
            seconds_left=self._left(fraction, total, rate, t),
            bottleneck=bottleneck,
        )

    def _fraction(self, total: dict[str, float], t: float) -> float:
        budget = self._budget
        shares = [
            total["env_steps_consumed"] / budget.env_steps if budget.env_steps else 0.0,
            t / budget.seconds if budget.seconds else 0.0,
            total["updates"] / budget.updates if budget.updates else 0.0,
        ]
        limited = budget.env_steps or budget.seconds or budget.updates
        return min(max(shares), 1.0) if limited else float("nan")

    def _left(self, fraction: float, total: dict[str, float], rate: dict[str, float], t: float) -> float:
        budget, estimates = self._budget, []
        if budget.seconds:
            estimates.append(budget.seconds - t)
        if budget.env_steps and rate["env_steps_consumed"] > 0:
            estimates.append((budget.env_steps - total["env_steps_consumed"]) / rate["env_steps_consumed"])
        if budget.updates and rate["updates"] > 0:
            estimates.append((budget.updates - total["updates"]) / rate["updates"])
        return max(0.0, min(estimates)) if estimates and fraction == fraction else float("nan")

    def _bottleneck(self, seconds: float) -> str:
        """The kind of worker that waits least for others, if the others do wait."""
        waited: dict[str, list[float]] = {}
        for name in self._table.rows():
            kind = name.split("-")[0]
            value = self._table.row(name).get("wait_seconds")
            before = self._last_waits.get(name, value)
            self._last_waits[name] = value
            if kind in ("actor", "policy", "trainer"):
                waited.setdefault(kind, []).append(min(max(value - before, 0.0) / seconds, 1.0))
        if not waited or not self._last:
            return "starting"
        share = {kind: sum(values) / len(values) for kind, values in waited.items()}
        names = {
            "actor": "actors (simulation)",
            "policy": "policy workers (inference)",
            "trainer": "trainer (learning)",
        }
        least = min(share, key=lambda kind: share[kind])
        return "balanced" if max(share.values()) - share[least] < 0.1 else names[least]
