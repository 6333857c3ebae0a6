"""List the presets, the environments, the algorithms and the figures, one line each."""

from __future__ import annotations

import argparse
import importlib
import inspect

from srl_core.base.errors import UserError
from srl_core.base.registry import Registry
from srl_core.cli.overrides import first_line, presets
from srl_core.config import ALGORITHMS, environments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""
    del parser


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Print four lists; nothing that they name is built."""
    del options, rest
    figures: Registry = importlib.import_module("reproductions.figures").FIGURES
    for title, registry in (
        ("presets (srl run PRESET)", presets()),
        ("environments", environments()),
        ("algorithms", ALGORITHMS),
        ("figures (make reproduce-FIGURE)", figures),
    ):
        print(title)
        for name in registry.names():
            print(f"  {name:28} {_doc(registry, name)}")
    return 0


def _doc(registry: Registry, name: str) -> str:
    try:
        thing = registry.get(name)
    except (ImportError, UserError) as error:
        return f"not available: {error}"
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return first_line(thing)
    return thing.title  # a figure
