"""PPO: from a sample batch to gradient steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from srl_core.algorithms.common.advantages import Trajectories, explained_variance, gae, normalise
from srl_core.algorithms.common.batches import Steps, chunk_minibatches, step_minibatches
from srl_core.algorithms.common.vtrace import vtrace
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.algorithms.ppo.loss import policy_loss, value_loss
from srl_core.algorithms.ppo.policy import ActorCriticPolicy
from srl_core.api.sample import SampleBatch
from srl_core.base.seeding import generator

MEANS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
"""Metrics that are averaged over gradient steps, in the order in which a step gives them."""


@dataclass
class Targets:
    """What the losses need of each step, flat over [L * B]; float32 but for the action."""

    action: np.ndarray
    log_prob: np.ndarray
    advantage: np.ndarray
    value: np.ndarray
    """The value before the update, in the value head's units, as `target`."""
    target: np.ndarray


class PPO:
    """Implements `srl_core.api.Algorithm`."""

    def __init__(self, policy: ActorCriticPolicy, config: PPOConfig, *, seed: int) -> None:
        self.policy = policy
        self.config = config
        self.gradient_steps = 0
        self.skip_reason = ""
        """What was not finite in the gradient step that was last skipped."""
        self._updates = 0
        self._seed = seed
        self._parameters = dict(policy.trained.named_parameters())
        self._optimizer = torch.optim.Adam(
            self._parameters.values(),
            lr=config.learning_rate,
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self._images = policy.new_image_buffer()

    @np.errstate(invalid="ignore", over="ignore")  # numbers that are not finite are dealt with, not warned of
    def update(self, batch: SampleBatch) -> dict[str, float]:
        """See `srl_core.api.Algorithm`. A gradient step in which something is not finite changes nothing."""
        config, spec = self.config, batch.spec
        steps = Steps(batch, self.policy.device, self.policy.network.image, self._images)
        sample = slice(spec.burn_in_steps, spec.burn_in_steps + spec.sample_steps)
        trajectories = Trajectories(*(batch.arrays[name] for name in Trajectories.__annotations__))
        usable = np.zeros_like(batch.arrays["valid"])
        usable[sample] = trajectories.usable()[sample]

        log_prob, values = batch.arrays["log_prob"], batch.arrays["value"].astype(np.float64)
        if config.vtrace or (batch.uses > 0 and config.recompute_advantages_on_reuse):
            now = self.policy.evaluate(batch)
            log_prob, values = now["log_prob"], now["value"]
        if config.vtrace:
            log_ratios = log_prob - batch.arrays["log_prob"]
            advantages, returns = vtrace(trajectories, values, log_ratios, config.gamma, config.gae_lambda)
        else:
            advantages = gae(trajectories, values, config.gamma, config.gae_lambda)
            returns = values + advantages
        explained = explained_variance(values, returns, usable)
        if self.policy.popart is not None:
            self.policy.popart.update(returns[usable], self.policy.network.value_head)
            values, returns = self.policy.popart.normalise(values), self.policy.popart.normalise(returns)
        if config.normalise_advantages:
            advantages = normalise(advantages, usable)
        targets = Targets(
            batch.arrays["action"].reshape(usable.size, -1),
            *(a.ravel().astype(np.float32) for a in (batch.arrays["log_prob"], advantages, values, returns)),
        )

        random = generator(self._seed, "minibatches", self._updates)
        self._updates += 1
        taken, skipped, samples, sums = 0, 0, 0, np.zeros(len(MEANS))
        for _ in range(config.epochs):
            if self.policy.network.recurrent:
                minibatches = chunk_minibatches(
                    usable, spec.burn_in_steps, spec.sample_steps, config.chunk_steps, config.minibatch_size, random
                )
            else:
                minibatches = step_minibatches(usable, config.minibatch_size, random)
            for index, weight in minibatches:
                results = self._gradient_step(steps, targets, index, weight, spec.burn_in_steps)
                if results is None:
                    skipped += 1
                    continue
                taken += 1
                samples += int(weight.sum())
                sums += results
        self.policy.parameters_changed()
        return {
            **dict(zip(MEANS, (sums / max(taken, 1)).tolist(), strict=True)),
            "explained_variance": explained,
            "valid_fraction": float(batch.sample_part("valid").mean()),
            "gradient_steps": float(taken),
            "gradient_samples": float(samples),
            "skipped": float(skipped),
            "learning_rate": config.learning_rate_at(self.gradient_steps),
        }

    def _gradient_step(
        self, steps: Steps, targets: Targets, index: np.ndarray, weight: np.ndarray, burn_in: int
    ) -> np.ndarray | None:
        """One step of Adam; the metrics `MEANS`, or None where it was skipped."""
        config, device = self.config, self.policy.device
        parameters, value, mask = self.policy.forward(steps, index, burn_in)
        flat = index.ravel()
        action, old_log_prob, advantage, old_value, target = (
            torch.from_numpy(a[flat]).to(device) for a in vars(targets).values()
        )
        share = torch.from_numpy((weight.ravel() / weight.sum()).astype(np.float32)).to(device)
        counted = torch.from_numpy(weight.ravel()).to(device)
        log_prob, entropy = self.policy.distribution.evaluate(parameters, action, mask)
        # Steps without weight may hold anything, even NaN, which a product with zero would keep.
        log_ratio = torch.where(counted, log_prob - old_log_prob, 0.0)
        advantage, target = torch.where(counted, advantage, 0.0), torch.where(counted, target, value.detach())
        surrogates, clipped = policy_loss(log_ratio, advantage, config.clip, config.dual_clip)
        errors = value_loss(value, target, old_value, config.value_loss, config.huber_delta, config.value_clip)
        losses = torch.stack((surrogates, errors, entropy)) @ share
        weights = losses.new_tensor((1.0, config.value_weight, -config.entropy_at(self.gradient_steps)))
        loss = losses @ weights
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), config.gradient_clip)
        with torch.no_grad():
            kl = log_ratio.exp() - 1.0 - log_ratio
            more = torch.stack((kl, clipped.float())) @ share
            results = torch.cat((losses, more, norm[None])).cpu().numpy().astype(np.float64)
        if not (np.isfinite(results).all()):
            names = [name for name, value in zip(MEANS, results, strict=True) if not np.isfinite(value)]
            self.skip_reason = f"not finite: {', '.join(names)}"
            return None
        for group in self._optimizer.param_groups:
            group["lr"] = config.learning_rate_at(self.gradient_steps)
        self._optimizer.step()
        self.gradient_steps += 1
        return results

    def state_dict(self) -> dict[str, Any]:
        moments: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            state = self._optimizer.state[parameter]
            if state:
                moments[name] = {key: state[key].cpu().contiguous().numpy().copy() for key in sorted(state)}
        return {
            "parameters": self.policy.read_parameters(),
            "optimizer": moments,
            "gradient_steps": self.gradient_steps,
            "updates": self._updates,
            "seed": self._seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.policy.write_parameters(state["parameters"])
        self._optimizer.state.clear()
        for name, moments in state["optimizer"].items():
            parameter = self._parameters[name]
            restored = {key: torch.from_numpy(np.array(array)) for key, array in moments.items()}
            for key, tensor in restored.items():
                if key != "step":  # moments lie in memory as their parameter does
                    restored[key] = torch.empty_like(parameter, requires_grad=False).copy_(tensor)
                else:
                    restored[key] = tensor.to(parameter.device)
            self._optimizer.state[parameter] = restored
        self.gradient_steps = int(state["gradient_steps"])
        self._updates = int(state["updates"])
        self._seed = int(state["seed"])
