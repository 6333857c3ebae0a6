"""`python -m reproductions FIGURE` runs a figure of the paper and draws it; `list` names the figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reproductions.figures import FIGURES
from reproductions.pipeline.run import Runner, describe, execute, plan
from reproductions.pipeline.runner import run_here
from reproductions.pipeline.spec import PROFILES
from srl_core.base.errors import RunError, UserError

LAUNCHERS = ("local",)


def main(arguments: Sequence[str] | None = None, runner: Runner = run_here) -> int:
    """Run one command and return its exit code; `runner` performs each run."""
    options = _parser().parse_args(arguments)
    try:
        if options.figure == "list":
            for name in FIGURES.names():
                spec = FIGURES.get(name)
                print(f"{name:28} {spec.title}")
            return 0
        return _figure(options, runner)
    except (UserError, RunError) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _figure(options: argparse.Namespace, runner: Runner) -> int:
    spec = FIGURES.get(options.figure)
    if options.launcher not in LAUNCHERS:
        raise UserError(f"--launcher is {options.launcher!r}; it must be one of {', '.join(LAUNCHERS)}")
    todo = plan(spec, options.profile, options.seeds, options.runs_dir, options.results_dir)
    print("\n".join(describe(todo)), flush=True)
    if options.dry_run:
        return 0
    execute(todo, runner, lambda line: print(line, flush=True))
    print(f"data: {todo.results / 'data.csv'}")
    try:
        from analysis.check import draw
        from analysis.metrics import DataError
    except ImportError as error:
        raise UserError(
            f"the picture needs the analysis packages ({error}): install srl-core[analysis], "
            f"then `python -m analysis draw {spec.name} --results-dir {todo.results.parent}`"
        ) from error
    try:
        picture, page = draw(todo.results)
    except DataError as error:
        raise RunError(str(error)) from error
    print(f"figure: {picture}\ntable: {page}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reproductions", description="Reproduce a figure of the paper.")
    parser.add_argument("figure", help=f"list, or one of {', '.join(FIGURES.names())}")
    parser.add_argument("--profile", default="desk", help=f"{', '.join(PROFILES)} (default: desk)")
    parser.add_argument("--seeds", type=int, help="seeds of each setting, at least 2 (default: the profile's own)")
    parser.add_argument("--launcher", default="local", help=f"where runs are placed: {', '.join(LAUNCHERS)}")
    parser.add_argument("--dry-run", action="store_true", help="show the runs and what they cost, and run nothing")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"), help="run directories (default: runs)")
    parser.add_argument("--results-dir", type=Path, help="committed results (default: results; never with smoke)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
