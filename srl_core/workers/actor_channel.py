"""The part of an actor that belongs to one policy: requests, recurrent state, trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.api import InferenceClient, Tick
from srl_core.base.arrays import Arrays, with_prefix, zeros
from srl_core.base.errors import RunError
from srl_core.base.seeding import generator
from srl_core.workers.context import Route, WorkerContext
from srl_core.workers.local_inference import LocalInference
from srl_core.workers.trajectories import TrajectoryBuilder


class _Member:
    """State of one ring member under this policy."""

    def __init__(self, rng: np.random.Generator, state: Arrays, builder: TrajectoryBuilder | None) -> None:
        self.rng, self.state, self.builder = rng, state, builder
        self.rows: np.ndarray | None = None
        """Rows of the outstanding request; None: all."""
        self.request: Arrays = {}
        self.reply: Arrays | None = None
        self.active = np.zeros(0, bool)
        self.shares = np.zeros(0, np.float32)
        self.asked = False


class ActorChannel:
    """Asks one policy for the actions of its agents' rows and sends what it is to be trained on."""

    def __init__(self, context: WorkerContext, route: Route, seed: int) -> None:
        experiment, spec = context.experiment, context.environment
        channel = context.channels[route.policy]
        agents = len(spec.agents)
        env_rows = np.arange(spec.num_envs)[:, None] * agents
        self._rows = (env_rows + np.array(route.agents)).ravel()
        self._all_rows = len(self._rows) == spec.rows
        trained = np.isin(self._rows % agents, route.trained)
        self._trained_anywhere = sorted({agent for r in context.routes for agent in r.trained})
        self._trained = None if trained.all() else np.flatnonzero(trained)
        self._even_shares = np.full(len(self._rows), 1.0 / max(len(self._trained_anywhere), 1), np.float32)
        self._columns = int(trained.sum())
        self._env_of_row = self._rows // agents
        self._num_envs = spec.num_envs
        self._deterministic = context.deterministic
        self._state_schema = with_prefix("state", channel.spec.state)
        self._dims = spec.action.dims
        self._client: InferenceClient
        if experiment.actor.inference == "inline":
            policy = experiment.algorithm.build_policy(spec, device="cpu", seed=experiment.seed)
            self._client = LocalInference(policy, channel.parameters, experiment.actor.pull_seconds)
        else:
            assert channel.inference is not None
            self._client = channel.inference.client(context.index)
        self._producer = channel.samples.producer(context.index) if self._columns and channel.samples else None
        self._members = [
            _Member(
                generator(seed, "noise", route.policy, member),
                zeros(self._state_schema, (len(self._rows),)),
                TrajectoryBuilder(channel.samples_spec, self._columns, experiment.trajectory.cut, self._producer.put)
                if self._producer
                else None,
            )
            for member in range(experiment.actor.ring_size)
        ]

    def _mine(self, array: np.ndarray) -> np.ndarray:
        return array if self._all_rows else array[self._rows]

    def observe(self, member: int, tick: Tick) -> int:
        """Stage the request for the tick's observations; returns how many agents are to act."""
        m = self._members[member]
        if tick.final_rows is not None and len(tick.final_rows):
            self._record_skipped_finals(member, tick)
        active, first = self._mine(tick.active), self._mine(tick.first)
        present = active | self._mine(tick.terminated) | self._mine(tick.truncated)
        if tick.final_rows is not None:
            present = active
        m.rows = None if present.all() else np.flatnonzero(present)
        request = self._request(m, tick.observation, first, m.rows)
        m.active = active if m.rows is None else active[m.rows]
        m.shares = self._shares(m, tick)
        m.request, m.reply = request, None
        m.asked = bool(len(m.active))
        if m.asked:
            self._client.post(member, request)
        return int(active.sum())

    def _request(self, m: _Member, observation: Arrays, first: np.ndarray, rows: np.ndarray | None) -> Arrays:
        noise = m.rng.random((len(self._rows), self._dims), np.float32)  # for all rows: independent of who is present
        request = {f"observation.{name}": self._mine(array) for name, array in observation.items()}
        request.update(m.state)
        request["first"], request["noise"] = first, noise
        return request if rows is None else {name: array[rows] for name, array in request.items()}

    def _shares(self, m: _Member, tick: Tick) -> np.ndarray:
        """Split each env step evenly among the environment's acting, trained agents, those of other policies included:
        so that no step counts twice."""
        if m.rows is None and self._trained is None and tick.active.all():
            return self._even_shares
        rows = np.arange(len(self._rows)) if m.rows is None else m.rows
        counted = m.active if self._trained is None else m.active & np.isin(rows, self._trained)
        acting = tick.active.reshape(self._num_envs, -1)[:, self._trained_anywhere].sum(1)
        share = 1.0 / np.maximum(acting, 1)
        return np.where(counted, share[self._env_of_row[rows]], 0.0).astype(np.float32)

    def _record_skipped_finals(self, member: int, tick: Tick) -> None:
        """Same-step autoreset: give the final observations the steps of their own that they have everywhere else."""
        m = self._members[member]
        assert tick.final_observation is not None
        assert tick.final_rows is not None
        place = {int(row): i for i, row in enumerate(self._rows)}
        picked = [(i, place[int(row)]) for i, row in enumerate(tick.final_rows) if int(row) in place]
        if not picked:
            return
        source, rows = (np.array(x) for x in zip(*picked, strict=True))
        request = {f"observation.{name}": array[source] for name, array in tick.final_observation.items()}
        request.update({name: array[rows] for name, array in m.state.items()})
        request["first"] = np.zeros(len(rows), bool)
        request["noise"] = np.zeros((len(rows), self._dims), np.float32)
        self._client.post(member, request)
        self._client.flush()
        while (reply := self._client.collect(member, 1.0)) is None:
            if self._deterministic:
                raise RunError(
                    "an environment that restarts within the step that ends an episode needs an answer at once, which "
                    "a policy worker of the same thread cannot give; use actor.inference=inline or start processes"
                )
        self._append(m, rows, request, reply, np.zeros(len(rows), bool), np.zeros(len(rows), np.float32))

    @property
    def dropped(self) -> int:
        """Trajectories that its sample stream has dropped."""
        return self._producer.dropped if self._producer else 0

    def flush(self) -> None:
        self._client.flush()

    def collect(self, member: int, timeout: float) -> bool:
        """Whether the member's reply is here."""
        m = self._members[member]
        if m.reply is None and m.asked:
            m.reply = self._client.collect(member, timeout)
        return m.reply is not None or not m.asked

    def act(self, member: int, actions: np.ndarray) -> None:
        """Write the reply's actions into `actions` [R, dims] and keep its recurrent state."""
        m = self._members[member]
        if m.reply is None:
            return
        if m.rows is None and self._all_rows:
            actions[...] = m.reply["action"]
        else:
            actions[self._rows if m.rows is None else self._rows[m.rows]] = m.reply["action"]
        for name in self._state_schema:
            m.state[name] = m.state[name].copy()  # the request still refers to the old one
            m.state[name][slice(None) if m.rows is None else m.rows] = m.reply[name]

    def record(self, member: int) -> None:
        """Append the step that `act` took to the trajectories."""
        m = self._members[member]
        if m.reply is not None:
            self._append(m, m.rows, m.request, m.reply, m.active, m.shares)
            m.reply = None

    def _append(
        self, m: _Member, rows: np.ndarray | None, request: Arrays, reply: Arrays, valid: np.ndarray, shares: np.ndarray
    ) -> None:
        if m.builder is None:
            return
        if self._trained is not None:
            rows = np.arange(len(self._rows)) if rows is None else rows
            keep = np.isin(rows, self._trained)
            if not keep.any():
                return
            rows = np.searchsorted(self._trained, rows[keep])
            request = {name: array[keep] for name, array in request.items()}
            reply = {name: array[keep] for name, array in reply.items()}
            valid, shares = valid[keep], shares[keep]
            rows = None if len(rows) == self._columns else rows
        m.builder.record(rows, request, reply, valid, shares)

    def outcome(self, member: int, tick: Tick) -> None:
        """Tell the trajectories what followed the actions sent before."""
        m = self._members[member]
        if m.builder is not None:
            arrays = [self._mine(a) for a in (tick.reward, tick.terminated, tick.truncated)]
            if self._trained is not None:
                arrays = [a[self._trained] for a in arrays]
            m.builder.outcome(*arrays)

    def state_dict(self) -> dict[str, Any]:
        return {
            "members": [
                {
                    "rng": m.rng.bit_generator.state,
                    "state": dict(m.state),
                    "builder": m.builder.state_dict() if m.builder else None,
                }
                for m in self._members
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for m, saved in zip(self._members, state["members"], strict=True):
            m.rng.bit_generator.state = saved["rng"]
            m.state = {name: np.array(saved["state"][name]) for name in self._state_schema}
            if m.builder is not None:
                m.builder.load_state_dict(saved["builder"])

    def close(self) -> None:
        self._client.close()
        if self._producer:
            self._producer.close()
