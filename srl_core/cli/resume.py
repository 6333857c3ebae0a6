"""Go on with a run that was stopped or killed, from its newest checkpoint."""

from __future__ import annotations

import argparse

from srl_core.base.run_directory import RunDirectory, find_run
from srl_core.cli.run import RUNS
from srl_core.config import experiment_from_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run and where its workers are placed."""
    parser.add_argument("run", metavar="RUN", help="a run's directory, or its name under runs/")
    parser.add_argument("--launcher", choices=("local", "inline"), default="local", help="default: local")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Train on; a completed run is only shown."""
    del rest
    path = find_run(options.run, RUNS)
    directory = RunDirectory.open(path)
    from srl_core.cli.training import outcome, train

    if directory.metadata["status"] == "completed":
        print(f"{path} is completed: there is nothing left to train")
        print(outcome(path))
        return 0
    experiment = experiment_from_json(directory.config)
    return train(experiment, path, launcher=options.launcher, resume=True)
