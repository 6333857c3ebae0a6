"""The trainer: batches in, parameters out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from srl_core.api import PollResult, SampleBatch
from srl_core.base.arrays import Arrays
from srl_core.base.errors import RunError
from srl_core.services.checkpoints import Checkpoints
from srl_core.workers.assembly import Assembler, Prefetcher
from srl_core.workers.context import TRAINER_COLUMNS, WorkerContext
from srl_core.workers.reuse_queue import ReuseQueue


class TrainerWorker:
    """Takes batches through the reuse queue, updates, publishes, writes checkpoints, and knows when it is done."""

    def __init__(self, context: WorkerContext) -> None:
        self.name = context.name
        self._context = context
        experiment = context.experiment
        self._config = config = experiment.trainer
        channel = context.channels[context.policy]
        assert channel.samples is not None
        self.algorithm = experiment.algorithm.build(context.environment, device=config.device, seed=experiment.seed)
        self._parameters = channel.parameters
        self._samples_spec = channel.samples_spec
        self._row = context.table.row(context.name)
        self._checkpoints = Checkpoints(context.run_dir / "checkpoints" / context.policy, keep=config.checkpoint_keep)
        self._consumer = channel.samples.consumer(0)
        self._assembler = Assembler(self._consumer, channel.samples_spec, config.batch_size)
        self._queue = ReuseQueue(config.queue_size, config.sample_reuse)
        self._overflows = experiment.streams.when_full == "drop_oldest"
        self.updates = 0
        self.env_steps = 0.0
        self.version = 0
        self._skipped_in_a_row = 0
        self._last_checkpoint = time.monotonic()
        self._checkpointed = -1
        self._published: Arrays | None = None
        self.restored: Mapping[str, Any] | None = None
        """What the launcher had added to the checkpoint that this trainer came back from."""
        self._restore()
        self._counted = {"dropped_batches": self._queue.dropped, "dropped_reuses": self._queue.dropped_reuses}
        prefetch = config.prefetch and not context.deterministic
        self._source = Prefetcher(self._assembler) if prefetch else self._assembler
        self._finished = self._budget_spent()

    def _restore(self) -> None:
        found = self._checkpoints.load_latest()
        if found is None:
            return
        _, state = found
        self.algorithm.load_state_dict(state["algorithm"])
        self.updates, self.env_steps = int(state["updates"]), float(state["env_steps"])
        self.version = int(state["version"])
        for name, value in state["counters"].items():
            self._row.set(name, value)
        self._checkpointed = self.updates
        self.restored = state["launcher"]
        if state["inputs"] is not None:
            self._queue.load_state_dict(state["inputs"]["queue"], self._samples_spec)
            self._assembler.load_state_dict(state["inputs"]["assembler"])

    def poll(self, timeout: float) -> PollResult:
        """Take in what has arrived and train on one batch; wait at most `timeout` seconds for it."""
        if self._finished:
            return self._rest(timeout)
        began = time.monotonic()
        self._take_in(timeout)
        batch = self._queue.get()
        self._row.add("wait_seconds", time.monotonic() - began)
        if batch is None:
            if not self._context.deterministic:
                self._finished = self._budget_spent()
            return PollResult(False)
        if self._stale(batch):  # it aged while it waited, and its further uses would be older still
            self._row.add("stale_batches", 1)
            self._source.recycle(batch)
            return PollResult(True)
        self._train(batch)
        if not self._queue.done(batch):
            self._source.recycle(batch)
        self._count_drops()
        self._finished = self._budget_spent()
        if not self._context.deterministic and self.checkpoint_due():
            self.save()
        return PollResult(True)

    def _count_drops(self) -> None:
        """What the queue has dropped since the last call; the columns also hold earlier parts of the run."""
        now = {"dropped_batches": self._queue.dropped, "dropped_reuses": self._queue.dropped_reuses}
        for column, value in now.items():
            self._row.add(column, value - self._counted[column])
        self._counted = now

    def _rest(self, timeout: float) -> PollResult:
        """This trainer is done. Until all are, what still comes is dropped: a full stream would stop the actors."""
        table = self._context.table
        self._row.set("finished", 1)
        if all(table.row(name).get("finished") for name in table.rows() if name.startswith("trainer-")):
            return PollResult(False, finished=True)
        batch = self._source.next(timeout)
        if batch is not None:
            self._source.recycle(batch)
        return PollResult(batch is not None)

    def checkpoint_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        every = self._config.checkpoint_seconds
        return every == 0 or time.monotonic() - self._last_checkpoint >= every

    def _take_in(self, timeout: float) -> None:
        """Fill the queue without waiting; wait only while it is empty.

        Where streams block, what does not fit waits in the stream. Where they drop, the newest is always taken in, and
        the queue drops for it.
        """
        deadline = time.monotonic() + timeout
        for _ in range(self._queue.free() if not self._overflows else self._config.queue_size):
            wait = max(0.0, deadline - time.monotonic()) if not len(self._queue) else 0.0
            batch = self._source.next(wait)
            if batch is None:
                break
            if self._stale(batch):
                self._row.add("stale_batches", 1)
                self._source.recycle(batch)
                continue
            for dropped in self._queue.put(batch):
                self._source.recycle(dropped)

    def _stale(self, batch: SampleBatch) -> bool:
        return 0 <= batch.oldest_version() < self.version - self._config.max_staleness

    def _train(self, batch: SampleBatch) -> None:
        versions = batch.sample_part("version")[batch.sample_part("valid")]
        staleness = self.version - float(versions.mean()) if len(versions) else 0.0
        new_steps = batch.env_steps() if batch.uses == 0 else 0.0
        metrics = self.algorithm.update(batch)
        self.updates += 1
        self.env_steps += new_steps
        row = self._row
        row.add("updates", 1)
        row.add("env_steps_consumed", new_steps)
        row.add("gradient_steps", metrics["gradient_steps"])
        row.add("gradient_samples", metrics["gradient_samples"])
        row.set("staleness", staleness)
        row.set("version", self.version)
        row.set("queue_fill", self._consumer.waiting())
        self._guard(metrics)
        self._publish()
        self._context.metrics.write(
            "train",
            {
                "t": self._context.clock.now(),
                "env_steps": self._context.table.total("env_steps_consumed"),
                "version": self.version,
                "update": self.updates,
                "policy": self._context.policy,
                "staleness": staleness,
                "sample_use": batch.uses,
                **metrics,
            },
        )

    def _publish(self) -> None:
        if self.updates % self._config.publish_every == 0:
            self.version += 1
            parameters = self.algorithm.policy.read_parameters()
            self._parameters.publish(self.version, parameters)
            if self._config.publish_every > 1:  # a checkpoint between two publications needs what the actors have
                self._published = parameters

    def _guard(self, metrics: Mapping[str, float]) -> None:
        if not metrics["skipped"]:
            self._skipped_in_a_row = 0
            return
        self._row.add("skipped_updates", metrics["skipped"])
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= self._config.max_skipped:
            raise RunError(
                f"{self._skipped_in_a_row} updates in a row were skipped because a number was not finite "
                f"(trainer.max_skipped), last {self.algorithm.skip_reason}; "
                "look at rewards, observations and the learning rate"
            )

    def _budget_spent(self) -> bool:
        budget = self._context.experiment.budget
        return (
            bool(budget.env_steps and self._context.table.total("env_steps_consumed") >= budget.env_steps)
            or bool(budget.updates and self.updates >= budget.updates)
            or bool(budget.seconds and self._context.clock.now() >= budget.seconds)
            or self._context.table.total("target_reached") > 0
        )

    def save(self, launcher: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint of everything that resuming needs, unless nothing was learned since the last one.

        `launcher` is the state of all other workers, where they stand still between two polls of this one; then what
        has arrived here but was not trained on is saved too.
        """
        self._last_checkpoint = time.monotonic()
        if self._checkpointed == self.updates:
            return
        self._checkpoints.save(
            self.updates,
            {
                "algorithm": self.algorithm.state_dict(),
                "published": self._published,
                "updates": self.updates,
                "env_steps": self.env_steps,
                "version": self.version,
                "t": self._context.clock.now(),
                "counters": {name: self._row.get(name) for name in TRAINER_COLUMNS},
                "launcher": launcher,
                "inputs": None
                if launcher is None
                else {"queue": self._queue.state_dict(), "assembler": self._assembler.state_dict()},
            },
        )
        self._checkpointed = self.updates

    def drain(self) -> None:
        self.save()

    def close(self) -> None:
        if isinstance(self._source, Prefetcher):
            self._source.close()
        self._consumer.close()
