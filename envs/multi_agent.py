"""Environments of named agents (the dict contract) as a `VectorEnvironment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from envs.episodes import EpisodeTracker
from srl_core.api import EnvironmentSpec, MultiAgentEnvironment, StepResult, Tick
from srl_core.base.arrays import Arrays, zeros
from srl_core.base.errors import RunError
from srl_core.base.seeding import derive_seed


class MultiAgentVector:
    """`num_envs` copies of what `factory` makes, stepped one after another in `recv`.

    Each agent's row has episodes of its own. It begins (`first`) with the agent's first observation after a reset or
    after it ended, and it ends with `terminated` or `truncated`; then the observation given is its final one. Between
    two episodes, or while the agent is absent without having ended, its row is not active and its observation is zero.
    When every agent that took part has ended the game is over, and the next step resets the environment.

    A truncated agent's final observation is needed for its value: its absence is an error. A terminated agent's may be
    left out and is then zero. What is given to an agent whose episode has ended counts for the game's return, but its
    row's reward is zero: no action of it led there.
    """

    def __init__(self, factory: Callable[[], MultiAgentEnvironment], num_envs: int, *, frame_skip: int = 1) -> None:
        self._envs = [factory() for _ in range(num_envs)]
        one = self._envs[0]
        self._agents = tuple(one.agents)
        self._index = {name: i for i, name in enumerate(self._agents)}
        self.spec = EnvironmentSpec(num_envs, self._agents, dict(one.observation), one.action, frame_skip)
        self._tracker = EpisodeTracker(num_envs, len(self._agents))
        rows = self.spec.rows
        self._seeds = [0] * num_envs
        self._games = [0] * num_envs
        self._over = np.zeros(num_envs, bool)
        self._running = np.zeros(rows, bool)
        """Between an episode's first observation and its end."""
        self._took_part = np.zeros(rows, bool)
        self._active = np.zeros(rows, bool)
        self._actions: np.ndarray | None = None

    def reset(self, seed: int) -> Tick:
        self._seeds = [derive_seed(seed, "environment", i) for i in range(len(self._envs))]
        self._games = [0] * len(self._envs)
        self._tracker.reset()
        self._actions = None
        tick, _ = self._empty()
        for env in range(len(self._envs)):
            self._restart(env, tick)
        self._active = tick.active
        return tick

    def send(self, actions: np.ndarray) -> None:
        self._actions = actions.copy()

    def recv(self) -> Tick:
        if self._actions is None:
            raise RuntimeError("recv without send")
        actions, self._actions = self._actions, None
        tick, given = self._empty()
        stepped = ~self._over
        infos = {}
        for env, environment in enumerate(self._envs):
            if self._over[env]:
                self._restart(env, tick)
                continue
            start = env * len(self._agents)
            acting = {name: actions[start + i] for i, name in enumerate(self._agents) if self._active[start + i]}
            result = environment.step(acting)
            self._take(env, result, tick, given)
            rows = slice(start, start + len(self._agents))
            self._over[env] = self._took_part[rows].any() and not self._running[rows].any()
            if self._over[env]:
                infos[env] = {name: float(value) for name, value in result.info.items()}
        self._active = tick.active
        tick.env_steps = int(stepped.sum())
        tick.episodes = self._tracker.update(given, stepped, self._over & stepped, infos.__getitem__)
        return tick

    def _empty(self) -> tuple[Tick, np.ndarray]:
        rows = self.spec.rows
        terminated, truncated, active, first = (np.zeros(rows, bool) for _ in range(4))
        reward = np.zeros(rows, np.float32)
        tick = Tick(zeros(self.spec.observation, (rows,)), reward, terminated, truncated, active, first)
        return tick, np.zeros(rows)

    def _restart(self, env: int, tick: Tick) -> None:
        rows = slice(env * len(self._agents), (env + 1) * len(self._agents))
        self._running[rows] = self._took_part[rows] = False
        self._over[env] = False
        result = self._envs[env].reset(derive_seed(self._seeds[env], "game", self._games[env]))
        self._games[env] += 1
        self._take(env, result, tick, np.zeros(self.spec.rows))

    def _take(self, env: int, result: StepResult, tick: Tick, given: np.ndarray) -> None:
        """Write what an environment returned into its rows of the tick; `given` [R] gets all its rewards."""
        for name, reward in result.rewards.items():
            row = self._row(env, name)
            given[row] = reward
            if self._running[row]:
                tick.reward[row] = reward
        for name, observation in result.observations.items():
            row = self._row(env, name)
            self._write(tick.observation, row, observation)
            tick.active[row] = True
            if not self._running[row]:
                tick.first[row] = self._running[row] = self._took_part[row] = True
        for flags, name in [(f, n) for f in (result.terminated, result.truncated) for n, ended in f.items() if ended]:
            row = self._row(env, name)
            if not self._running[row] or tick.first[row]:
                raise RunError(f"agent {name!r} of environment {env} ended without having acted in this episode")
            if flags is result.terminated:
                tick.terminated[row] = True
            elif not tick.terminated[row]:
                if name not in result.observations:
                    raise RunError(f"agent {name!r} of environment {env} was truncated without a final observation")
                tick.truncated[row] = True
            tick.active[row] = False
        ended = tick.terminated | tick.truncated
        self._running[ended] = False

    def _row(self, env: int, name: str) -> int:
        if name not in self._index:
            raise RunError(f"environment {env} speaks of an agent {name!r}; its agents are {', '.join(self._agents)}")
        return env * len(self._agents) + self._index[name]

    def _write(self, target: Arrays, row: int, observation: Mapping[str, np.ndarray]) -> None:
        if observation.keys() != target.keys():
            raise RunError(f"an observation has the entries {sorted(observation)}; it must have {sorted(target)}")
        for key, value in observation.items():
            target[key][row] = value

    def close(self) -> None:
        for environment in self._envs:
            environment.close()
