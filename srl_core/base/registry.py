"""Names of things that are imported only when they are used."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from srl_core.base.errors import UserError


class Registry:
    """Maps a name to `module:attribute`, imported at look-up; unknown names are answered with the nearest ones."""

    def __init__(self, noun: str, entries: dict[str, str]) -> None:
        self._noun = noun
        self._entries = dict(entries)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def add(self, name: str, target: str) -> None:
        """Register `target` (`module:attribute`); a name can be given once."""
        if self._entries.setdefault(name, target) != target:
            raise UserError(f"{self._noun} {name!r} is registered already as {self._entries[name]}")

    def get(self, name: str) -> Any:
        """Import and return what `name` stands for; raises `UserError` for an unknown name."""
        if name not in self._entries:
            raise UserError(f"unknown {self._noun} {name!r}; {nearest(name, self.names())}")
        module, _, attribute = self._entries[name].partition(":")
        return getattr(importlib.import_module(module), attribute)


def nearest(name: str, names: list[str]) -> str:
    """`did you mean a, b?`, or all names where none is near."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if not close:  # the last part of a dotted name is what people type
        close = [n for n in names if n.rpartition(".")[2] == name.rpartition(".")[2]][:3]
    return f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(names)}"
