"""The policy worker: a batched inference server."""

from __future__ import annotations

import time

import numpy as np

from srl_core.api import PollResult
from srl_core.workers.context import WorkerContext


class PolicyWorker:
    """Answers whatever has arrived while the last batch was computed: batches grow with the load, without a timer."""

    def __init__(self, context: WorkerContext) -> None:
        self.name = context.name
        experiment = context.experiment
        channel = context.channels[context.policy]
        assert channel.inference is not None
        self._row = context.table.row(context.name)
        self._config = experiment.policy_worker
        self._policy = experiment.algorithm.build_policy(context.environment, device="cpu", seed=experiment.seed)
        self._parameters = channel.parameters
        self._version = -1
        self._next_pull = 0.0
        self._pull()
        self._server = channel.inference.server(context.index)

    def poll(self, timeout: float) -> PollResult:
        """Serve one batch; wait at most `timeout` seconds for the first request."""
        began = time.monotonic()
        requests = self._server.receive(self._config.max_batch_size, timeout)
        self._row.add("wait_seconds", time.monotonic() - began)
        if requests is None:
            return PollResult(False)
        if self._config.pull_seconds == 0 or time.monotonic() >= self._next_pull:
            self._pull()
            self._next_pull = time.monotonic() + self._config.pull_seconds
        reply = self._policy.act(requests.arrays)
        reply["version"] = np.full(requests.rows, self._version)
        self._server.reply(requests, reply)
        self._row.add("requests", requests.rows)
        self._row.add("inference_batches", 1)
        return PollResult(True)

    def _pull(self) -> None:
        if self._parameters.version() > self._version:
            found = self._parameters.read(newer_than=self._version)
            if found is not None:
                self._version, parameters = found
                self._policy.write_parameters(parameters)

    def drain(self) -> None:
        """Requests that still wait are answered by nobody: their actors stop too."""

    def close(self) -> None:
        self._server.close()
