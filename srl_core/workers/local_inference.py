"""Inline inference: the actor's own copy of the policy behind the contract of an inference client."""

from __future__ import annotations

import time

import numpy as np

from srl_core.api import Policy
from srl_core.api.streams import concatenate, rows_of
from srl_core.base.arrays import Arrays
from srl_core.services.parameters import ParameterService


class LocalInference:
    """Answers all staged requests in one forward pass at `flush`, with the newest parameters."""

    def __init__(self, policy: Policy, parameters: ParameterService, pull_seconds: float) -> None:
        self._policy, self._parameters, self._pull_seconds = policy, parameters, pull_seconds
        self._staged: list[tuple[int, Arrays]] = []
        self._replies: dict[int, Arrays] = {}
        self._version = -1
        self._next_pull = 0.0
        self.pull()

    def pull(self) -> None:
        """Take over the newest parameters, where there are newer ones."""
        if self._parameters.version() > self._version:
            found = self._parameters.read(newer_than=self._version)
            if found is not None:
                self._version, parameters = found
                self._policy.write_parameters(parameters)

    def post(self, member: int, request: Arrays) -> None:
        self._staged.append((member, request))

    def flush(self) -> None:
        if not self._staged:
            return
        if self._pull_seconds == 0 or time.monotonic() >= self._next_pull:
            self.pull()
            self._next_pull = time.monotonic() + self._pull_seconds
        if len(self._staged) == 1:
            requests = self._staged[0][1]
        else:
            requests = concatenate([request for _, request in self._staged])
        reply = self._policy.act(requests)
        reply["version"] = np.full(rows_of(reply), self._version)
        start = 0
        for member, request in self._staged:
            end = start + rows_of(request)
            self._replies[member] = {name: array[start:end] for name, array in reply.items()}
            start = end
        self._staged.clear()

    def collect(self, member: int, timeout: float) -> Arrays | None:
        del timeout  # the reply is there or never comes
        return self._replies.pop(member, None)

    def close(self) -> None:
        """Nothing is held."""
