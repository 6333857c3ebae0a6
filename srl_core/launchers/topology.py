"""From an experiment to worker placements: pure functions, the seam that every launcher shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from srl_core.base.errors import UserError
from srl_core.config import Experiment

WorkerKind = Literal["trainer", "policy", "evaluator", "actor"]


@dataclass(frozen=True)
class Placement:
    """One worker of the run."""

    kind: WorkerKind
    index: int
    """Among the workers of its kind and policy."""
    policy: str = ""
    """Name of the policy it serves; empty for actors, which serve all."""

    @property
    def name(self) -> str:
        """Unique in the run, such as `trainer-default-0` or `actor-3`."""
        return "-".join(filter(None, (self.kind, self.policy, str(self.index))))


@dataclass(frozen=True)
class AgentRoute:
    """The agents of one environment that one policy controls."""

    policy: str
    agents: tuple[int, ...]
    """Indices of all agents it acts for."""
    trained: tuple[int, ...]
    """Those of them whose trajectories are trained on."""


def agent_routes(experiment: Experiment, agents: Sequence[str]) -> list[AgentRoute]:
    """Match every agent with its first route; raises `UserError` where an agent or a route is left without."""
    owner: dict[int, int] = {}
    for index, agent in enumerate(agents):
        match = next((i for i, r in enumerate(experiment.routes) if re.fullmatch(r.agents, agent)), None)
        if match is None:
            patterns = ", ".join(repr(r.agents) for r in experiment.routes)
            raise UserError(f"routes: no pattern of {patterns} matches agent {agent!r}; agents are {', '.join(agents)}")
        owner[index] = match
    for i, route in enumerate(experiment.routes):
        if i not in owner.values():
            raise UserError(
                f"routes[{i}].agents is {route.agents!r}, which covers no agent; agents are {', '.join(agents)}"
            )
    routes = []
    for policy in dict.fromkeys(r.policy for r in experiment.routes):
        mine = [a for a, i in owner.items() if experiment.routes[i].policy == policy]
        trained = [a for a in mine if experiment.routes[owner[a]].train]
        routes.append(AgentRoute(policy, tuple(mine), tuple(trained)))
    return routes


def placements(experiment: Experiment, routes: Sequence[AgentRoute]) -> list[Placement]:
    """All workers of the run, servers before their clients."""
    workers = [Placement("trainer", 0, route.policy) for route in routes if route.trained]
    if experiment.actor.inference == "remote":
        for route in routes:
            workers += [Placement("policy", i, route.policy) for i in range(experiment.policy_worker.count)]
    if experiment.evaluation.interval_seconds or experiment.evaluation.final:
        workers.append(Placement("evaluator", 0))
    workers += [Placement("actor", i) for i in range(experiment.actor.count)]
    return workers
