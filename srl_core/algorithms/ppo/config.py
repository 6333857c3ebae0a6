"""All settings of PPO; plain data, torch is imported when something is built."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from srl_core.api.algorithm import AlgorithmConfig
from srl_core.api.environment import EnvironmentSpec
from srl_core.base.errors import UserError
from srl_core.networks.config import NetworkConfig

if TYPE_CHECKING:
    from srl_core.algorithms.ppo.learning import PPO
    from srl_core.algorithms.ppo.policy import ActorCriticPolicy

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class PPOConfig(AlgorithmConfig):
    """Proximal policy optimisation (Schulman et al. 2017) for one or many agents, asynchronous or not."""

    kind: ClassVar[str] = "ppo"

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Architecture of policy and value."""
    precision: Precision = "auto"
    """Arithmetic of convolutional encoders, in acting and training; all else is float32. `auto` is bfloat16 where the
    processor has instructions for it."""

    gamma: float = 0.99
    """Discount for each step, 0 to 1."""
    gae_lambda: float = 0.97
    """Decay of the advantage's sum of errors, 0 (one step) to 1 (whole return)."""
    vtrace: bool = False
    """Correct advantages and value targets for the distance between acting and current policy; costs a forward pass."""
    recompute_advantages_on_reuse: bool = True
    """Compute values (and so advantages) anew when a batch is trained on again; costs a forward pass."""
    normalise_advantages: bool = True
    """Scale advantages to zero mean and unit deviation over the valid steps of the whole batch."""

    clip: float = 0.2
    """Furthest that the probability ratio counts beyond 1, either way."""
    dual_clip: float | None = 3.0
    """Lower bound of the surrogate at negative advantages, in multiples of them (Ye et al. 2020); above 1, or none."""
    value_clip: float | None = None
    """Furthest that the (normalised) value may usefully move from the stored one in an update; none: unlimited."""
    value_loss: Literal["huber", "mse"] = "huber"
    """Half the squared error, or the same with a linear continuation beyond `huber_delta`."""
    huber_delta: float = 10.0
    """Error beyond which the Huber loss is linear, in units of the (normalised) value."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    popart: bool = False
    """Learn values normalised by running statistics of the targets."""
    popart_beta: float = 0.99999
    """Weight of the old statistics at each update, 0 to 1."""

    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus at the start."""
    entropy_schedule: Literal["constant", "linear", "exponential"] = "constant"
    """How the coefficient goes to `entropy_final` in `entropy_schedule_steps`."""
    entropy_final: float = 0.0
    """Coefficient at the schedule's end and after."""
    entropy_schedule_steps: int = 0
    """Length of the schedule, in gradient steps."""

    learning_rate: float = 5e-4
    """Step size of Adam at the start."""
    learning_rate_final: float = 0.0
    """Step size at the end of the linear schedule and after, if there is one."""
    learning_rate_anneal_steps: int = 0
    """Length of the learning rate's linear schedule, in gradient steps; 0: constant."""
    adam_eps: float = 1e-5
    """Added to the denominator of Adam."""
    weight_decay: float = 0.0
    """L2 penalty that Adam adds to the gradient."""
    gradient_clip: float = 10.0
    """Largest norm of the whole gradient."""

    epochs: int = 1
    """Passes over a batch in each update."""
    minibatch_size: int = 512
    """Steps in a gradient step; the batch's valid steps are shared out evenly over the nearest whole number of them."""
    chunk_steps: int = 10
    """Length of the sequences that recurrent networks are trained on, in steps; it divides `sample_steps`."""

    def validate(self, sample_steps: int, burn_in_steps: int) -> None:
        self.network.validate()
        for name in ("gamma", "gae_lambda", "popart_beta"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise self._bad(name, "must lie within 0 and 1")
        for name in ("clip", "huber_delta", "learning_rate", "adam_eps", "gradient_clip"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise self._bad(name, "must be above 0")
        for name in ("value_weight", "entropy_coefficient", "entropy_final", "learning_rate_final", "weight_decay"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise self._bad(name, "must not be negative")
        for name in ("entropy_schedule_steps", "learning_rate_anneal_steps"):
            if getattr(self, name) < 0:
                raise self._bad(name, "must not be negative")
        for name in ("epochs", "minibatch_size", "chunk_steps"):
            if getattr(self, name) < 1:
                raise self._bad(name, "must be at least 1")
        if self.dual_clip is not None and not self.dual_clip > 1.0:
            raise self._bad("dual_clip", "must be above 1, or none")
        if self.value_clip is not None and not self.value_clip > 0.0:
            raise self._bad("value_clip", "must be above 0, or none")
        if self.popart_beta == 1.0:
            raise self._bad("popart_beta", "must be below 1, or the statistics never move")
        if self.entropy_schedule != "constant" and self.entropy_schedule_steps == 0:
            raise self._bad("entropy_schedule_steps", f"must be at least 1 for a {self.entropy_schedule} schedule")
        if self.entropy_schedule == "exponential" and not (self.entropy_coefficient > 0 and self.entropy_final > 0):
            raise self._bad("entropy_final", "must be above 0, as entropy_coefficient, for an exponential schedule")
        if self.network.recurrent != "none":
            if sample_steps % self.chunk_steps:
                raise self._bad("chunk_steps", f"must divide sample_steps, which is {sample_steps}")
            if self.minibatch_size < self.chunk_steps:
                raise self._bad("minibatch_size", f"must be at least one chunk, which is {self.chunk_steps} steps")

    def _bad(self, name: str, rule: str) -> UserError:
        value: Any = getattr(self, name)
        return UserError(f"algorithm.{name} is {value}; it {rule}")

    def entropy_at(self, gradient_step: int) -> float:
        """Entropy coefficient of the given gradient step, counted from 0."""
        start, end = self.entropy_coefficient, self.entropy_final
        if self.entropy_schedule == "constant":
            return start
        progress = min(gradient_step / self.entropy_schedule_steps, 1.0)
        if self.entropy_schedule == "linear":
            return start + progress * (end - start)
        return start * (end / start) ** progress

    def learning_rate_at(self, gradient_step: int) -> float:
        """Learning rate of the given gradient step, counted from 0."""
        if not self.learning_rate_anneal_steps:
            return self.learning_rate
        progress = min(gradient_step / self.learning_rate_anneal_steps, 1.0)
        return self.learning_rate + progress * (self.learning_rate_final - self.learning_rate)

    def build_policy(self, environment: EnvironmentSpec, *, device: str, seed: int) -> ActorCriticPolicy:
        from srl_core.algorithms.ppo.policy import ActorCriticPolicy

        return ActorCriticPolicy(environment, self, device=device, seed=seed)

    def build(self, environment: EnvironmentSpec, *, device: str, seed: int) -> PPO:
        from srl_core.algorithms.ppo.learning import PPO

        return PPO(self.build_policy(environment, device=device, seed=seed), self, seed=seed)
