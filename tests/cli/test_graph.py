from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from envs.null import NullConfig
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.api import ActionSpec, EnvironmentSpec
from srl_core.base.arrays import ArraySpec
from srl_core.cli.dataflow import as_mermaid, as_text, dataflow
from srl_core.cli.svg import as_svg
from srl_core.config import ActorConfig, EvaluationConfig, Experiment, RouteConfig, StreamsConfig
from srl_core.launchers.topology import agent_routes

SPEC = EnvironmentSpec(
    num_envs=16,
    agents=("red0", "red1", "blue0"),
    observation={"x": ArraySpec((2,), "float32")},
    action=ActionSpec(nvec=(2,)),
)
INLINE = Experiment(NullConfig(), NullAlgorithmConfig(), evaluation=EvaluationConfig(final=True))
REMOTE = replace(
    INLINE,
    actor=ActorConfig(count=5, inference="remote"),
    streams=StreamsConfig(backend="socket"),
    routes=(RouteConfig("red.*", "attack"), RouteConfig("blue.*", "defend", train=False)),
)


def graph_of(experiment: Experiment):
    return dataflow(experiment, SPEC, agent_routes(experiment, SPEC.agents))


def test_inline_inference_has_no_policy_worker():
    graph = graph_of(INLINE)
    assert [box.kind for box in graph.boxes] == ["actor", "trainer", "parameters", "evaluator"]
    ends = {(arrow.source, arrow.target) for arrow in graph.arrows}
    assert ("parameters-default", "actor") in ends
    assert ("actor", "trainer-default") in ends


def test_an_untrained_policy_has_no_trainer_and_remote_actors_hold_no_parameters():
    graph = graph_of(REMOTE)
    kinds = sorted((box.kind, box.policy) for box in graph.boxes)
    assert ("trainer", "attack") in kinds
    assert ("trainer", "defend") not in kinds
    assert ("policy", "attack") in kinds
    assert ("policy", "defend") in kinds
    assert not [a for a in graph.arrows if a.source.startswith("parameters") and a.target == "actor"]


def test_counts_back_ends_and_sizes_are_told():
    text = as_text(graph_of(REMOTE))
    assert "[5 x actor]" in text
    assert "requests of 32 rows" in text, "two agents in each of 16 environments"
    assert "requests of 16 rows" in text
    assert "socket" in text
    assert "batch 64 x 64 steps" in text


@pytest.mark.parametrize("experiment", [INLINE, REMOTE])
def test_the_picture_is_whole(experiment):
    graph = graph_of(experiment)
    root = ElementTree.fromstring(as_svg(graph, "a <title>"))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{space}text")]
    assert len(root.findall(f"{space}polyline")) == len(graph.arrows)
    for box in graph.boxes:
        assert any(text.startswith(box.title) for text in texts)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for rectangle in root.iter(f"{space}rect"):
        x, y = float(rectangle.get("x", 0)), float(rectangle.get("y", 0))
        assert left <= x
        assert x + float(rectangle.attrib["width"]) <= left + width
        assert top <= y
        assert y + float(rectangle.attrib["height"]) <= top + height


def test_mermaid_joins_boxes_that_exist():
    lines = as_mermaid(graph_of(REMOTE)).splitlines()
    assert lines[0] == "flowchart LR"
    boxes = {match[1] for line in lines if (match := re.match(r"\s+(\w+)\[", line))}
    arrows = [match for line in lines if (match := re.match(r"\s+(\w+) <?-->\|.*\| (\w+)$", line))]
    assert len(boxes) == 7
    assert len(arrows) == 8
    assert {name for match in arrows for name in match.groups()} <= boxes
