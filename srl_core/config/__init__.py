"""The experiment configuration: dataclasses, validation, JSON and hash."""

from srl_core.config.experiment import (
    ActorConfig,
    BudgetConfig,
    EvaluationConfig,
    Experiment,
    LoggingConfig,
    PolicyWorkerConfig,
    RouteConfig,
    StreamsConfig,
    TrainerConfig,
    TrajectoryConfig,
)
from srl_core.config.serialise import ALGORITHMS, config_hash, environments, experiment_from_json, to_json
from srl_core.config.validate import validate

__all__ = [
    "ALGORITHMS",
    "ActorConfig",
    "BudgetConfig",
    "EvaluationConfig",
    "Experiment",
    "LoggingConfig",
    "PolicyWorkerConfig",
    "RouteConfig",
    "StreamsConfig",
    "TrainerConfig",
    "TrajectoryConfig",
    "config_hash",
    "environments",
    "experiment_from_json",
    "to_json",
    "validate",
]
