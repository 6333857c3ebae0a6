"""The dataflow of an experiment as boxes and arrows, made from the same placements that launchers start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from srl_core.api import EnvironmentSpec
from srl_core.config import Experiment
from srl_core.launchers.topology import AgentRoute, placements


@dataclass(frozen=True)
class Box:
    """Workers of one kind, or a service."""

    id: str
    kind: str
    """actor, policy, trainer, parameters or evaluator."""
    policy: str
    """Name of the policy it belongs to; empty where it serves all."""
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Arrow:
    """A stream, or the way of parameters."""

    source: str
    target: str
    title: str
    lines: tuple[str, ...]
    duplex: bool = False


@dataclass(frozen=True)
class Dataflow:
    """All of it; boxes of one policy follow each other."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def dataflow(experiment: Experiment, spec: EnvironmentSpec, routes: Sequence[AgentRoute]) -> Dataflow:
    """Boxes with counts, arrows with back-ends and sizes."""
    actor, trainer, trajectory = experiment.actor, experiment.trainer, experiment.trajectory
    count = Counter((w.kind, w.policy) for w in placements(experiment, routes))
    backend = experiment.streams.backend.replace("_", " ")
    remote = actor.inference == "remote"
    games = f"{_ring(actor.ring_size)}{actor.envs_per_member} environments"
    where = "asks policy workers" if remote else "inference inline"
    boxes = [Box("actor", "actor", "", f"{actor.count} x actor", (f"each {games}", where))]
    arrows = []
    for route in routes:
        name = route.policy
        parameters = f"parameters-{name}"
        rows = spec.num_envs * len(route.agents)
        readers = ["actor"]
        if remote:
            workers, most = count["policy", name], experiment.policy_worker.max_batch_size
            boxes.append(
                Box(f"policy-{name}", "policy", name, f"{workers} x policy worker", (f"up to {most} rows a batch",))
            )
            request = (backend, f"requests of {rows} rows")
            arrows.append(Arrow("actor", f"policy-{name}", "inference stream", request, duplex=True))
            readers = [f"policy-{name}"]
        if count["trainer", name]:
            steps = trajectory.sample_steps
            batch = f"batch {trainer.batch_size} x {steps} steps"
            use = f"each trained on {trainer.sample_reuse} x, device {trainer.device}"
            boxes.append(Box(f"trainer-{name}", "trainer", name, f"{count['trainer', name]} x trainer", (batch, use)))
            columns = spec.num_envs * len(route.trained)
            extra = f"+{trajectory.bootstrap_steps}" + (
                f"+{trajectory.burn_in_steps}" if trajectory.burn_in_steps else ""
            )
            sample = (
                f"{backend}, {experiment.streams.slots} slots an actor",
                f"samples [{steps}{extra} steps, {columns}]",
            )
            arrows.append(Arrow("actor", f"trainer-{name}", "sample stream", sample))
            every = "every update" if trainer.publish_every == 1 else f"every {trainer.publish_every} updates"
            arrows.append(Arrow(f"trainer-{name}", parameters, "publish", (every,)))
        boxes.append(Box(parameters, "parameters", name, "parameter service", (f"versions of policy {name!r}",)))
        arrows += [Arrow(parameters, reader, "newest version", ()) for reader in readers]
        if count["evaluator", ""]:
            arrows.append(Arrow(parameters, "evaluator", "frozen version", ()))
    if count["evaluator", ""]:
        evaluation = experiment.evaluation
        when = [f"every {evaluation.interval_seconds:g} s"] if evaluation.interval_seconds else []
        when += ["at the end"] if evaluation.final else []
        lines = (f"{evaluation.episodes} whole games", " and ".join(when))
        boxes.append(Box("evaluator", "evaluator", "", "1 x evaluator", lines))
    return Dataflow(tuple(boxes), tuple(arrows))


def as_text(graph: Dataflow) -> str:
    """One paragraph a box: what it is, and where its arrows lead."""
    lines = []
    titles = {box.id: f"{box.title}{f' ({box.policy})' if box.policy else ''}" for box in graph.boxes}
    for box in graph.boxes:
        lines.append(f"[{titles[box.id]}] " + ", ".join(box.lines))
        for arrow in graph.arrows:
            if arrow.source == box.id:
                tip = "<-->" if arrow.duplex else "--->"
                detail = f" ({', '.join(arrow.lines)})" if arrow.lines else ""
                lines.append(f"    {tip} [{titles[arrow.target]}] {arrow.title}{detail}")
    return "\n".join(lines)


def as_mermaid(graph: Dataflow) -> str:
    """A flowchart for Markdown pages that draw Mermaid."""
    lines = ["flowchart LR"]
    lines += [f'    {_word(box.id)}["{"<br/>".join((box.title, *box.lines))}"]' for box in graph.boxes]
    for arrow in graph.arrows:
        tip = "<-->" if arrow.duplex else "-->"
        text = "<br/>".join((arrow.title, *arrow.lines))
        lines.append(f'    {_word(arrow.source)} {tip}|"{text}"| {_word(arrow.target)}')
    return "\n".join(lines) + "\n"


def _ring(size: int) -> str:
    return "" if size == 1 else f"{size} ring members of "


def _word(name: str) -> str:
    """Mermaid reads a dash in a name as part of an arrow."""
    return "".join(c if c.isalnum() else "_" for c in name)
