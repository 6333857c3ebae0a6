"""The local launcher: each worker a process of this host, watched by the controller."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from srl_core.base.errors import RunError
from srl_core.base.processes import Child, end_all, start_child, wait_any
from srl_core.base.run_directory import RunDirectory
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment
from srl_core.launchers.finish import finish_run, record_progress, recorded, stop_on_signals
from srl_core.launchers.prepare import Prepared, make_table, prepare
from srl_core.launchers.progress import Progress, ProgressMeter
from srl_core.launchers.result import RunResult
from srl_core.launchers.topology import Placement
from srl_core.services.metrics import MetricsWriter, WorkerTable
from srl_core.services.parameters import SharedMemoryParameters
from srl_core.streams import StreamOptions, make_inference_link, make_sample_link
from srl_core.workers.context import CONTROLLER, Channel, RunClock
from srl_core.workers.evaluator import TAG
from srl_core.workers.plan import sample_spec, write_plan

_log = logging.getLogger(__name__)

GRACE_SECONDS = 8.0
"""How long workers may take to end by themselves; a checkpoint is written in that time."""

_FULL = 65536
"""Bytes of free disk below which a worker can neither log nor report."""


def run_local(
    experiment: Experiment, run_dir: Path, *, resume: bool, report: Callable[[Progress], None] | None
) -> RunResult:
    """See `run_experiment`."""
    with ExitStack() as stack:
        prepared = prepare(experiment, run_dir, resume=resume)
        run = prepared.run
        stack.enter_context(recorded(run))
        clock = RunClock(time.monotonic(), run.seconds)
        stop = StopFlag()
        table = make_table(prepared)
        channels, fds = _connect(prepared, stop, stack)
        plan = write_plan(
            experiment=experiment,
            environment=prepared.environment,
            routes=prepared.routes,
            channels=channels,
            table=table,
            stop=stop,
            clock=clock,
            run_dir=run.path,
        )
        stack.callback(os.close, plan)
        fds += [plan, stop.fileno(), *table.fds()]
        metrics = MetricsWriter(run.path, "controller", wandb_project=experiment.logging.wandb_project)
        stack.callback(metrics.close)
        signals = stack.enter_context(stop_on_signals(stop))
        children = _start_all(prepared, fds, plan, run)
        controller = _Controller(experiment, prepared, run, stop, table, metrics, clock, children, report)
        error = controller.watch()
        return finish_run(run, table, clock, error=error, signal=signals.received)


def _connect(prepared: Prepared, stop: StopFlag, stack: ExitStack) -> tuple[dict[str, Channel], list[int]]:
    """Make every stream and service, and list the descriptors that processes inherit."""
    experiment, spec = prepared.experiment, prepared.environment
    actors, streams = experiment.actor.count, experiment.streams
    options = StreamOptions(lz4=streams.lz4)
    channels: dict[str, Channel] = {}
    fds: list[int] = []
    for route in prepared.routes:
        policy = prepared.policies[route.policy]
        samples = sample_spec(experiment, policy, spec)
        parameters = SharedMemoryParameters.create(prepared.parameter_schemas[route.policy], tags=(TAG,))
        stack.callback(parameters.close)
        parameters.publish(*prepared.initial[route.policy])
        channel = channels[route.policy] = Channel(route.policy, policy, samples, parameters)
        fds += parameters.fds()
        if route.trained:
            channel.samples = make_sample_link(
                streams.backend,
                samples,
                producers=actors,
                consumers=1,
                columns=spec.num_envs * len(route.trained),
                slots=streams.slots,
                when_full=streams.when_full,
                stop=stop,
                options=options,
            )
            stack.callback(channel.samples.close)
            fds += channel.samples.fds()
        if experiment.actor.inference == "remote":
            channel.inference = make_inference_link(
                streams.backend,
                policy,
                clients=actors,
                servers=experiment.policy_worker.count,
                members=experiment.actor.ring_size,
                rows=spec.num_envs * len(route.agents),
                stop=stop,
                options=options,
            )
            stack.callback(channel.inference.close)
            fds += channel.inference.fds()
    return channels, fds


def _start_all(prepared: Prepared, fds: list[int], plan: int, run: RunDirectory) -> list[Child]:
    children: list[Child] = []
    for worker in prepared.workers:
        try:
            children.append(_start(worker, prepared, fds, plan, run))
        except OSError as error:
            end_all(children, 0.0)
            raise RunError(
                f"{worker.name} cannot be started after {len(children)} other processes: {error.strerror}"
            ) from None
    return children


def _start(worker: Placement, prepared: Prepared, fds: list[int], plan: int, run: RunDirectory) -> Child:
    threads = prepared.experiment.trainer.threads if worker.kind == "trainer" else 1
    arguments = {
        "plan": plan,
        "name": worker.name,
        "kind": worker.kind,
        "index": worker.index,
        "policy": worker.policy,
        "parent": os.getpid(),
    }
    (run.logs / _report_name(worker.name)).unlink(missing_ok=True)  # of an earlier part of the run
    return start_child(
        worker.name,
        "srl_core.workers.main",
        [f"--{key}={value}" for key, value in arguments.items()],
        fds=fds,
        log=run.logs / f"{worker.name}.log",
        environment={
            # Processes and threads are pinned together: two processes with two threads each on two cores lose a third.
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            # A heap for each thread would keep memory that nobody uses: few threads of a worker allocate.
            "MALLOC_ARENA_MAX": "1",
            "PYTHONUNBUFFERED": "1",
        },
    )


class _Controller:
    """Watches the workers: ends the run when training is complete, when one fails, or when it is asked to stop."""

    def __init__(
        self,
        experiment: Experiment,
        prepared: Prepared,
        run: RunDirectory,
        stop: StopFlag,
        table: WorkerTable,
        metrics: MetricsWriter,
        clock: RunClock,
        children: list[Child],
        report: Callable[[Progress], None] | None,
    ) -> None:
        self._run, self._stop, self._table, self._metrics, self._report = run, stop, table, metrics, report
        self._children, self._clock = children, clock
        self._cpu_before = prepared.run.cpu_seconds
        self._interval = experiment.logging.interval_seconds
        # A meter's rates are over the time since its last look: the line and the records look at different times.
        self._meter = ProgressMeter(table, clock, experiment.budget)
        self._record_meter = ProgressMeter(table, clock, experiment.budget)
        # The run is over when these are: the others serve them.
        self._leaders = {w.name for w in prepared.workers if w.kind in ("trainer", "evaluator")}

    def watch(self) -> RunError | None:
        """Block until the run is over and no process is left; returns what went wrong, if anything."""
        failed: list[Child] = []
        running = list(self._children)
        try:
            self._follow(running, failed)
        finally:  # also where the report fails: its reader may have gone
            self._stop.set()
            # Whoever has not come to work yet has nothing to save, and may import for a long time on a busy machine.
            end_all([c for c in running if not self._table.row(c.name).get("heartbeat")], 0.0)
            running = [c for c in running if c.returncode is None]
            began = time.monotonic()
            killed = end_all(running, GRACE_SECONDS)
            failed += [c for c in running if c not in killed and self._failed(c)]
            self._count_own_time()
            self._record()
        if failed:
            return RunError(root_cause(self._run.path, failed))
        if killed:
            names = ", ".join(child.name for child in killed)
            what = f"{names} did not stop within {time.monotonic() - began:.0f} s and had to be killed"
            if any(child.name in self._leaders for child in killed):
                return RunError(what)
            _log.warning(what)  # they serve the others and have nothing to save
        return None

    def _follow(self, running: list[Child], failed: list[Child]) -> None:
        """Report until the run is over; moves children that end out of `running`, to `failed` where they failed."""
        recorded = looked = time.monotonic()
        while running and not self._stop.is_set():
            for child in wait_any(running, 0.25):
                running.remove(child)
                self._leaders.discard(child.name)
                if self._failed(child):
                    failed.append(child)
            if failed or not self._leaders:
                self._stop.set()
            self._count_own_time()
            now = time.monotonic()
            if now - looked >= 1.0 and self._report is not None:
                looked = now
                progress = self._meter.look()
                self._report(progress)
            if now - recorded >= self._interval:
                recorded = now
                self._record()

    def _failed(self, child: Child) -> bool:
        """Whether an ended child failed; while it still starts, the signal that stops the run may end it."""
        asked = self._stop.is_set() and -(child.returncode or 0) in (signal.SIGINT, signal.SIGTERM)
        return child.returncode != 0 and not asked

    def _count_own_time(self) -> None:
        self._table.row(CONTROLLER).set("cpu_seconds", self._cpu_before + time.process_time())

    def _record(self) -> None:
        self._metrics.write("progress", self._record_meter.look().numbers())
        record_progress(self._run, self._table, self._clock)


def _report_name(worker: str) -> str:
    return f"{worker}.error.json"


def root_cause(run_dir: Path, failed: list[Child]) -> str:
    """The error that came first: what follows from it in other workers is left out."""
    reports = []
    for child in failed:
        path = run_dir / "logs" / _report_name(child.name)
        if path.exists():
            data = json.loads(path.read_text())
            reports.append((data["time"], f"{child.name} failed: {data['error']}"))
    child = failed[0]
    code = child.returncode or 0
    if reports and code >= 0:  # one that was killed first had no time to report
        return min(reports)[1]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    full = "; its disk is full" if shutil.disk_usage(run_dir).free < _FULL else ""
    return f"{child.name} {how}; its output is in {run_dir / 'logs' / (child.name + '.log')}{full}"
