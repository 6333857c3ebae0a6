"""The inline launcher: the same workers in one process and one thread, in a fixed order: deterministic."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from srl_core.base.errors import RunError, UserError
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment
from srl_core.launchers.finish import finish_run, record_progress, recorded, stop_on_signals
from srl_core.launchers.prepare import Prepared, make_table, prepare
from srl_core.launchers.progress import Progress, ProgressMeter
from srl_core.launchers.result import RunResult
from srl_core.services.metrics import MetricsWriter, WorkerTable
from srl_core.services.parameters import InMemoryParameters
from srl_core.streams import StreamOptions, make_inference_link, make_sample_link
from srl_core.workers.actor import ActorWorker
from srl_core.workers.context import ACTOR_COLUMNS, CONTROLLER, Channel, RunClock, WorkerContext
from srl_core.workers.kinds import make_worker
from srl_core.workers.plan import sample_spec
from srl_core.workers.trainer import TrainerWorker


def run_inline(
    experiment: Experiment, run_dir: Path, *, resume: bool, report: Callable[[Progress], None] | None
) -> RunResult:
    """See `run_experiment`."""
    with ExitStack() as stack:
        prepared = prepare(experiment, run_dir, resume=resume)
        run = prepared.run
        stack.enter_context(recorded(run))
        if torch := sys.modules.get("torch"):  # as in processes: idle threads spin, and their number changes sums
            torch.set_num_threads(experiment.trainer.threads)
        clock = RunClock(time.monotonic(), run.seconds)
        stop = StopFlag()
        table = make_table(prepared)
        metrics = MetricsWriter(run.path, "inline", wandb_project=experiment.logging.wandb_project)
        stack.callback(metrics.close)
        signals = stack.enter_context(stop_on_signals(stop))
        error: Exception | None = None
        loop: _Loop | None = None
        try:
            loop = _Loop(prepared, clock, stop, table, metrics, report)
            loop.run()
        except Exception as raised:
            if loop is None and isinstance(raised, UserError):
                raise  # bad input, and nothing was done yet
            error = raised if isinstance(raised, RunError) else RunError(f"{type(raised).__name__}: {raised}")
            error.__cause__ = raised
        finally:
            if loop is not None:
                loop.close()
        return finish_run(run, table, clock, error=error, signal=signals.received)


class _Loop:
    """Polls every worker in turn: actors, policy workers, trainers, evaluator."""

    def __init__(
        self,
        prepared: Prepared,
        clock: RunClock,
        stop: StopFlag,
        table: WorkerTable,
        metrics: MetricsWriter,
        report: Callable[[Progress], None] | None,
    ) -> None:
        experiment = prepared.experiment
        self._run, self._clock, self._cpu_before = prepared.run, clock, prepared.run.cpu_seconds
        self._experiment, self._stop, self._table, self._metrics, self._report = (
            experiment,
            stop,
            table,
            metrics,
            report,
        )
        self._meter = ProgressMeter(table, clock, experiment.budget)
        self._record_meter = ProgressMeter(table, clock, experiment.budget)
        channels = _connect(prepared, stop)
        self._workers: dict[str, Any] = {}
        order = {"actor": 0, "policy": 1, "trainer": 2, "evaluator": 3}
        # Servers are made before their clients, but data flows from actors on.
        for placement in prepared.workers:
            context = WorkerContext(
                experiment=experiment,
                name=placement.name,
                index=placement.index,
                policy=placement.policy,
                environment=prepared.environment,
                routes=prepared.routes,
                channels=channels,
                run_dir=prepared.run.path,
                clock=clock,
                stop=stop,
                table=table,
                metrics=metrics,
                deterministic=True,
            )
            self._workers[placement.name] = make_worker(placement.kind, context)
        self._workers = dict(sorted(self._workers.items(), key=lambda item: order[item[0].split("-")[0]]))
        self._trainers = {n: w for n, w in self._workers.items() if isinstance(w, TrainerWorker)}
        self._actors = [w for w in self._workers.values() if isinstance(w, ActorWorker)]
        self._restore()

    def run(self) -> None:
        """Go round until training is complete or a signal came."""
        looked = recorded = time.monotonic()
        finished: set[str] = set()
        while not self._stop.is_set():
            for name, worker in self._workers.items():
                if name in finished:
                    continue
                result = worker.poll(0.0)
                while result.busy and name in self._trainers and not result.finished:
                    result = worker.poll(0.0)  # all that has arrived, so that streams never fill up
                if result.finished:
                    finished.add(name)
                    self._table.row(name).set("finished", 1)
            for trainer in self._trainers.values():
                if trainer.checkpoint_due():
                    trainer.save(self._state())
            leaders = {n for n in self._workers if n.startswith(("trainer", "evaluator"))}
            if leaders <= finished:
                break
            now = time.monotonic()
            self._table.row(CONTROLLER).set("cpu_seconds", self._cpu_before + time.process_time())
            if self._report is not None and now - looked >= 1.0:
                looked = now
                self._report(self._meter.look())
            if now - recorded >= self._experiment.logging.interval_seconds:
                recorded = now
                self._record()
        self._record()
        for trainer in self._trainers.values():
            trainer.save(self._state())
        for worker in self._workers.values():
            worker.drain()

    def _record(self) -> None:
        self._metrics.write("progress", self._record_meter.look().numbers())
        record_progress(self._run, self._table, self._clock)

    def _state(self) -> dict[str, Any] | None:
        """State of all actors, where it can be saved exactly; otherwise a resumed run begins new episodes."""
        exact = self._experiment.actor.inference == "inline" and all(actor.resumable for actor in self._actors)
        return {"actors": [actor.state_dict() for actor in self._actors]} if exact else None

    def _restore(self) -> None:
        for trainer in self._trainers.values():
            if trainer.restored is not None:
                for actor, state in zip(self._actors, trainer.restored["actors"], strict=True):
                    actor.load_state_dict(state)
                for column in ACTOR_COLUMNS:  # their own rows say it now
                    self._table.row(CONTROLLER).set(column, 0)
                return

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


def _connect(prepared: Prepared, stop: StopFlag) -> dict[str, Channel]:
    experiment, spec = prepared.experiment, prepared.environment
    channels = {}
    for route in prepared.routes:
        policy = prepared.policies[route.policy]
        samples = sample_spec(experiment, policy, spec)
        parameters = InMemoryParameters()
        parameters.publish(*prepared.initial[route.policy])
        channel = channels[route.policy] = Channel(route.policy, policy, samples, parameters)
        columns = spec.num_envs * len(route.trained)
        if route.trained:
            channel.samples = make_sample_link(
                "inline",
                samples,
                producers=experiment.actor.count,
                consumers=1,
                columns=columns,
                slots=experiment.streams.slots,
                when_full=experiment.streams.when_full,
                stop=stop,
                options=StreamOptions(),
            )
        if experiment.actor.inference == "remote":
            channel.inference = make_inference_link(
                "inline",
                policy,
                clients=experiment.actor.count,
                servers=experiment.policy_worker.count,
                members=experiment.actor.ring_size,
                rows=spec.num_envs * len(route.agents),
                stop=stop,
                options=StreamOptions(),
            )
    return channels
