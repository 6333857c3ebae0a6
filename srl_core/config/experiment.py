"""The experiment: one frozen, typed configuration from which everything else follows.

Each field's doc stands under it; the command line shows them, and `srl run PRESET field=value` sets any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from srl_core.api import AlgorithmConfig, EnvironmentConfig


@dataclass(frozen=True)
class RouteConfig:
    """Which agents a policy controls, and whether their steps are trained on."""

    agents: str = ".*"
    """Regular expression that must match an agent's whole name; the first route that matches an agent takes it."""
    policy: str = "default"
    """Name of the policy that acts for these agents."""
    train: bool = True
    """Send these agents' trajectories to the policy's trainer."""


@dataclass(frozen=True)
class TrajectoryConfig:
    """How the endless stream of steps is cut into samples."""

    sample_steps: int = 64
    """Steps [steps] of a trajectory that are its own; consecutive trajectories advance by as many."""
    bootstrap_steps: int = 1
    """Steps [steps] after the sample that only estimate its value; at least 1."""
    burn_in_steps: int = 0
    """Steps [steps] before the sample that only refresh recurrent state."""
    cut: Literal["chunks", "full", "concise"] = "chunks"
    """chunks: fixed length across episodes. full: one padded episode a sample (`sample_steps` is the longest episode).
    concise: one step an episode, its first observation with its whole return."""


@dataclass(frozen=True)
class ActorConfig:
    """Actors step environments."""

    count: int = 3
    """Actor processes."""
    ring_size: int = 1
    """Vectors of environments an actor alternates between, so that some are simulated while others wait for actions."""
    envs_per_member: int = 16
    """Environments [envs] in each vector of the ring."""
    inference: Literal["inline", "remote"] = "inline"
    """inline: each actor holds a copy of the policy. remote: policy workers answer over an inference stream."""
    inference_splits: int = 0
    """Messages [messages] into which one turn of the ring is grouped, for remote inference; 0: one a ring member."""
    pull_seconds: float = 0.0
    """Least time [s] between two looks for new parameters with inline inference; 0: before every forward pass."""


@dataclass(frozen=True)
class PolicyWorkerConfig:
    """Policy workers answer inference requests in batches (used where `actor.inference` is remote)."""

    count: int = 1
    """Policy worker processes for each policy."""
    max_batch_size: int = 1024
    """Most rows [rows] of one forward pass; a batch is whatever arrived while the last one was computed."""
    pull_seconds: float = 0.0
    """Least time [s] between two looks for new parameters; 0: before every batch."""


@dataclass(frozen=True)
class TrainerConfig:
    """The trainer turns samples into parameters."""

    batch_size: int = 64
    """Trajectories [trajectories] in a batch, gathered from as many samples as it takes."""
    sample_reuse: int = 1
    """How often each batch is trained on."""
    queue_size: int = 2
    """Batches [batches] that may wait to be trained on (again). Where `streams.when_full` is drop_oldest, new ones push
    out the one with fewest uses left, then the oldest (counted)."""
    max_staleness: int = 1_000_000
    """Batches with a step older than so many versions [versions] are dropped and counted; 0: only the newest."""
    prefetch: bool = True
    """Assemble the next batch in a thread while the current one is trained on (never with the inline launcher)."""
    publish_every: int = 1
    """Updates [batches] between two publications of the parameters."""
    checkpoint_seconds: float = 60.0
    """Time [s] between two checkpoints; one more is written at the end and on Ctrl-C. 0: one after every update."""
    checkpoint_keep: int = 3
    """Checkpoints kept."""
    device: str = "cpu"
    """Torch device of training: cpu, cuda, cuda:1, ..."""
    threads: int = 1
    """Torch's intra-op threads [threads] in the trainer; actors and policy workers use one."""
    max_skipped: int = 20
    """Updates in a row that may be skipped because a number was not finite, before the run is aborted."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Evaluation plays whole games with a frozen version; nothing of it is trained on."""

    interval_seconds: float = 0.0
    """Time [s] from one evaluation's start to the next; 0: none while training."""
    final: bool = False
    """Evaluate the last version when training is complete."""
    episodes: int = 10
    """Least whole games [episodes] of one evaluation."""
    envs: int = 10
    """Environments [envs] that play them at once, each the same number of games."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""


@dataclass(frozen=True)
class StreamsConfig:
    """The pipes between processes. The inline launcher always calls functions instead."""

    backend: Literal["shared_memory", "socket"] = "shared_memory"
    """shared_memory: one host. socket: ZeroMQ over TCP."""
    slots: int = 2
    """Samples [samples] that each actor may have under way to the trainer."""
    when_full: Literal["block", "drop_oldest"] = "block"
    """What an actor does when the trainer is behind: wait, or replace its oldest waiting sample (counted)."""
    lz4: bool = False
    """Compress what goes over sockets."""


@dataclass(frozen=True)
class BudgetConfig:
    """When training is complete: whatever comes first. 0 means no limit."""

    env_steps: int = 0
    """Unique env steps [env steps] consumed by the trainer, all policies together."""
    seconds: float = 0.0
    """Training time [s], resumed parts included."""
    updates: int = 0
    """Batches [batches] trained on by each trainer."""
    target_return: float = float("inf")
    """Mean evaluation return at which training is complete; inf: none."""


@dataclass(frozen=True)
class LoggingConfig:
    """Metrics go to metrics.jsonl and TensorBoard always."""

    interval_seconds: float = 5.0
    """Time [s] between two progress records and, where the output is not a terminal, two printed lines."""
    wandb_project: str = ""
    """Also log to this Weights & Biases project; empty: do not."""


@dataclass(frozen=True)
class Experiment:
    """A whole training run, whatever it is launched with."""

    environment: EnvironmentConfig
    """What is simulated."""
    algorithm: AlgorithmConfig
    """How the policy acts and learns."""
    name: str = "experiment"
    """Name of the experiment, the first part of its run directories' names."""
    seed: int = 1
    """The one seed that all others derive from."""
    routes: tuple[RouteConfig, ...] = (RouteConfig(),)
    """Agents to policies; every agent needs a route."""
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    policy_worker: PolicyWorkerConfig = field(default_factory=PolicyWorkerConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    streams: StreamsConfig = field(default_factory=StreamsConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
