"""Experiments as JSON and back, and the hash that names them."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import types
import typing
from typing import Any

from srl_core.api import AlgorithmConfig, EnvironmentConfig
from srl_core.base.errors import UserError
from srl_core.base.registry import Registry, nearest
from srl_core.config.experiment import Experiment

ALGORITHMS = Registry(
    "algorithm",
    {
        "null": "srl_core.algorithms.null.config:NullAlgorithmConfig",
        "ppo": "srl_core.algorithms.ppo.config:PPOConfig",
    },
)


def environments() -> Registry:
    """The registry of environments; `envs` stands above the core, so it is reached when it is asked for."""
    return importlib.import_module("envs").ENVIRONMENTS


def to_json(config: Any) -> Any:
    """Plain JSON data of a configuration; environments and algorithms carry their `kind`."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        data = {f.name: to_json(getattr(config, f.name)) for f in dataclasses.fields(config)}
        kind = getattr(config, "kind", None)
        return {"kind": kind, **data} if kind else data
    if isinstance(config, (tuple, list)):
        return [to_json(v) for v in config]
    if isinstance(config, dict):
        return {str(k): to_json(v) for k, v in config.items()}
    if isinstance(config, float) and config in (float("inf"), float("-inf")):
        return str(config)  # JSON has no infinity
    return config


def experiment_from_json(data: Any) -> Experiment:
    """Inverse of `to_json`; raises `UserError` naming the field where something does not fit."""
    return _parse(Experiment, data, "")


def config_hash(experiment: Experiment) -> str:
    """Eight hex digits that depend on every field but `seed` and `name`, the same on all machines."""
    data = to_json(experiment)
    del data["seed"], data["name"]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]


def _parse(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _parse_dataclass(kind, data, where)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise UserError(f"{where} is {data!r}; it must be one of {', '.join(map(repr, typing.get_args(kind)))}")
        return data
    if origin is tuple and isinstance(data, list):
        args = typing.get_args(kind)
        inner = [args[0]] * len(data) if args[-1] is Ellipsis else list(args)
        if len(inner) != len(data):
            raise UserError(f"{where} has {len(data)} values; it must have {len(inner)}")
        return tuple(_parse(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(inner, data, strict=True)))
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in typing.get_args(kind):
            return None
        options = [k for k in typing.get_args(kind) if k is not type(None)]
        if len(options) == 1:
            return _parse(options[0], data, where)
    if origin is dict and isinstance(data, dict):
        return {k: _parse(typing.get_args(kind)[1], v, f"{where}.{k}") for k, v in data.items()}
    if kind is float and (isinstance(data, (int, float)) or data in ("inf", "-inf")) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise UserError(f"{where} is an integer of {len(str(data))} digits; it must be float") from None
    if kind in (int, bool, str) and type(data) is kind:
        return data
    raise UserError(f"{where} is {data!r}; it must be {getattr(kind, '__name__', kind)}")


def _parse_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise UserError(f"{where or 'the experiment'} is {data!r}; it must be an object of fields")
    if kind in (EnvironmentConfig, AlgorithmConfig):
        registry = environments() if kind is EnvironmentConfig else ALGORITHMS
        kind = registry.get(str(data.get("kind")))
    names = {f.name: f for f in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    values = {k: v for k, v in data.items() if k != "kind"}
    dot = where + "." if where else ""
    for name in values:
        if name not in names:
            raise UserError(f"unknown field {dot}{name}; {nearest(name, list(names))}")
    missing = [
        n
        for n, f in names.items()
        if n not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UserError(f"{dot}{missing[0]} is missing")
    return kind(**{n: _parse(hints[n], v, dot + n) for n, v in values.items()})
