"""The acting half of PPO: a network, a distribution and, with PopArt, the value's scale."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from srl_core.algorithms.common.distributions import distribution_for
from srl_core.algorithms.common.popart import PopArt
from srl_core.algorithms.ppo.config import PPOConfig, Precision
from srl_core.api.environment import ACTION_MASK, EnvironmentSpec
from srl_core.api.policy import PolicySpec
from srl_core.base.arrays import Arrays, ArraySpec, Schema, check, schema_of
from srl_core.networks.actor_critic import ActorCritic
from srl_core.networks.images import ImageBuffer
from srl_core.networks.initialisation import reproducible

STATISTICS = "popart.statistics"


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
