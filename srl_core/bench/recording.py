"""A batch of real trajectories in one process, for measuring learning alone."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from srl_core.api import Algorithm, SampleBatch
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment
from srl_core.launchers.prepare import probe
from srl_core.services.metrics import WorkerTable
from srl_core.services.parameters import InMemoryParameters
from srl_core.streams import StreamOptions, make_sample_link
from srl_core.workers.actor import ActorWorker
from srl_core.workers.assembly import Assembler
from srl_core.workers.context import COLUMNS, Channel, RunClock, WorkerContext
from srl_core.workers.plan import sample_spec


def record_batch(experiment: Experiment) -> tuple[SampleBatch, Algorithm]:
    """One batch, acted by the initial policy with inline inference, and the algorithm that would train on it."""
    experiment = dataclasses.replace(experiment, actor=dataclasses.replace(experiment.actor, inference="inline"))
    environment, routes = probe(experiment)
    route = next(r for r in routes if r.trained)
    algorithm = experiment.algorithm.build(environment, device=experiment.trainer.device, seed=experiment.seed)
    stop = StopFlag()
    spec = sample_spec(experiment, algorithm.policy.spec, environment)
    parameters = InMemoryParameters()
    parameters.publish(0, algorithm.policy.read_parameters())
    link = make_sample_link(
        "inline",
        spec,
        producers=1,
        consumers=1,
        columns=environment.num_envs * len(route.trained),
        slots=2,
        when_full="block",
        stop=stop,
        options=StreamOptions(),
    )
    channel = Channel(route.policy, algorithm.policy.spec, spec, parameters, samples=link)
    context = WorkerContext(
        experiment=experiment,
        name="actor-0",
        index=0,
        policy="",
        environment=environment,
        routes=[route],
        channels={route.policy: channel},
        run_dir=Path(),
        clock=RunClock(time.monotonic()),
        stop=stop,
        table=WorkerTable.create(["actor-0"], list(COLUMNS)),
        metrics=None,  # type: ignore[arg-type]  # actors write none
        deterministic=True,
    )
    actor = ActorWorker(context)
    assembler = Assembler(link.consumer(0), spec, experiment.trainer.batch_size)
    while (batch := assembler.next(0.0)) is None:
        actor.poll(0.0)
    actor.close()
    return batch, algorithm
