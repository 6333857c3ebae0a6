"""The `srl` command. Each command has a module of its own, imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from srl_core.base.errors import RunError, UserError
from srl_core.base.registry import nearest

COMMANDS = {
    "list": ("listing", "presets, environments, algorithms and figures"),
    "run": ("run", "train a preset, any field overridden"),
    "resume": ("resume", "go on with a run that was stopped or killed"),
    "eval": ("evaluate", "play whole games with a run's newest checkpoint, and record a video"),
    "watch": ("watch", "follow a run that another terminal has started"),
    "graph": ("graph", "draw the dataflow of a preset"),
    "doctor": ("doctor", "what this machine offers, and what is missing"),
    "clean": ("clean", "remove what dead runs have left"),
}
"""Command to its module and its one-line help. A module has `add_arguments(parser)` and `run(options, rest) -> int`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0; 1 a run failed; 2 bad input; 130 Ctrl-C; 143 SIGTERM."""
    try:
        return _command(list(sys.argv[1:] if arguments is None else arguments))
    except (UserError, RunError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (`srl list | head`) has seen enough; nothing can be told to it any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # the machine refuses something: a name that is too long, one open file too many
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1


def _command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    name, *arguments = arguments
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}; {nearest(name, list(COMMANDS))}")
    module = importlib.import_module(f"srl_core.cli.{COMMANDS[name][0]}")
    parser = argparse.ArgumentParser(
        prog=f"srl {name}", description=module.__doc__, allow_abbrev=False, add_help=name != "run"
    )
    module.add_arguments(parser)
    try:
        # Only `run` has more to say than its own options: the fields of the experiment.
        options, rest = parser.parse_known_args(arguments) if name == "run" else (parser.parse_args(arguments), [])
    except SystemExit as end:  # argparse has printed what it wanted to say
        return end.code if isinstance(end.code, int) else 2
    return module.run(options, rest)


def _usage() -> str:
    lines = [f"  {name:8} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: srl COMMAND ...", "", *lines, "", "srl COMMAND --help says more about each."])
