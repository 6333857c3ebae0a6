"""From experiments to placements: pure functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envs.null import NullConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.base.errors import UserError
from srl_core.config import ActorConfig, EvaluationConfig, Experiment, PolicyWorkerConfig, RouteConfig
from srl_core.launchers.topology import agent_routes, placements

BASE = Experiment(NullConfig(), NullAlgorithmConfig())
AGENTS = ["hider_0", "hider_1", "seeker_0"]


def test_the_first_matching_route_takes_an_agent() -> None:
    routes = (
        RouteConfig("hider_0", "a"),
        RouteConfig("hider_.*", "b", train=False),
        RouteConfig(".*", "a", train=False),
    )
    a, b = agent_routes(replace(BASE, routes=routes), AGENTS)
    assert (a.policy, a.agents, a.trained) == ("a", (0, 2), (0,))
    assert (b.policy, b.agents, b.trained) == ("b", (1,), ())


def test_patterns_match_whole_names() -> None:
    with pytest.raises(UserError, match="no pattern of 'hider' matches agent 'hider_0'"):
        agent_routes(replace(BASE, routes=(RouteConfig("hider"),)), AGENTS)


def test_a_route_that_covers_no_agent_is_an_error() -> None:
    routes = (RouteConfig(".*"), RouteConfig("ghost"))
    with pytest.raises(UserError, match=r"routes\[1\].agents is 'ghost', which covers no agent; agents are hider_0"):
        agent_routes(replace(BASE, routes=routes), AGENTS)


def test_workers_of_each_architecture() -> None:
    routes = agent_routes(BASE, AGENTS)
    assert [w.name for w in placements(replace(BASE, actor=ActorConfig(count=2)), routes)] == [
        "trainer-default-0",
        "actor-0",
        "actor-1",
    ]
    remote = replace(
        BASE,
        actor=ActorConfig(count=1, inference="remote"),
        policy_worker=PolicyWorkerConfig(count=2),
        evaluation=EvaluationConfig(final=True),
    )
    names = [w.name for w in placements(remote, routes)]
    assert names == ["trainer-default-0", "policy-default-0", "policy-default-1", "evaluator-0", "actor-0"]
    assert len(set(names)) == len(names)
