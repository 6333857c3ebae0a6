"""From a preset and what was typed after it to an experiment: `field=value` and `--field value` alike."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import re
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

from srl_core.base.errors import UserError
from srl_core.base.registry import Registry, nearest
from srl_core.config import Experiment

_ASSIGNMENT = re.compile(r"[A-Za-z_][\w.-]*=.*", re.DOTALL)


def presets() -> Registry:
    """The registry of presets; they stand above the core, so it is reached when it is asked for."""
    return importlib.import_module("reproductions.presets").PRESETS


def first_line(thing: Any) -> str:
    """First line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


@dataclasses.dataclass(frozen=True)
class Override:
    """A field and the words that its value was typed as."""

    path: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def apply_overrides(experiment: Experiment, words: Sequence[str]) -> Experiment:
    """`experiment` with the fields that `words` set; `UserError` for an unknown field or a value of another type."""
    hints = dict(leaves(experiment))
    overrides = read_overrides(words, list(hints))
    try:
        return _parse(experiment, [_typed(override, hints) for override in overrides])
    except SystemExit:
        for override in overrides:  # which one was it?
            try:
                _parse(experiment, [_typed(override, hints)])
            except SystemExit:
                expected = describe_type(hints[override.path])
                raise UserError(f"{override.path} is {override.text!r}; it must be {expected}") from None
        raise UserError(f"these fields cannot be read: {' '.join(words)}") from None


def help_text(experiment: Experiment, *, prog: str, description: str) -> str:
    """Every field with its doc, default and unit."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        tyro.cli(
            Experiment,
            prog=prog,
            description=description,
            args=["--help"],
            default=experiment,
            use_underscores=True,
            config=(tyro.conf.FlagConversionOff,),
        )
    return out.getvalue()


def read_overrides(words: Sequence[str], known: list[str]) -> list[Override]:
    """Split what was typed into fields and their words; the last one counts where a field is given twice."""
    found: dict[str, Override] = {}
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            values = [value] if equals else []
            while (
                not equals and i < len(words) and not words[i].startswith("--") and not _ASSIGNMENT.fullmatch(words[i])
            ):
                values.append(words[i])
                i += 1
        elif _ASSIGNMENT.fullmatch(word):
            name, _, value = word.partition("=")
            values = [value]
        else:
            raise UserError(f"{word!r} is no field; write field=value or --field value")
        path = name.replace("-", "_")
        if path not in known:
            raise UserError(f"unknown field {name}; {_hint(path, known)}")
        if not values:
            raise UserError(f"{path} has no value; write {path}=value or --{path} value")
        found.pop(path, None)
        found[path] = Override(path, tuple(values))
    return list(found.values())


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and type of every field that holds a value, not further fields."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, path = getattr(config, field.name), prefix + field.name
        if dataclasses.is_dataclass(value):
            yield from leaves(value, path + ".")
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            for index, item in enumerate(value):
                yield from leaves(item, f"{path}.{index}.")
        else:
            yield path, hints[field.name]


def describe_type(hint: Any) -> str:
    """A type in words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, args))
    if origin is tuple:
        return f"{describe_type(args[0]).partition(' ')[2]}s separated by commas"
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if a is type(None) else describe_type(a) for a in args)
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    return names.get(hint, str(hint))


def _hint(path: str, known: list[str]) -> str:
    inside = [name for name in known if name.startswith(path + ".")]
    if inside:
        return f"it is a group of fields: {', '.join(inside[:4])}{', ...' if len(inside) > 4 else ''}"
    near = nearest(path, known)
    return near if near.startswith("did you mean") else "`srl run PRESET --help` shows all fields"


def _typed(override: Override, hints: dict[str, Any]) -> Override:
    """The words as tyro reads them: `true`, `none`, `1e6` for an integer, `64,64` for several values."""
    hint, words = hints[override.path], list(override.words)
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if any(typing.get_origin(option) is tuple for option in options):
        words = [part for word in words for part in word.strip("[]()").split(",") if part]
    if type(None) in options:
        words = ["None" if word.lower() == "none" else word for word in words]
    if bool in options:
        words = [word.capitalize() if word.lower() in ("true", "false") else word for word in words]
    if int in options:
        words = [_integer(word) for word in words]
    return Override(override.path, tuple(words))


def _integer(word: str) -> str:
    try:
        number = float(word)
    except ValueError:
        return word
    return str(int(number)) if number.is_integer() and ("e" in word.lower()) else word


def _parse(experiment: Experiment, overrides: Sequence[Override]) -> Experiment:
    # A value that begins with a dash must not be taken for an option.
    args = []
    for override in overrides:
        flag = f"--{override.path}"
        args += [f"{flag}={override.words[0]}"] if len(override.words) == 1 else [flag, *override.words]
    with contextlib.redirect_stderr(io.StringIO()):  # the error gets one sentence of ours instead of a page
        return tyro.cli(
            Experiment,
            args=args,
            default=experiment,
            use_underscores=True,
            config=(tyro.conf.FlagConversionOff,),
        )
