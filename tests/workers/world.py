"""Everything that joins workers, in one process: a test makes the workers it is about and polls them in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from srl_core.base.arrays import Arrays
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment
from srl_core.launchers.prepare import probe
from srl_core.launchers.topology import placements
from srl_core.services.metrics import WorkerTable
from srl_core.services.parameters import InMemoryParameters
from srl_core.streams import StreamOptions, make_inference_link, make_sample_link
from srl_core.workers.actor import ActorWorker
from srl_core.workers.context import COLUMNS, CONTROLLER, Channel, RunClock, WorkerContext
from srl_core.workers.kinds import make_worker
from srl_core.workers.plan import sample_spec


class Records:
    """Keeps what workers report, instead of writing files (which has tests of its own)."""

    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, Any]]] = []

    def write(self, kind: str, record: dict[str, Any]) -> None:
        self.written.append((kind, record))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for written, record in self.written if written == kind]


class World:
    """The streams and services of one experiment, all of one back-end."""

    def __init__(self, experiment: Experiment, path: Path, backend: str, slots: int, stack: ExitStack) -> None:
        self.experiment, self.stop, self._stack = experiment, StopFlag(), stack
        self.spec, self.routes = probe(experiment)
        self.placements = placements(experiment, self.routes)
        self.table = WorkerTable.create([CONTROLLER, *(p.name for p in self.placements)], list(COLUMNS))
        self.records = Records()
        self.path, self.channels, self._consumers = path, {}, {}
        for route in self.routes:
            policy = experiment.algorithm.build_policy(self.spec, device="cpu", seed=experiment.seed)
            samples = sample_spec(experiment, policy.spec, self.spec)
            parameters = InMemoryParameters()
            parameters.publish(0, policy.read_parameters())
            channel = self.channels[route.policy] = Channel(route.policy, policy.spec, samples, parameters)
            common = {"stop": self.stop, "options": StreamOptions()}
            if route.trained:
                columns = self.spec.num_envs * len(route.trained)
                channel.samples = make_sample_link(
                    backend,
                    samples,
                    producers=experiment.actor.count,
                    consumers=1,
                    columns=columns,
                    slots=slots,
                    when_full=experiment.streams.when_full,
                    **common,
                )
                stack.callback(channel.samples.close)
            if experiment.actor.inference == "remote":
                channel.inference = make_inference_link(
                    backend,
                    policy.spec,
                    clients=experiment.actor.count,
                    servers=experiment.policy_worker.count,
                    members=experiment.actor.ring_size,
                    rows=self.spec.num_envs * len(route.agents),
                    **common,
                )
                stack.callback(channel.inference.close)

    def worker(self, name: str, *, deterministic: bool = False):
        """The worker of this name, closed at the end."""
        placement = next(p for p in self.placements if p.name == name)
        context = WorkerContext(
            experiment=self.experiment,
            name=name,
            index=placement.index,
            policy=placement.policy,
            environment=self.spec,
            routes=self.routes,
            channels=self.channels,
            run_dir=self.path,
            clock=RunClock(time.monotonic()),
            stop=self.stop,
            table=self.table,
            metrics=self.records,  # type: ignore[arg-type]
            deterministic=deterministic,
        )
        worker = make_worker(placement.kind, context)
        self._stack.callback(worker.close)
        return worker

    def act(self, actor: ActorWorker, steps: int, *servers) -> dict[str, list[Arrays]]:
        """Poll `actor` until it made `steps` ticks, and `servers` in turn; returns copies of its samples by policy."""
        samples: dict[str, list[Arrays]] = {name: [] for name in self.channels}
        made, turn, deadline = 0, 0, time.monotonic() + 60
        while made < steps:
            assert time.monotonic() < deadline, "the actor stands still"
            made += actor.poll(0.0).busy
            if servers:
                turn += servers[turn % len(servers)].poll(0.0).busy
            for name in samples:
                samples[name] += self.arrived(name)
        for name in samples:
            samples[name] += self.arrived(name)
        return samples

    def arrived(self, policy: str = "default") -> list[Arrays]:
        """Copies of the samples that wait."""
        channel = self.channels[policy]
        if channel.samples is None:
            return []
        if policy not in self._consumers:
            self._consumers[policy] = channel.samples.consumer(0)
            self._stack.callback(self._consumers[policy].close)
        found = []
        while (sample := self._consumers[policy].get(0.0)) is not None:
            found.append({name: array.copy() for name, array in sample.arrays.items()})
            sample.release()
        return found


@contextmanager
def world(experiment: Experiment, path: Path, backend: str = "inline", *, slots: int = 64) -> Iterator[World]:
    with ExitStack() as stack:
        made = World(experiment, path, backend, slots, stack)
        stack.callback(made.stop.set)
        yield made
