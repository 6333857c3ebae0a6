"""An environment that does nothing at a known rate: it measures the framework around it, and fails on command."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from srl_core.api import ActionSpec, EnvironmentConfig, EnvironmentSpec, EpisodeEnd, Tick
from srl_core.base.arrays import ArraySpec


@dataclass(frozen=True)
class NullConfig(EnvironmentConfig):
    """Frames of a given shape, reward 1 each step, episodes of a given length."""

    kind: ClassVar[str] = "null"

    shape: tuple[int, ...] = (4, 84, 84)
    """Shape of the uint8 observation; at least 8 bytes."""
    frame_stack: bool = False
    """Declare the first axis of the observation a stack of frames, so that each frame travels once."""
    agents: int = 1
    """Agents [agents] of one environment."""
    actions: int = 6
    """Number of actions."""
    frame_skip: int = 4
    """Frames [frames] that one env step is said to be."""
    episode_steps: int = 1000
    """Length [env steps] at which every episode is truncated."""
    step_seconds: float = 0.0
    """Time [s] that one step of the whole vector takes."""
    step_kind: Literal["sleep", "compute"] = "sleep"
    """How that time passes: sleep leaves the core to others, compute keeps it busy."""
    fail_after: int = 0
    """Raise an error at this step; 0: never."""

    def build(self, num_envs: int, *, training: bool) -> NullVector:
        return NullVector(self, num_envs)


class NullVector:
    """E environments that all end at once. The first 8 bytes of each row's newest frame hold its own step number."""

    def __init__(self, config: NullConfig, num_envs: int) -> None:
        self._config = config
        rows = num_envs * config.agents
        self.spec = EnvironmentSpec(
            num_envs=num_envs,
            agents=tuple(f"agent_{i}" for i in range(config.agents)),
            observation={"frame": ArraySpec(config.shape, "uint8")},
            action=ActionSpec(nvec=(config.actions,)),
            frame_skip=config.frame_skip,
            frame_stacks={"frame": config.shape[0]} if config.frame_stack else {},
        )
        # Two arrays in turn, so that the last tick's stay as they are while the next one is made.
        self._frames = [np.zeros((rows, *config.shape), np.uint8) for _ in range(2)]
        newest = [f[:, -1] if config.frame_stack else f for f in self._frames]
        self._numbers = [f.reshape(rows, -1)[:, :8].view(np.int64)[:, 0] for f in newest]
        self._rows = rows
        self._total = 0
        self._step = 0
        self._ended = False
        self._deadline = 0.0

    def _tick(self, first: bool, stepped: bool) -> Tick:
        side = self._total % 2
        self._numbers[side][...] = self._step
        if self._config.frame_stack:  # the frames of the last observation move on by one; none from before the episode
            stack, before = self._frames[side], self._frames[1 - side]
            stack[:, :-1] = 0 if first else before[:, 1:]
        ended = self._step >= self._config.episode_steps
        episodes = []
        if ended:
            returns = (float(self._step),) * self._config.agents
            episodes = [EpisodeEnd(env, returns, self._step) for env in range(self.spec.num_envs)]
        self._ended = ended
        return Tick(
            observation={"frame": self._frames[side]},
            reward=np.full(self._rows, float(stepped), np.float32),
            terminated=np.zeros(self._rows, bool),
            truncated=np.full(self._rows, ended),
            active=np.full(self._rows, not ended),
            first=np.full(self._rows, first),
            env_steps=self.spec.num_envs if stepped else 0,
            episodes=episodes,
        )

    def reset(self, seed: int) -> Tick:
        self._total = self._step = 0
        return self._tick(first=True, stepped=False)

    def send(self, actions: np.ndarray) -> None:
        if self._config.step_seconds:
            self._deadline = time.perf_counter() + self._config.step_seconds

    def recv(self) -> Tick:
        self._pass_time()
        self._total += 1
        if self._config.fail_after and self._total >= self._config.fail_after:
            raise RuntimeError(f"null environment was told to fail at step {self._total}")
        if self._ended:
            self._step = 0
            return self._tick(first=True, stepped=False)
        self._step += 1
        return self._tick(first=False, stepped=True)

    def _pass_time(self) -> None:
        while self._config.step_seconds and (left := self._deadline - time.perf_counter()) > 0:
            if self._config.step_kind == "sleep":
                time.sleep(left)

    def close(self) -> None:
        """Nothing to close."""
