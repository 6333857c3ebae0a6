"""Any Gymnasium environment, or vector of them, as a `VectorEnvironment`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from envs.episodes import EpisodeTracker
from envs.gymnasium_spaces import ActionCodec, ObservationCodec, batch_of
from srl_core.api import EnvironmentConfig, EnvironmentSpec, Tick, VectorEnvironment
from srl_core.base.arrays import Arrays
from srl_core.base.errors import UserError
from srl_core.base.seeding import derive_seed


class GymnasiumVector:
    """Adapts a vector environment of Gymnasium, whatever its autoreset mode.

    With next-step autoreset its ticks follow the contract as they are. With same-step autoreset, or none (finished
    environments are then reset at once), an episode's last tick already shows the next one's first observation, and the
    final one is the tick's `final_observation`.

    Environments of a `SyncVectorEnv` or `AsyncVectorEnv` are seeded one by one, so that each one's stream is the same
    whatever their number; other vector environments take one seed for all.
    """

    def __init__(self, vector_env: VectorEnv, *, frame_skip: int = 1) -> None:
        mode = vector_env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise UserError(
                f"vector_env.metadata['autoreset_mode'] is {mode!r}; it must be one of "
                f"{', '.join(str(m) for m in AutoresetMode)} (Gymnasium 1.1 or newer)"
            )
        base = vector_env.unwrapped
        if isinstance(base, AsyncVectorEnv) and not base.copy:
            raise UserError("vector_env.copy is False; an AsyncVectorEnv must copy what its processes overwrite")
        self._env, self._mode = vector_env, mode
        self._seeds_each = isinstance(base, (SyncVectorEnv, AsyncVectorEnv))
        self._async = vector_env if isinstance(vector_env, AsyncVectorEnv) else None
        self._observation = ObservationCodec(vector_env.single_observation_space)
        self._action = ActionCodec(vector_env.single_action_space)
        n = vector_env.num_envs
        self.spec = EnvironmentSpec(n, ("player",), self._observation.schema, self._action.spec, frame_skip)
        self._tracker = EpisodeTracker(n)
        self._over = np.zeros(n, bool)
        self._actions: np.ndarray | None = None

    def reset(self, seed: int) -> Tick:
        n = self.spec.num_envs
        seeds = [derive_seed(seed, "environment", i) for i in range(n)]
        observation, _ = self._env.reset(seed=seeds if self._seeds_each else seeds[0])  # type: ignore[arg-type]
        self._tracker.reset()
        self._over = np.zeros(n, bool)
        self._actions = None
        none = np.zeros(n, bool)
        every = np.ones(n, bool)
        return Tick(
            self._observation.encode(observation), np.zeros(n, np.float32), none, none.copy(), every, every.copy()
        )

    def send(self, actions: np.ndarray) -> None:
        self._actions = self._action.decode(actions)
        if self._async is not None:
            self._async.step_async(self._actions)

    def recv(self) -> Tick:
        if self._actions is None:
            raise RuntimeError("recv without send")
        # Other vector environments step here, not in send: until now the last tick's arrays had to stay as they were.
        step = self._async.step_wait() if self._async is not None else self._env.step(self._actions)
        self._actions = None
        observation, reward, terminated, truncated, infos = step
        terminated = np.array(terminated, bool)
        truncated = np.array(truncated, bool) & ~terminated
        over = terminated | truncated
        if self._mode is AutoresetMode.NEXT_STEP:
            first, active = self._over, ~over
            stepped = ~first
            reward = np.where(stepped, reward, 0.0)
            self._over = over
            finals = None
        else:
            first, active = over.copy(), np.ones(len(over), bool)
            stepped = active
            finals = np.flatnonzero(over) if over.any() else None
        final_observation: Arrays | None = None
        if finals is not None and self._mode is AutoresetMode.SAME_STEP:
            final_observation = self._skipped(infos, finals)
        elif finals is not None:
            final_observation = self._observation.encode(batch_of(observation, finals))
            observation, _ = self._env.reset(options={"reset_mask": over.copy()})
        return Tick(
            self._observation.encode(observation),
            np.asarray(reward, np.float32),
            terminated,
            truncated,
            active,
            first,
            env_steps=int(stepped.sum()),
            episodes=self._tracker.update(np.asarray(reward), stepped, over),
            final_observation=final_observation,
            final_rows=finals,
        )

    def _skipped(self, infos: dict[str, Any], rows: np.ndarray) -> Arrays:
        """The final observations of `rows`; vector environments give them one by one, or as a batch."""
        final = infos["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:
            return self._observation.encode_list(list(final[rows]))
        return self._observation.encode(batch_of(final, rows))

    def close(self) -> None:
        self._env.close()


@dataclass(frozen=True)
class GymnasiumConfig(EnvironmentConfig):
    """An environment registered with Gymnasium, stepped in the actor's process. The reward is as it gives it."""

    kind: ClassVar[str] = "gymnasium"

    env_id: str
    """Registered id, such as Pendulum-v1; `package.module:Id-v0` imports the module first."""
    max_episode_steps: int = 0
    """Steps [env steps] after which an episode is truncated; 0: what the environment was registered with."""
    frame_skip: int = 1
    """Simulator frames [frames] in one of its steps; only frames are counted with it."""
    kwargs: str = "{}"
    """Further arguments of `gymnasium.make`, a JSON object: {"g": 9.81}."""

    def build(self, num_envs: int, *, training: bool) -> VectorEnvironment:
        if self.max_episode_steps < 0:
            raise UserError(f"environment.max_episode_steps is {self.max_episode_steps}; it must be 0 or more")
        if self.frame_skip < 1:
            raise UserError(f"environment.frame_skip is {self.frame_skip}; it must be at least 1")
        try:
            kwargs = json.loads(self.kwargs)
        except json.JSONDecodeError as error:
            raise UserError(f"environment.kwargs is {self.kwargs!r}; it must be a JSON object ({error})") from None
        if not isinstance(kwargs, dict):
            raise UserError(f"environment.kwargs is {self.kwargs!r}; it must be a JSON object")
        make = partial(
            gymnasium.make,
            self.env_id,
            max_episode_steps=self.max_episode_steps or None,
            disable_env_checker=True,
            **kwargs,
        )
        try:  # copies are needless: the vector's own arrays change in recv alone
            vector = SyncVectorEnv([make] * num_envs, copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
        except (gymnasium.error.Error, ImportError) as error:
            raise UserError(f"environment.env_id is {self.env_id!r}, which cannot be made: {error}") from error
        except TypeError as error:
            raise UserError(f"environment.kwargs is {self.kwargs!r}, which {self.env_id} refuses: {error}") from error
        return GymnasiumVector(vector, frame_skip=self.frame_skip)
