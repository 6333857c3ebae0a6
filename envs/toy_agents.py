"""Three agents that end and come back by a script, for tests of what depends on who is present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from envs.multi_agent import MultiAgentVector
from srl_core.api import ActionSpec, EnvironmentConfig, StepResult
from srl_core.base.arrays import ArraySpec

AGENTS = ("early", "middle", "late")


class ScriptedAgents:
    """A game of 12 steps; an agent gets the step's number, counted from 1, as its reward for acting in it.

    * `early` acts in steps 1 to 3 and is terminated. Step 8 shows it a new observation: it acts again in steps 9 to 12
      and is terminated for good.
    * `middle` acts in steps 1, 2, 4 and 5 and is truncated. It gets no observation from step 2, so it sits out step 3,
      which pays it all the same.
    * `late` acts in steps 1 to 8 and is terminated.

    The returns are 48, 15 and 36 whatever the actions. The observation is float32 [2]: the agent's index and the number
    of steps made.
    """

    _acts: ClassVar = {"early": {1, 2, 3, 9, 10, 11, 12}, "middle": {1, 2, 4, 5}, "late": set(range(1, 9))}
    _terminated: ClassVar = {3: "early", 8: "late", 12: "early"}
    _truncated: ClassVar = {5: "middle"}

    def __init__(self) -> None:
        self.agents: tuple[str, ...] = AGENTS
        self.observation = {"vector": ArraySpec((2,), "float32")}
        self.action = ActionSpec(nvec=(2,))
        self._step = 0

    def reset(self, seed: int) -> StepResult:
        self._step = 0
        return StepResult({name: self._observe(name) for name in AGENTS})

    def _observe(self, name: str) -> Mapping[str, np.ndarray]:
        return {"vector": np.array([AGENTS.index(name), self._step], np.float32)}

    def step(self, actions: Mapping[str, np.ndarray]) -> StepResult:
        """Raises `ValueError` unless exactly those act who are to."""
        self._step += 1
        step = self._step
        expected = {name for name in AGENTS if step in self._acts[name]}
        if set(actions) != expected:
            raise ValueError(f"step {step} got the actions of {sorted(actions)}; it needs those of {sorted(expected)}")
        terminated = {name for at, name in self._terminated.items() if at == step}
        truncated = {name for at, name in self._truncated.items() if at == step}
        seen = {name for name in AGENTS if step + 1 in self._acts[name]} | terminated | truncated
        paid = expected | ({"middle"} if step == 3 else set())
        return StepResult(
            observations={name: self._observe(name) for name in AGENTS if name in seen},
            rewards={name: float(step) for name in AGENTS if name in paid},
            terminated=dict.fromkeys(terminated, True),
            truncated=dict.fromkeys(truncated, True),
            info={"steps": float(step)},
        )

    def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True)
class ScriptedAgentsConfig(EnvironmentConfig):
    """`ScriptedAgents` as a vector."""

    kind: ClassVar[str] = "scripted_agents"

    def build(self, num_envs: int, *, training: bool) -> MultiAgentVector:
        return MultiAgentVector(ScriptedAgents, num_envs)
