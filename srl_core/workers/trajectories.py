"""Cutting: from single steps of many rows to samples of fixed length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from srl_core.api import SampleSpec
from srl_core.base.arrays import Arrays
from srl_core.base.errors import RunError


class TrajectoryBuilder:
    """Collects the steps of R rows and hands out samples [L, n, ...] as soon as rows have L steps.

    Rows usually move in step (a vector of single-agent environments), and then a step is one slice assignment and all
    rows complete together. Rows may also drift apart (agents that come and go); then each completes on its own.
    The order of calls in one tick: `outcome` for the actions sent before, then `record` for the new observations.
    """

    def __init__(self, spec: SampleSpec, rows: int, cut: str, emit: Callable[[Arrays], None]) -> None:
        """`emit` gets each sample; its arrays are views that change with the next call."""
        self._spec, self._rows, self._cut, self._emit = spec, rows, cut, emit
        self._length = spec.length
        self._store = spec.empty(rows)
        self._all = np.arange(rows)
        # A row's memory starts with burn_in empty steps, so that its first own step is trained on like any other.
        self._position = np.full(rows, spec.burn_in_steps)
        self._common: int | None = spec.burn_in_steps
        self._ended = np.zeros(rows, bool)

    def outcome(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """What followed each row's newest step: arrays [R]. Rewards add up while a row does not act."""
        store = self._store
        if self._common is not None:
            step = self._common - 1
            if step >= self._spec.burn_in_steps:
                store["reward"][step] += reward
                store["terminated"][step] |= terminated
                store["truncated"][step] |= truncated
        else:
            began = self._position > self._spec.burn_in_steps
            rows, steps = self._all[began], self._position[began] - 1
            store["reward"][steps, rows] += reward[rows]
            store["terminated"][steps, rows] |= terminated[rows]
            store["truncated"][steps, rows] |= truncated[rows]
        np.logical_or(self._ended, terminated | truncated, out=self._ended)

    def record(
        self, rows: np.ndarray | None, request: Arrays, reply: Arrays, valid: np.ndarray, env_steps: np.ndarray
    ) -> None:
        """Append a step of `rows` (None: all): request and reply [n, ...], and the fields [n] that the actor adds."""
        # The state before the step, not the reply's.
        before = {name: array for name, array in request.items() if name.startswith(("observation.", "state."))}
        fields = {**reply, **before, "valid": valid, "env_steps": env_steps, "first": request["first"]}
        if self._cut == "concise":
            rows, fields = self._concise(rows, fields)
            if not len(rows):
                return
        if rows is None and self._common is not None:
            self._write(self._common, slice(None), fields)
            self._position += 1
            self._common += 1
        else:
            rows = self._all if rows is None else rows
            self._write(self._position[rows], rows, fields)
            self._position[rows] += 1
            first = self._position[0]
            self._common = int(first) if (self._position == first).all() else None
        self._finish(self._all if rows is None else rows)

    def _concise(self, rows: np.ndarray | None, fields: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """Keep only first and final observations."""
        rows = self._all if rows is None else rows
        keep = np.flatnonzero((self._position[rows] == 0) | self._ended[rows])
        return rows[keep], {name: array[keep] for name, array in fields.items()}

    def _write(self, step: Any, rows: Any, fields: dict[str, Any]) -> None:
        for name, target in self._store.items():
            stack = self._spec.stacks.get(name)
            if stack is None:
                target[step, rows] = fields.get(name, 0)  # reward, terminated and truncated are not known yet
            else:
                target[step + stack - 1, rows] = fields[name][:, -1]

    def _finish(self, rows: np.ndarray) -> None:
        if self._cut == "chunks":
            if self._common is not None:
                if self._common == self._length:
                    self._emit(self._store)
                    self._shift(slice(None))
                    self._common -= self._spec.sample_steps
                    self._position[:] = self._common
                self._ended[rows] = False
                return
            done = rows[self._position[rows] == self._length]
            self._ended[rows] = False
        else:
            done = rows[self._ended[rows]]
            over = self._position[rows] >= self._length
            if (over & ~self._ended[rows]).any():
                raise RunError(
                    f"trajectory.sample_steps is {self._spec.sample_steps}, but an episode is longer; "
                    "with cut=full it must be the longest episode's length"
                )
        if len(done):
            self._emit_rows(done)

    def _emit_rows(self, rows: np.ndarray) -> None:
        if self._cut == "chunks":
            self._emit({name: array[:, rows] for name, array in self._store.items()})
            self._shift(rows)
            self._position[rows] -= self._spec.sample_steps
        else:
            for row in rows:  # whatever an earlier, longer episode left behind the end is padding now
                for name, array in self._store.items():
                    array[self._position[row] + self._spec.stacks.get(name, 1) - 1 :, row] = 0
            self._emit({name: array[:, rows] for name, array in self._store.items()})
            self._position[rows] = 0
            self._ended[rows] = False
        first = self._position[0]
        self._common = int(first) if (self._position == first).all() else None

    def _shift(self, rows: Any) -> None:
        """Move the overlap with the next sample to the front."""
        step = self._spec.sample_steps
        for name, array in self._store.items():
            stack = self._spec.stacks.get(name, 1)
            keep = len(array) - step
            if stack > 1:
                self._forget_frames(array, stack, rows)
            if step >= keep:
                array[:keep, rows] = array[step:, rows]
            else:  # source and target overlap
                array[:keep, rows] = array[step:, rows].copy()

    def _forget_frames(self, frames: np.ndarray, stack: int, rows: Any) -> None:
        """Zero the frames that precede the next sample but belong to an earlier episode than its first step.

        Later on `first` tells which frames of a stack to zero, but only for steps inside the sample.
        """
        step, first = self._spec.sample_steps, self._store["first"]
        for i in range(stack - 1):
            began = first[max(0, step + i - stack + 2) : step, rows].any(axis=0)
            if began.any():
                columns = self._all[rows][began]
                frames[step + i, columns] = 0

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed actor needs to go on with half-built trajectories."""
        return {
            "store": {name: array.copy() for name, array in self._store.items()},
            "position": self._position.copy(),
            "ended": self._ended.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, array in self._store.items():
            array[...] = state["store"][name]
        self._position[...] = state["position"]
        self._ended[...] = state["ended"]
        first = self._position[0]
        self._common = int(first) if (self._position == first).all() else None
