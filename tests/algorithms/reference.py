"""PPO on a one-layer network in float64, written out step by step: what an update must come to."""

from __future__ import annotations

import numpy as np
import torch

from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.api import SampleBatch
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import Arrays


class ReferencePPO:
    """Feed-forward, tanh, one or more discrete dimensions with masks, all usable steps in one minibatch."""

    def __init__(self, config: PPOConfig, nvec: tuple[int, ...], parameters: Arrays) -> None:
        self.config, self.nvec = config, nvec
        self.parameters = {
            name: torch.tensor(array, dtype=torch.float64, requires_grad=True)
            for name, array in parameters.items()
            if array.dtype == np.float32
        }
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self.parameters.items()}
        self.statistics = np.zeros(3)
        self.gradient_steps = 0

    def update(self, batch: SampleBatch) -> None:
        a = batch.arrays
        usable = self._usable(batch)
        advantages = self._advantages(a)
        targets = {at: a["value"][at].astype(np.float64) + advantages[at] for at in usable}
        mean, deviation = 0.0, 1.0
        if self.config.popart:
            mean, deviation = self._rescale(np.array(list(targets.values())))
        numbers = np.array([advantages[at] for at in usable])
        if self.config.normalise_advantages:
            advantages = {at: (advantages[at] - numbers.mean()) / (numbers.std() + 1e-8) for at in usable}
        for _ in range(self.config.epochs):
            losses = []
            for at in usable:
                old_value, target = ((v - mean) / deviation for v in (float(a["value"][at]), targets[at]))
                losses.append(self._loss(a, at, advantages[at], old_value, target))
            self._adam(torch.stack(losses).mean())

    def _usable(self, batch: SampleBatch) -> list[tuple[int, int]]:
        a, spec = batch.arrays, batch.spec
        found = []
        for t in range(spec.burn_in_steps, spec.burn_in_steps + spec.sample_steps):
            for b in range(batch.columns):
                given_up = a["first"][t + 1, b] and not (a["terminated"][t, b] or a["truncated"][t, b])
                if a["valid"][t, b] and not given_up:
                    found.append((t, b))
        return found

    def _advantages(self, a: Arrays) -> dict[tuple[int, int], float]:
        """The discounted sum of one-step errors, anew for every step."""
        gamma, lam = self.config.gamma, self.config.gae_lambda
        length, columns = a["reward"].shape
        result = {}
        for b in range(columns):
            for begin in range(length - 1):
                total, weight, t = 0.0, 1.0, begin
                while t < length - 1 and a["valid"][t, b]:
                    following = 0.0 if a["terminated"][t, b] else float(a["value"][t + 1, b])
                    total += weight * (float(a["reward"][t, b]) + gamma * following - float(a["value"][t, b]))
                    if a["terminated"][t, b] or a["truncated"][t, b]:
                        break
                    weight *= gamma * lam
                    t += 1
                result[begin, b] = total
        return result

    def _rescale(self, targets: np.ndarray) -> tuple[float, float]:
        """PopArt: new mean and deviation of the targets; the value head gives the same values as before."""

        def scale(s: np.ndarray) -> tuple[float, float]:
            return (s[0] / s[2], np.sqrt(max(s[1] / s[2] - (s[0] / s[2]) ** 2, 1e-2))) if s[2] else (0.0, 1.0)

        mean, deviation = scale(self.statistics)
        beta = self.config.popart_beta
        moments = np.array([targets.mean(), np.square(targets).mean(), 1.0])
        self.statistics = beta * self.statistics + (1 - beta) * moments
        new_mean, new_deviation = scale(self.statistics)
        with torch.no_grad():
            weight, bias = (self.parameters[f"network.value_head.{n}"] for n in ("weight", "bias"))
            weight.mul_(deviation / new_deviation)
            bias.copy_((bias * deviation + mean - new_mean) / new_deviation)
        return new_mean, new_deviation

    def _loss(self, a: Arrays, at: tuple[int, int], advantage: float, old_value: float, target: float) -> torch.Tensor:
        c, p = self.config, self.parameters
        x = torch.tensor(a["observation.x"][at], dtype=torch.float64)
        layer = "network.actor.encoder.layers.0."
        hidden = torch.tanh(p[layer + "weight"] @ x + p[layer + "bias"])
        logits = p["network.policy_head.weight"] @ hidden + p["network.policy_head.bias"]
        value = (p["network.value_head.weight"] @ hidden + p["network.value_head.bias"])[0]
        log_prob, entropy, start = torch.zeros(()), torch.zeros(()), 0
        for d, n in enumerate(self.nvec):
            legal = torch.from_numpy(a[f"observation.{ACTION_MASK}"][at][start : start + n].copy())
            if legal.any():  # else the dimension is a dead agent's
                z = logits[start : start + n][legal]
                p_legal = z.exp() / z.exp().sum()
                place = int(legal[: int(a["action"][at][d])].sum())
                log_prob = log_prob + p_legal[place].log()
                entropy = entropy - (p_legal * p_legal.log()).sum()
            start += n
        ratio = (log_prob - float(a["log_prob"][at])).exp()
        surrogate = min(ratio * advantage, ratio.clamp(1 - c.clip, 1 + c.clip) * advantage)
        if c.dual_clip is not None and advantage < 0:
            surrogate = max(surrogate, torch.tensor(c.dual_clip * advantage))

        def error(prediction: torch.Tensor) -> torch.Tensor:
            e = (prediction - target).abs()
            if c.value_loss == "mse" or e <= c.huber_delta:
                return 0.5 * e**2
            return c.huber_delta * (e - 0.5 * c.huber_delta)

        value_loss = error(value)
        if c.value_clip is not None:
            value_loss = max(value_loss, error(old_value + (value - old_value).clamp(-c.value_clip, c.value_clip)))
        return -surrogate + c.value_weight * value_loss - self._entropy_coefficient() * entropy

    def _entropy_coefficient(self) -> float:
        c = self.config
        if c.entropy_schedule == "constant":
            return c.entropy_coefficient
        done = min(self.gradient_steps / c.entropy_schedule_steps, 1)
        return (1 - done) * c.entropy_coefficient + done * c.entropy_final

    def _learning_rate(self) -> float:
        c = self.config
        if not c.learning_rate_anneal_steps:
            return c.learning_rate
        done = min(self.gradient_steps / c.learning_rate_anneal_steps, 1)
        return (1 - done) * c.learning_rate + done * c.learning_rate_final

    def _adam(self, loss: torch.Tensor) -> None:
        """Kingma and Ba 2015, algorithm 1, after clipping the norm of the whole gradient."""
        c, names = self.config, list(self.parameters)
        gradients = dict(zip(names, torch.autograd.grad(loss, list(self.parameters.values())), strict=True))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients.values()))  # type: ignore[arg-type]
        factor = min(1.0, c.gradient_clip / (float(norm) + 1e-6))
        rate = self._learning_rate()
        self.gradient_steps += 1
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                g = gradients[name] * factor + c.weight_decay * parameter
                m, v = self.moments[name]
                m = 0.9 * m + 0.1 * g
                v = 0.999 * v + 0.001 * g**2
                self.moments[name] = m, v
                m_hat, v_hat = m / (1 - 0.9**self.gradient_steps), v / (1 - 0.999**self.gradient_steps)
                parameter -= rate * m_hat / (v_hat.sqrt() + c.adam_eps)
