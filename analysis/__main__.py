"""`python -m analysis draw FIGURE`, `python -m analysis run DIRECTORY` and `python -m analysis check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.check import check, draw
from analysis.metrics import DataError
from analysis.one_run import draw_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 good, 1 a page differs from its data, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m analysis", description="Pictures and tables from result files.")
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="make figure.png and README.md from data.csv, runs.json, figure.json")
    drawing.add_argument("figure", help="name of a directory under --results-dir")
    checking = commands.add_parser("check", help="compare every README.md with what its data gives")
    for command in (drawing, checking):
        command.add_argument("--results-dir", type=Path, default=Path("results"), help="default: results")
    single = commands.add_parser("run", help="make figure.png and table.md of a single training run")
    single.add_argument("directory", type=Path, help="the run's directory")
    options = parser.parse_args(arguments)
    if options.command in ("draw", "run"):
        try:
            drawn = (
                draw(options.results_dir / options.figure) if options.command == "draw" else draw_run(options.directory)
            )
        except DataError as error:
            print(error, file=sys.stderr)
            return 2
        for name, path in zip(("figure", "table"), drawn, strict=True):
            print(f"{name}: {path}")
        return 0
    count, problems = check(options.results_dir)
    for problem in problems:
        print(problem)
    print(f"{count} results checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
