"""Train a preset.

Every field of the experiment can be set, as `field=value` or as `--field value`; `srl run PRESET --help` shows them
all with doc, default and unit.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from srl_core.base.errors import UserError
from srl_core.cli.overrides import apply_overrides, first_line, help_text, presets
from srl_core.config import Experiment

RUNS = Path("runs")
"""Where run directories are made, and where runs are looked for by name."""

_OPTIONS = """\
Set fields as `field=value` or as `--field value`. Besides the fields below:
  --launcher {local,inline}   processes of this machine, or everything in one process (default: local)
  --run-dir DIR               where the run is written (default: runs/NAME-sSEED)
  --device DEVICE             the same as --trainer.device"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that are no fields of the experiment."""
    parser.add_argument("preset", nargs="?", help="name of a preset: see `srl list`")
    parser.add_argument("-h", "--help", action="store_true", help="with a preset: show every field")
    parser.add_argument("--launcher", choices=("local", "inline"), default="local", help="default: local")
    parser.add_argument("--run-dir", type=Path, help="where the run is written (default: runs/NAME-sSEED)")
    parser.add_argument("--device", help="the same as --trainer.device")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Train, and say where everything is."""
    if options.preset is None:
        if options.help:
            print(__doc__, f"\nusage: srl run PRESET [field=value | --field value ...]\n{_OPTIONS}")
            print(f"presets: {', '.join(presets().names())}")
            return 0
        raise UserError(f"srl run needs a preset: {', '.join(presets().names())}")
    preset = presets().get(options.preset)
    experiment: Experiment = preset()
    if options.help:
        description = f"{first_line(preset)}\n\n{_OPTIONS}"
        print(help_text(experiment, prog=f"srl run {options.preset}", description=description), end="")
        return 0
    experiment = apply_overrides(experiment, rest)
    if options.device is not None:
        experiment = dataclasses.replace(
            experiment, trainer=dataclasses.replace(experiment.trainer, device=options.device)
        )
    run_dir = options.run_dir or free_directory(RUNS, f"{experiment.name}-s{experiment.seed}")
    from srl_core.cli.training import train

    return train(experiment, run_dir, launcher=options.launcher, resume=False)


def free_directory(parent: Path, name: str) -> Path:
    """`name` under `parent`, or the first of name-2, name-3, ... that does not exist."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path
