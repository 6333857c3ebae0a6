"""Draw the dataflow of a preset: workers with their counts, streams with their back-ends, sizes of batches.

Fields can be set as in `srl run`: `srl graph pong actor.inference=remote`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_core.base.errors import UserError
from srl_core.base.files import write_atomic
from srl_core.cli.overrides import apply_overrides, presets

_FORMATS = (".svg", ".mmd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to draw, and where."""
    parser.add_argument("preset", help="name of a preset: see `srl list`")
    parser.add_argument("fields", nargs="*", metavar="field=value", help="fields of the experiment")
    parser.add_argument("--output", type=Path, metavar="FILE", help="FILE.svg (picture) or FILE.mmd (Mermaid)")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the text form and write the picture."""
    del rest
    if options.output is not None and options.output.suffix not in _FORMATS:
        raise UserError(f"--output is {str(options.output)!r}; it must end in {' or '.join(_FORMATS)}")
    experiment = apply_overrides(presets().get(options.preset)(), options.fields)
    from srl_core.cli.dataflow import as_mermaid, as_text, dataflow
    from srl_core.cli.svg import as_svg
    from srl_core.launchers.prepare import probe

    graph = dataflow(experiment, *probe(experiment))
    print(as_text(graph))
    if options.output is not None:
        text = as_svg(graph, experiment.name) if options.output.suffix == ".svg" else as_mermaid(graph)
        try:
            write_atomic(options.output, text.encode())
        except OSError as error:
            raise UserError(f"--output: {options.output} cannot be written: {error.strerror}") from None
        print(f"written: {options.output}")
    return 0
