"""CartPole, vectorised in NumPy, with and without velocities.

Physics and limits are Gymnasium's CartPole-v1 (Barto, Sutton and Anderson 1983): Euler steps of 0.02 s, an episode
terminates beyond 2.4 m or 12 degrees and is truncated after 500 steps; reward 1 a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from srl_core.api import ActionSpec, EnvironmentConfig, EnvironmentSpec, EpisodeEnd, Tick
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import UserError
from srl_core.base.seeding import derive_seed

GRAVITY, CART_MASS, POLE_MASS, HALF_POLE, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
POSITION_LIMIT, ANGLE_LIMIT = 2.4, 12 * math.pi / 180


@dataclass(frozen=True)
class CartPoleConfig(EnvironmentConfig):
    """Balance a pole on a cart; the optimal return is `max_steps`."""

    kind: ClassVar[str] = "cartpole"

    max_steps: int = 500
    """Length [env steps] at which an episode is truncated."""

    def build(self, num_envs: int, *, training: bool) -> CartPoleVector:
        return CartPoleVector(num_envs, self.max_steps, columns=(0, 1, 2, 3))


@dataclass(frozen=True)
class StatelessCartPoleConfig(CartPoleConfig):
    """CartPole whose observation leaves the velocities out: only a policy with memory can balance for long."""

    kind: ClassVar[str] = "stateless_cartpole"

    def build(self, num_envs: int, *, training: bool) -> CartPoleVector:
        return CartPoleVector(num_envs, self.max_steps, columns=(0, 2))


class CartPoleVector:
    """E carts; the observation is float32 [columns] of (position, velocity, angle, angular velocity)."""

    def __init__(self, num_envs: int, max_steps: int, columns: tuple[int, ...]) -> None:
        if max_steps < 1:
            raise UserError(f"environment.max_steps is {max_steps}; it must be at least 1")
        self._max_steps, self._columns = max_steps, list(columns)
        self.spec = EnvironmentSpec(
            num_envs=num_envs,
            agents=("player",),
            observation={"vector": ArraySpec((len(columns),), "float32")},
            action=ActionSpec(nvec=(2,)),
        )
        self._state = np.zeros((num_envs, 4))
        self._length = np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, bool)
        self._forces = np.zeros(num_envs)
        self._generators: list[np.random.Generator] = []

    def reset(self, seed: int) -> Tick:
        # A generator for each environment: its episodes do not depend on when the others end.
        self._generators = [
            np.random.Generator(np.random.PCG64(derive_seed(seed, "environment", i))) for i in range(self.spec.num_envs)
        ]
        everywhere = np.ones(self.spec.num_envs, bool)
        self._restart(everywhere)
        self._ended = ~everywhere
        return self._tick(np.zeros(self.spec.num_envs), ~everywhere, ~everywhere, everywhere)

    def _restart(self, where: np.ndarray) -> None:
        for i in np.flatnonzero(where):
            self._state[i] = self._generators[i].uniform(-0.05, 0.05, 4)
        self._length[where] = 0

    def send(self, actions: np.ndarray) -> None:
        self._forces = np.where(actions[:, 0] == 1, FORCE, -FORCE)

    def recv(self) -> Tick:
        restarted = self._ended
        x, v, angle, spin = self._state.T
        sin, cos = np.sin(angle), np.cos(angle)
        mass = CART_MASS + POLE_MASS
        push = (self._forces + POLE_MASS * HALF_POLE * spin**2 * sin) / mass
        turn = (GRAVITY * sin - cos * push) / (HALF_POLE * (4.0 / 3.0 - POLE_MASS * cos**2 / mass))
        acceleration = push - POLE_MASS * HALF_POLE * turn * cos / mass
        self._state = np.stack([x + DT * v, v + DT * acceleration, angle + DT * spin, spin + DT * turn], axis=1)
        self._length += 1
        fallen = (np.abs(self._state[:, 0]) > POSITION_LIMIT) | (np.abs(self._state[:, 2]) > ANGLE_LIMIT)
        self._restart(restarted)
        terminated = fallen & ~restarted
        truncated = (self._length >= self._max_steps) & ~terminated & ~restarted
        self._ended = terminated | truncated
        return self._tick((~restarted).astype(float), terminated, truncated, restarted)

    def _tick(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, first: np.ndarray) -> Tick:
        ended = terminated | truncated
        return Tick(
            observation={"vector": self._state[:, self._columns].astype(np.float32)},
            reward=reward.astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            active=~ended,
            first=first,
            env_steps=int(reward.sum()),
            episodes=[
                EpisodeEnd(int(i), (float(self._length[i]),), int(self._length[i])) for i in np.flatnonzero(ended)
            ],
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "state": self._state.copy(),
            "length": self._length.copy(),
            "ended": self._ended.copy(),
            "forces": self._forces.copy(),
            "generators": [g.bit_generator.state for g in self._generators],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._state = np.array(state["state"])
        self._length = np.array(state["length"])
        self._ended = np.array(state["ended"])
        self._forces = np.array(state["forces"])
        self._generators = [np.random.Generator(np.random.PCG64()) for _ in state["generators"]]
        for generator, saved in zip(self._generators, state["generators"], strict=True):
            generator.bit_generator.state = saved

    def close(self) -> None:
        """Nothing to close."""
