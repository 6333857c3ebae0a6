"""The actor: steps a ring of environments, asks for actions, cuts trajectories."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.api import PollResult, Tick
from srl_core.api.environment import Resumable
from srl_core.base.seeding import derive_seed
from srl_core.workers.actor_channel import ActorChannel
from srl_core.workers.context import WorkerContext


class ActorWorker:
    """Serves every member of its ring in strict order.

    A member either waits for actions or is being simulated. Each poll sends the actions of the member that has waited
    longest, if its reply has come, and then receives the step of the member that has been simulated longest. So a
    reply may take as long as the other members' steps: no idle time once ring_size >= 1 + reply time / step time.
    """

    def __init__(self, context: WorkerContext) -> None:
        self.name = context.name
        self._context = context
        experiment, spec = context.experiment, context.environment
        self._row = context.table.row(context.name)
        self._frame_skip = spec.frame_skip
        seed = derive_seed(experiment.seed, "actor", context.index)
        size = experiment.actor.ring_size
        self._channels = [ActorChannel(context, route, seed) for route in context.routes]
        self._ring = [experiment.environment.build(spec.num_envs, training=True) for _ in range(size)]
        self._flush_after = -(-size // (experiment.actor.inference_splits or size))
        self._staged = 0
        self._waiting: deque[int] = deque()
        self._simulated: deque[int] = deque()
        self._seeds = [derive_seed(seed, "member", m) for m in range(size)]
        self._dropped = 0
        """Trajectories that this part of the run has dropped; the column also holds earlier parts."""
        self._started = False

    def poll(self, timeout: float) -> PollResult:
        """Advance one member by one step; wait at most `timeout` seconds for its actions."""
        if not self._started:
            self._start()
        # With nothing to simulate meanwhile, the reply is all there is to wait for.
        busy = self._send_actions(timeout if not self._simulated else 0.0)
        if self._simulated:
            self._receive(self._simulated.popleft())
            busy = True
        return PollResult(busy)

    def _start(self) -> None:
        self._started = True
        for member, environment in enumerate(self._ring):
            self._observe(member, environment.reset(self._seeds[member]))

    def _send_actions(self, timeout: float) -> bool:
        if not self._waiting:
            return False
        member = self._waiting[0]
        if not self._simulated:
            self._flush()
        began = time.monotonic() if timeout else 0.0
        replied = all(channel.collect(member, timeout) for channel in self._channels)
        if timeout:
            self._row.add("wait_seconds", time.monotonic() - began)
        if not replied:
            return False
        self._waiting.popleft()
        spec = self._context.environment
        actions = np.zeros((spec.rows, spec.action.dims), spec.action.dtype)
        for channel in self._channels:
            channel.act(member, actions)
        self._ring[member].send(actions)
        self._simulated.append(member)
        for channel in self._channels:  # after the send, so that a native environment simulates meanwhile
            channel.record(member)
        return True

    def _receive(self, member: int) -> None:
        tick = self._ring[member].recv()
        row = self._row
        row.add("env_steps_generated", tick.env_steps)
        row.add("frames", tick.env_steps * self._frame_skip)
        for episode in tick.episodes:
            row.add("episodes", 1)
            row.add("return_sum", float(np.mean(episode.returns)))
        for channel in self._channels:
            channel.outcome(member, tick)
        dropped = sum(channel.dropped for channel in self._channels)
        row.add("dropped_trajectories", dropped - self._dropped)
        self._dropped = dropped
        self._observe(member, tick)

    def _observe(self, member: int, tick: Tick) -> None:
        for channel in self._channels:
            self._row.add("agent_steps", channel.observe(member, tick))
        self._waiting.append(member)
        self._staged += 1
        if self._staged >= self._flush_after:
            self._flush()
            # Inline replies are there at once: the member is simulated again before the next one is looked at.
            if self._context.experiment.actor.inference == "inline":
                self._send_actions(0.0)

    def _flush(self) -> None:
        if self._staged:
            self._staged = 0
            for channel in self._channels:
                channel.flush()

    @property
    def resumable(self) -> bool:
        """Whether all its environments can be saved exactly."""
        return all(isinstance(environment, Resumable) for environment in self._ring)

    def state_dict(self) -> dict[str, Any]:
        """Exact state between two polls; for the deterministic mode with environments that can be saved."""
        return {
            "environments": [environment.state_dict() for environment in self._ring],  # type: ignore[attr-defined]
            "channels": [channel.state_dict() for channel in self._channels],
            "simulated": list(self._simulated),
            "row": self._row.values(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._started = True
        for environment, saved in zip(self._ring, state["environments"], strict=True):
            environment.load_state_dict(saved)  # type: ignore[attr-defined]
        for channel, saved in zip(self._channels, state["channels"], strict=True):
            channel.load_state_dict(saved)
        for column, value in state["row"].items():
            self._row.set(column, value)
        self._simulated = deque(int(m) for m in state["simulated"])

    def drain(self) -> None:
        """Half-built trajectories are not worth waiting for."""

    def close(self) -> None:
        for environment in self._ring:
            environment.close()
        for channel in self._channels:
            channel.close()
