"""Contracts only: what environments, policies, algorithms, streams and workers promise each other."""

from srl_core.api.algorithm import Algorithm, AlgorithmConfig
from srl_core.api.environment import (
    ActionSpec,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnd,
    MultiAgentEnvironment,
    StepResult,
    Tick,
    VectorEnvironment,
)
from srl_core.api.policy import Policy, PolicySpec
from srl_core.api.sample import SampleBatch, SampleSpec
from srl_core.api.streams import (
    InferenceClient,
    InferenceServer,
    ReceivedSample,
    Requests,
    SampleConsumer,
    SampleProducer,
    Stopped,
)
from srl_core.api.worker import PollResult, Worker

__all__ = [
    "ActionSpec",
    "Algorithm",
    "AlgorithmConfig",
    "EnvironmentConfig",
    "EnvironmentSpec",
    "EpisodeEnd",
    "InferenceClient",
    "InferenceServer",
    "MultiAgentEnvironment",
    "Policy",
    "PolicySpec",
    "PollResult",
    "ReceivedSample",
    "Requests",
    "SampleBatch",
    "SampleConsumer",
    "SampleProducer",
    "SampleSpec",
    "StepResult",
    "Stopped",
    "Tick",
    "VectorEnvironment",
    "Worker",
]
