"""Encoder, optional recurrent layer, policy head and value head."""

from __future__ import annotations

import math

import torch
from torch import nn

from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import ArraySpec, Schema
from srl_core.networks.cnn import ImageEncoder
from srl_core.networks.config import NetworkConfig, is_image
from srl_core.networks.initialisation import POLICY_GAIN, VALUE_GAIN, orthogonal
from srl_core.networks.mlp import Mlp
from srl_core.networks.rnn import Recurrence

Tensors = dict[str, torch.Tensor]


class Torso(nn.Module):
    """Observations -> features; the recurrent state's names start with `prefix`."""

    def __init__(self, observation: Schema, config: NetworkConfig, dtype: torch.dtype, prefix: str) -> None:
        super().__init__()
        encoder = config.resolve_encoder(observation)
        names = [name for name in sorted(observation) if name != ACTION_MASK]
        self.image = next((n for n in names if is_image(observation[n])), None) if encoder != "mlp" else None
        self.vectors = [name for name in names if name != self.image]
        self.byte_images = [name for name in self.vectors if is_image(observation[name])]
        inputs = sum(math.prod(observation[name].shape) for name in self.vectors)
        if encoder == "mlp":
            self.encoder = Mlp(inputs, config.hidden, config.activation)
            features = self.encoder.features
        else:
            assert self.image is not None
            channels, height, width = observation[self.image].shape
            self.encoder = ImageEncoder((channels, height, width), encoder, dtype)
            features = self.encoder.features + inputs
        self.recurrence = (
            None if config.recurrent == "none" else Recurrence(features, config.recurrent_size, config.recurrent)
        )
        self.state_names = () if self.recurrence is None else tuple(prefix + part for part in self.recurrence.parts)
        self.features = features if self.recurrence is None else self.recurrence.features

    def forward(self, observation: Tensors, state: Tensors, first: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        parts = []
        for name in self.vectors:
            x = observation[name].flatten(1).float()
            parts.append(x / 255.0 if name in self.byte_images else x)
        if self.image is not None:
            parts.insert(0, self.encoder(observation[self.image]))
        x = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        if self.image is None:
            x = self.encoder(x)
        if self.recurrence is None:
            return x, {}
        before = tuple(state[name] for name in self.state_names)
        y, after = self.recurrence(x.view(*first.shape, -1), before, first)
        return y.flatten(0, 1), dict(zip(self.state_names, after, strict=True))


class ActorCritic(nn.Module):
    """What a policy-gradient method trains. Image encoders compute in `dtype`, everything else in float32."""

    def __init__(self, observation: Schema, outputs: int, config: NetworkConfig, dtype: torch.dtype) -> None:
        """`outputs`: parameters of the action distribution that the policy head gives."""
        super().__init__()
        self.actor = Torso(observation, config, dtype, "")
        self.critic = Torso(observation, config, dtype, "critic_") if config.separate_critic else None
        self.policy_head = nn.Linear(self.actor.features, outputs)
        self.value_head = nn.Linear((self.critic or self.actor).features, 1)
        orthogonal(self.policy_head, POLICY_GAIN)
        orthogonal(self.value_head, VALUE_GAIN)

    def state_schema(self) -> Schema:
        """Recurrent state of one row."""
        torsos = [self.actor] if self.critic is None else [self.actor, self.critic]
        return {name: ArraySpec((torso.features,), "float32") for torso in torsos for name in torso.state_names}

    @property
    def recurrent(self) -> bool:
        return self.actor.recurrence is not None

    @property
    def image(self) -> str | None:
        """Name of the observation that a convolutional encoder reads."""
        return self.actor.image

    def forward(
        self, observation: Tensors, state: Tensors, first: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, Tensors]:
        """T steps of B rows -> distribution parameters [T * B, outputs], values [T * B], state after the last step.

        `observation` [T * B, ...] (the image as its encoder wants it), `state` [B, size] before step 0, `first` bool
        [T, B]. Values are in the value head's units, normalised where PopArt is used.
        """
        x, after = self.actor(observation, state, first)
        if self.critic is None:
            y = x
        else:
            y, more = self.critic(observation, state, first)
            after = {**after, **more}
        return self.policy_head(x), self.value_head(y).squeeze(-1), after

    @torch.no_grad()
    def prepare_for_acting(self, source: ActorCritic) -> None:
        """Become a copy of `source` for inference alone; see `ImageEncoder.prepare_for_acting`."""
        theirs = dict(source.named_modules())
        for name, module in self.named_modules():
            if isinstance(module, ImageEncoder):
                encoder = theirs[name]
                assert isinstance(encoder, ImageEncoder)
                module.prepare_for_acting(encoder)
            elif not any(isinstance(theirs[parent], ImageEncoder) for parent in _parents(name)):
                for mine, original in zip(
                    module.parameters(recurse=False), theirs[name].parameters(recurse=False), strict=True
                ):
                    mine.copy_(original)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]
