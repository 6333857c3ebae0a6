"""Kinds of workers, imported only where they run: an actor that asks policy workers never imports torch."""

from __future__ import annotations

from srl_core.api import Worker
from srl_core.base.registry import Registry
from srl_core.workers.context import WorkerContext

WORKERS = Registry(
    "worker kind",
    {
        "actor": "srl_core.workers.actor:ActorWorker",
        "policy": "srl_core.workers.policy:PolicyWorker",
        "trainer": "srl_core.workers.trainer:TrainerWorker",
        "evaluator": "srl_core.workers.evaluator:EvaluatorWorker",
    },
)


def make_worker(kind: str, context: WorkerContext) -> Worker:
    """Configure a worker of `kind`."""
    return WORKERS.get(kind)(context)
