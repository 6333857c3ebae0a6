"""Play whole games with a run's newest checkpoint: true rewards, nothing is trained on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from srl_core.api import EpisodeEnd, Policy
from srl_core.base.errors import UserError
from srl_core.base.run_directory import RunDirectory, find_run
from srl_core.base.seeding import generator
from srl_core.cli.run import RUNS
from srl_core.config import Experiment, experiment_from_json

_RESAMPLES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, how many games, and how they are played."""
    parser.add_argument("run", metavar="RUN", help="a run's directory, or its name under runs/")
    parser.add_argument("--episodes", type=int, default=10, metavar="N", help="least whole games (default: 10)")
    parser.add_argument("--video", type=Path, metavar="FILE", help="record the first game as MP4")
    parser.add_argument("--greedy", action="store_true", help="take the most likely action instead of sampling")
    parser.add_argument("--seed", type=int, default=0, help="of games and actions (default: 0)")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the mean return with its interval."""
    del rest
    if options.episodes < 1:
        raise UserError(f"--episodes is {options.episodes}; it must be at least 1")
    if options.seed < 0:
        raise UserError(f"--seed is {options.seed}; it must not be negative")
    if options.video is not None and options.video.suffix.lower() != ".mp4":
        raise UserError(f"--video is {str(options.video)!r}; it must end in .mp4")
    path = find_run(options.run, RUNS)
    experiment = experiment_from_json(RunDirectory.open(path).config)
    episodes, version = play(
        path, experiment, episodes=options.episodes, seed=options.seed, greedy=options.greedy, video=options.video
    )
    returns = [float(np.mean(episode.returns)) for episode in episodes]
    low, high = interval(returns)
    print(f"version:     {version}")
    print(f"episodes:    {len(returns)}, {np.mean([e.length for e in episodes]):.0f} env steps each on average")
    print(f"mean return: {np.mean(returns):.2f} (95 % interval {low:.2f} to {high:.2f})")
    print(f"returns:     {min(returns):g} to {max(returns):g}")
    if options.video is not None:
        print(f"video:       {options.video}")
    return 0


def interval(returns: list[float]) -> tuple[float, float]:
    """95 % percentile bootstrap of the mean (Efron 1979); NaN for a single game, which tells nothing of the spread."""
    if len(returns) < 2:
        return float("nan"), float("nan")
    values = np.array(returns)
    picks = generator(0, "interval").integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def play(
    run_dir: Path, experiment: Experiment, *, episodes: int, seed: int, greedy: bool, video: Path | None
) -> tuple[list[EpisodeEnd], int]:
    """The games and the version that played them; `video` is of the first environment's first game."""
    from srl_core.cli.video import Recorder
    from srl_core.launchers.prepare import probe
    from srl_core.workers.evaluator import play_episodes

    spec, routes = probe(experiment)
    policies, version = [], 0
    for route in routes:
        policy, its_version = _load(run_dir, experiment, route.policy, spec, needed=bool(route.trained))
        policies.append((policy, route))
        version = max(version, its_version)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)  # batches are small: more threads only wait for each other
    environment = experiment.environment.build(min(experiment.evaluation.envs, episodes), training=False)
    recorder = None
    try:
        if video is not None:
            recorder = Recorder(environment, experiment.environment.kind, video)
        games = play_episodes(environment, policies, episodes=episodes, seed=seed, greedy=greedy, on_tick=recorder)
    finally:
        if recorder is not None:
            recorder.close()
        environment.close()
    assert games is not None, "only a stop flag ends games early"
    return games, version


def _load(run_dir: Path, experiment: Experiment, name: str, spec, *, needed: bool) -> tuple[Policy, int]:
    """The policy as its newest checkpoint has it; the initial one where it is never trained."""
    from srl_core.services.checkpoints import Checkpoints

    found = Checkpoints(run_dir / "checkpoints" / name).load_latest()
    if found is None:
        if needed:
            raise UserError(f"{run_dir} holds no checkpoint of policy {name!r} yet; train for longer first")
        return experiment.algorithm.build_policy(spec, device="cpu", seed=experiment.seed), 0
    state = found[1]
    algorithm = experiment.algorithm.build(spec, device="cpu", seed=experiment.seed)
    algorithm.load_state_dict(state["algorithm"])
    return algorithm.policy, int(state["version"])
