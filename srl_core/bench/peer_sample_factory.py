"""Trains Pong with Sample Factory; runs inside the virtual environment that `srl_core.bench.peers` makes for it.

The same network, minibatch and number of passes as our benchmark; everything else is Sample Factory's own choice for
Atari, in its asynchronous mode, which is its fastest.
"""

from __future__ import annotations

import sys

import gymnasium
from ale_py.registration import register_v0_v4_envs
from sample_factory.algo.utils.context import global_model_factory  # pyright: ignore[reportMissingImports]
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args  # pyright: ignore[reportMissingImports]
from sample_factory.model.encoder import Encoder  # pyright: ignore[reportMissingImports]
from sample_factory.train import run_rl  # pyright: ignore[reportMissingImports]
from sf_examples.atari.atari_params import atari_override_defaults  # pyright: ignore[reportMissingImports]
from sf_examples.atari.train_atari import register_atari_components  # pyright: ignore[reportMissingImports]
from torch import nn

register_v0_v4_envs()  # here, because its worker processes import this module anew and need the environments too


class SmallEncoder(Encoder):
    """conv 16 8x8 stride 4, conv 32 4x4 stride 2, dense 256."""

    def __init__(self, cfg, obs_space: gymnasium.spaces.Dict) -> None:
        super().__init__(cfg)
        channels = obs_space["obs"].shape[0]  # type: ignore[index]
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 8, 4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 9 * 9, 256),
            nn.ReLU(),
        )

    def forward(self, obs):
        return self.layers(obs["obs"])

    def get_out_size(self) -> int:
        return 256


def main() -> int:
    register_atari_components()
    global_model_factory().register_encoder_factory(SmallEncoder)
    parser, partial = parse_sf_args(argv=sys.argv[1:])
    atari_override_defaults(partial.env, parser)
    return run_rl(parse_full_cfg(parser, sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
