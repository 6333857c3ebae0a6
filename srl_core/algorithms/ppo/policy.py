"""The acting half of PPO: a network, a distribution and, with PopArt, the value's scale."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from srl_core.algorithms.common.batches import Steps
from srl_core.algorithms.common.distributions import distribution_for
from srl_core.algorithms.common.popart import PopArt
from srl_core.algorithms.ppo.config import PPOConfig, Precision
from srl_core.api.environment import ACTION_MASK, EnvironmentSpec
from srl_core.api.policy import PolicySpec
from srl_core.api.sample import SampleBatch
from srl_core.base.arrays import Arrays, ArraySpec, Schema, check, schema_of
from srl_core.networks.actor_critic import ActorCritic
from srl_core.networks.images import ImageBuffer
from srl_core.networks.initialisation import reproducible

STATISTICS = "popart.statistics"
EVALUATED = 512
"""Steps that a feed-forward policy evaluates at a time."""


class ActorCriticPolicy:
    """Implements `srl_core.api.Policy`. Not for several threads at once: calls share buffers."""

    def __init__(self, environment: EnvironmentSpec, config: PPOConfig, *, device: str, seed: int) -> None:
        """Parameters depend on `seed` alone; torch's global generator is left as it was."""
        self.device = torch.device(device)
        self.dtype = encoder_dtype(config.precision, self.device)
        action = environment.action
        with reproducible(seed):
            distribution = distribution_for(action)
            network = ActorCritic(environment.observation, distribution.outputs, config.network, self.dtype)
        self.network = network.to(self.device)
        self.distribution = distribution.to(self.device)
        self.trained = nn.ModuleDict({"network": self.network, "distribution": self.distribution})
        self.popart = PopArt(config.popart_beta) if config.popart else None
        self.spec = PolicySpec(
            observation=dict(environment.observation),
            state=network.state_schema(),
            action=ArraySpec((action.dims,), action.dtype),
        )
        self._masked = ACTION_MASK in environment.observation
        self._acting = copy.deepcopy(self.network)
        self._acting_is_current = False
        self._images = self.new_image_buffer()

    def new_image_buffer(self) -> ImageBuffer | None:
        """A buffer for the network's image input, if it has one."""
        if self.network.image is None:
            return None
        channels, height, width = self.spec.observation[self.network.image].shape
        return ImageBuffer((channels, height, width), self.dtype, self.device)

    def parameters_changed(self) -> None:
        """Must be called after `network` was changed from outside: acting uses a prepared copy of it."""
        self._acting_is_current = False

    @torch.inference_mode()
    def act(self, request: Arrays, *, greedy: bool = False) -> Arrays:
        if not self._acting_is_current:
            self._acting.prepare_for_acting(self.network)
            self._acting_is_current = True
        observation, state = {}, {}
        for name in self.spec.observation:
            x = _tensor(request[f"observation.{name}"])
            if self._images is not None and name == self._acting.image:
                observation[name] = self._images.load(x)
            else:
                observation[name] = x.to(self.device)
        for name in self.spec.state:
            state[name] = _tensor(request[f"state.{name}"]).to(self.device)
        mask = observation[ACTION_MASK] if self._masked else None
        first = _tensor(request["first"])[None].to(self.device)
        noise = _tensor(request["noise"]).to(self.device)
        parameters, value, after = self._acting(observation, state, first)
        action, log_prob = self.distribution.sample(parameters, noise, mask, greedy=greedy)
        reply = {"action": action.cpu().numpy(), "log_prob": log_prob.cpu().numpy(), "value": value.cpu().numpy()}
        if self.popart is not None:
            reply["value"] = self.popart.denormalise(reply["value"]).astype(np.float32)
        for name, array in after.items():
            reply[f"state.{name}"] = array.cpu().numpy()
        return reply

    def forward(
        self, steps: Steps, index: np.ndarray, burn_in: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Distribution parameters, values and action masks of the steps `index` ([M], or [T, n] where recurrent).

        Recurrent state starts from what was stored `burn_in` steps before and is brought up to date over them.
        """
        if not self.network.recurrent:
            flat, state, first = index, {}, torch.empty(0)
        else:
            flat, first = index.ravel(), steps.first(index)
            begin = index[0] - burn_in * steps.columns
            state = steps.state(begin)
            if burn_in:
                before = begin + np.arange(burn_in)[:, None] * steps.columns
                with torch.no_grad():
                    *_, state = self.network(steps.observation(before.ravel()), state, steps.first(before))
        observation = steps.observation(flat)
        parameters, values, _ = self.network(observation, state, first)
        return parameters, values, observation.get(ACTION_MASK)

    @torch.no_grad()
    def evaluate(self, batch: SampleBatch) -> Arrays:
        steps = Steps(batch, self.device, self.network.image, self._images)
        shape = batch.arrays["reward"].shape
        index = np.arange(math.prod(shape))
        # Recurrent networks go over the whole sample, from the state that was stored at its first step.
        parts = [index.reshape(shape)] if self.network.recurrent else np.split(index, index[::EVALUATED][1:])
        actions = batch.arrays["action"].reshape(len(index), -1)
        log_probs, values = [], []
        for part in parts:
            parameters, value, mask = self.forward(steps, part, 0)
            action = torch.from_numpy(actions[part.ravel()]).to(self.device)
            log_probs.append(self.distribution.evaluate(parameters, action, mask)[0])
            values.append(value)
        log_prob, value = (torch.cat(x).cpu().numpy().astype(np.float64).reshape(shape) for x in (log_probs, values))
        return {"log_prob": log_prob, "value": value if self.popart is None else self.popart.denormalise(value)}

    def parameter_schema(self) -> Schema:
        return schema_of(self.read_parameters(), 0)

    def read_parameters(self) -> Arrays:
        parameters = {name: p.detach().cpu().contiguous().numpy().copy() for name, p in self.trained.named_parameters()}
        if self.popart is not None:
            parameters[STATISTICS] = self.popart.statistics.copy()
        return parameters

    @torch.no_grad()
    def write_parameters(self, parameters: Mapping) -> None:
        check(parameters, self.parameter_schema(), ())
        for name, p in self.trained.named_parameters():
            p.copy_(torch.from_numpy(np.array(parameters[name])))
        if self.popart is not None:
            self.popart.statistics = np.array(parameters[STATISTICS])
        self.parameters_changed()


def _tensor(array: np.ndarray) -> torch.Tensor:
    """A view, but for read-only memory, which torch must not share."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def encoder_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """What `precision` means on this machine."""
    if precision == "auto":
        if device.type == "cuda":
            native = torch.cuda.is_bf16_supported(including_emulation=False)
        else:
            cpu = Path("/proc/cpuinfo")
            flags = set(cpu.read_text().split()) if cpu.exists() else set()
            native = bool(flags & {"avx512_bf16", "amx_bf16"})
        return torch.bfloat16 if native else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
