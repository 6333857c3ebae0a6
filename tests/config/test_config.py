"""Experiments survive JSON, hash by content, and refuse what cannot work."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest

from reproductions.presets import PRESETS
from srl_core.base.errors import UserError
from srl_core.config import Experiment, RouteConfig, config_hash, experiment_from_json, to_json, validate


def preset(name: str = "cartpole") -> Experiment:
    return PRESETS.get(name)()


@pytest.mark.parametrize("name", PRESETS.names())
def test_json_round_trip(name: str) -> None:
    experiment = preset(name)
    again = experiment_from_json(json.loads(json.dumps(to_json(experiment))))
    assert again == experiment
    assert config_hash(again) == config_hash(experiment)
    validate(experiment)


def test_the_hash_depends_on_every_field_but_seed_and_name() -> None:
    experiment = preset()
    base = config_hash(experiment)
    assert config_hash(replace(experiment, seed=7, name="other")) == base

    def leaves(config: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        if not hasattr(config, "__dataclass_fields__"):
            return [path]
        return [leaf for f in fields(config) for leaf in leaves(getattr(config, f.name), (*path, f.name))]  # type: ignore[arg-type]

    def change(config: object, path: tuple[str, ...]) -> object:
        value = getattr(config, path[0])
        if len(path) > 1:
            return replace(config, **{path[0]: change(value, path[1:])})  # type: ignore[type-var]
        other = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else "changed"
        if value == float("inf"):
            other = 1.0
        return replace(config, **{path[0]: other})  # type: ignore[type-var]

    for path in leaves(experiment):
        if path in (("seed",), ("name",)):
            continue
        changed = change(experiment, path)
        assert config_hash(changed) != base, path  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d["trainer"].update(batch_sise=3), r"unknown field trainer.batch_sise; did you mean batch_size"),
        (lambda d: d["trainer"].update(batch_size="many"), r"trainer.batch_size is 'many'; it must be int"),
        (lambda d: d["trainer"].update(prefetch=1), r"trainer.prefetch is 1; it must be bool"),
        (
            lambda d: d["actor"].update(inference="gpu"),
            r"actor.inference is 'gpu'; it must be one of 'inline', 'remote'",
        ),
        (lambda d: d["environment"].update(kind="cartpol"), r"unknown environment 'cartpol'; did you mean"),
        (lambda d: d.pop("algorithm"), r"algorithm is missing"),
        (lambda d: d.update(routes=3), r"routes is 3"),
    ],
)
def test_bad_json_names_the_field(edit, message: str) -> None:
    data = json.loads(json.dumps(to_json(preset())))
    edit(data)
    with pytest.raises(UserError, match=message):
        experiment_from_json(data)


@pytest.mark.parametrize(
    ("group", "field", "value", "message"),
    [
        ("trainer", "batch_size", 0, "trainer.batch_size is 0; it must be at least 1"),
        ("trainer", "batch_size", 2**30, "can never be gathered"),
        ("actor", "count", -1, "actor.count is -1"),
        ("trajectory", "bootstrap_steps", 0, "trajectory.bootstrap_steps is 0"),
        ("actor", "inference_splits", 9, "actor.inference_splits is 9; it must be at most ring_size"),
        ("budget", "seconds", float("nan"), "budget.seconds is nan"),
        ("budget", "target_return", float("nan"), "budget.target_return is nan; it must be a number"),
        ("actor", "count", 10**30, "actor.count is 10{30}; it must be at most 10000"),
        ("trainer", "threads", 10**9, "trainer.threads is 1000000000; it must be at most 1000"),
    ],
)
def test_values_out_of_range_are_named(group: str, field: str, value: float, message: str) -> None:
    experiment = preset()
    changed = replace(experiment, **{group: replace(getattr(experiment, group), **{field: value})})
    with pytest.raises(UserError, match=message):
        validate(changed)


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ((), "routes is empty"),
        ((RouteConfig("("),), "not a regular expression"),
        ((RouteConfig(policy="a/b"),), "routes"),
        ((RouteConfig(train=False),), "no route has train=true"),
    ],
)
def test_bad_routes(routes: tuple[RouteConfig, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validate(replace(preset(), routes=routes))


def test_no_staleness_with_reuse_is_refused() -> None:
    experiment = preset()
    trainer = replace(experiment.trainer, max_staleness=0, sample_reuse=2)
    with pytest.raises(UserError, match="must be at least 1"):
        validate(replace(experiment, trainer=trainer))


HOSTILE: list[Any] = [0, -1, math.nan, math.inf, -math.inf, 10**12, 10**400, 1e308, 0.5]
HOSTILE += ["", None, True, [], {}, "x" * 300, "\0", [[0]]]


@pytest.mark.parametrize("name", PRESETS.names())
def test_whatever_stands_in_a_file_is_an_experiment_or_one_sentence(name: str) -> None:
    """Every field and group of fields in turn becomes every kind of value that it must not be."""

    def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
        return [path, *(place for key, value in items for place in places(value, (*path, key)))]

    base = to_json(preset(name))
    sentences = []
    for place in places(base)[1:]:
        for value in HOSTILE:
            data = inside = copy.deepcopy(base)
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = value
            try:
                experiment = experiment_from_json(data)
                validate(experiment)
            except UserError as error:
                sentences.append(str(error))
            else:  # it can be written down
                json.dumps(to_json(experiment), allow_nan=False)
    assert len(sentences) > 500
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize("field", ["name", "policy"])
def test_names_that_no_file_can_have_are_refused(field: str) -> None:
    long = "x" * 300
    changed = {"name": long} if field == "name" else {"routes": (RouteConfig(policy=long),)}
    with pytest.raises(UserError, match="up to 100 letters"):
        validate(replace(preset(), **changed))  # type: ignore[arg-type]
