"""Atari through ALE's own vector environment: emulation, preprocessing and frame stacking in native threads.

Preprocessing as in the paper's Atari runs: no-op starts, maximum over the last two of four skipped frames, grayscale
84x84, stack of four, FIRE at the start where the game needs it; in training also life loss as termination and the sign
of the reward (Mnih et al. 2015). Episode returns and lengths are always those of whole games with the game's own score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from srl_core.api import ActionSpec, EnvironmentConfig, EnvironmentSpec, EpisodeEnd, Tick
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import UserError
from srl_core.base.registry import nearest
from srl_core.base.seeding import derive_seed


@dataclass(frozen=True)
class AtariConfig(EnvironmentConfig):
    """One Atari 2600 game."""

    kind: ClassVar[str] = "atari"

    game: str = "Pong"
    """Name of the game, such as Pong or NameThisGame."""
    version: Literal["v4", "v5"] = "v4"
    """v4: no sticky actions, as in NoFrameskip-v4 and the paper. v5: each action is repeated with probability 0.25."""
    frame_skip: int = 4
    """Frames [frames] for which each action is held."""
    frame_stack: int = 4
    """Newest frames [frames] in one observation."""
    max_frames: int = 108_000
    """Length [frames] at which a game is truncated: 30 minutes of play."""
    noop_max: int = 30
    """Most no-op frames [frames] before the first action of a training game."""
    evaluation_noop_max: int = 0
    """The same for evaluation games. With 0, version v4 and greedy actions all games of a policy are the same."""
    episodic_life: bool = True
    """In training, a lost life terminates the episode; the game goes on in the next one."""
    sign_reward: bool = True
    """In training, each reward is replaced by its sign."""
    threads: int = 1
    """Native threads [threads] of one vector of games."""

    def build(self, num_envs: int, *, training: bool) -> AtariVector:
        return AtariVector(self, num_envs, training=training)


_RANGES = {
    "frame_skip": (1, 1_000),
    "frame_stack": (1, 1_000),
    "max_frames": (1, 2**31 - 1),
    "noop_max": (0, 1_000_000),
    "evaluation_noop_max": (0, 1_000_000),
    "threads": (1, 1_000),
}
"""The emulator takes C integers."""


def rom_name(game: str) -> str:
    """ALE's name of a game (`NameThisGame` is `name_this_game`); `UserError` for a game it does not have."""
    try:
        from ale_py.roms import get_all_rom_ids
    except ImportError:
        raise UserError("environment 'atari' needs the package ale-py: pip install 'srl-core[atari]'") from None
    known = get_all_rom_ids()
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", game).lower()
    if name not in known:
        raise UserError(f"environment.game is {game!r}, which ALE does not have; {nearest(name, known)}")
    return name


class AtariVector:
    """E games; one agent each."""

    def __init__(self, config: AtariConfig, num_envs: int, *, training: bool) -> None:
        for field, (least, most) in _RANGES.items():
            if not least <= getattr(config, field) <= most:
                raise UserError(f"environment.{field} is {getattr(config, field)}; it must be in {least}..{most}")
        self._config, self._num_envs, self._training = config, num_envs, training
        self._vector = self._make(num_envs, height=84, width=84, grayscale=True)
        self._screen = None
        actions = len(self._vector.ale.get_action_set())
        self.spec = EnvironmentSpec(
            num_envs=num_envs,
            agents=("player",),
            observation={"frame": ArraySpec((config.frame_stack, 84, 84), "uint8")},
            action=ActionSpec(nvec=(actions,)),
            frame_skip=config.frame_skip,
            frame_stacks={"frame": config.frame_stack},
        )
        # After a lost life the game stands still until FIRE in the games that have the button among their first two.
        second = self._vector.ale.get_action_set()[1].name if actions > 1 else ""
        self._serve = 1 if second == "FIRE" else 0
        self._life_ended = np.zeros(num_envs, bool)
        self._game_ended = np.zeros(num_envs, bool)
        self._age = np.zeros(num_envs, np.int64)
        """Ticks since the episode's first observation."""
        self._watched = 0
        """Further ticks in which an episode begins or a stack fills up."""
        self._none, self._everywhere = np.zeros(num_envs, bool), np.ones(num_envs, bool)
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, np.int64)

    def _make(self, num_envs: int, *, height: int, width: int, grayscale: bool):
        name = rom_name(self._config.game)
        from ale_py.vector_env import AtariVectorEnv
        from gymnasium.vector import AutoresetMode

        config = self._config
        return AtariVectorEnv(
            name,
            num_envs=num_envs,
            num_threads=min(config.threads, num_envs),
            max_num_frames_per_episode=config.max_frames,
            repeat_action_probability=0.25 if config.version == "v5" else 0.0,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=height,
            img_width=width,
            grayscale=grayscale,
            stack_num=config.frame_stack if grayscale else 1,
            frameskip=config.frame_skip,
            maxpool=config.frame_skip > 1,
            noop_max=config.noop_max if self._training else config.evaluation_noop_max,
            use_fire_reset=True,
            # ALE's own `episodic_life` starts a new game after each life, so that later lives are never played.
            life_loss_info=self._training and config.episodic_life,
            reward_clipping=False,
        )

    def reset(self, seed: int) -> Tick:
        seeds = np.array([derive_seed(seed, "environment", i) for i in range(self._num_envs)])
        frames, _ = self._vector.reset(seed=seeds)
        if self._screen is not None:
            self._image = self._screen.reset(seed=seeds)[0]
        for array in (self._life_ended, self._game_ended, self._age, self._return, self._length):
            array[...] = 0
        self._watched = self._config.frame_stack
        none = np.zeros(self._num_envs, bool)
        return Tick(
            observation={"frame": frames},
            reward=np.zeros(self._num_envs, np.float32),
            terminated=none,
            truncated=none,
            active=~none,
            first=~none,
        )

    def send(self, actions: np.ndarray) -> None:
        chosen = np.where(self._life_ended, self._serve, actions[:, 0])
        self._vector.send(chosen)
        if self._screen is not None:
            self._screen.send(chosen)

    def recv(self) -> Tick:
        frames, reward, terminated, truncated, info = self._vector.recv()
        if self._screen is not None:
            self._image = self._screen.recv()[0]
        if terminated.any() or truncated.any():
            self._watched = self._config.frame_stack + 1
        if not self._watched:
            return self._uneventful(frames, reward)
        self._watched -= 1
        restarted = self._game_ended  # this tick brought the first observation of a new game and no env step
        first = restarted | self._life_ended
        stepped = ~restarted
        self._return[restarted] = 0
        self._length[restarted] = 0
        self._return += reward
        self._length += stepped
        ended = terminated | truncated
        game_ended = truncated | (terminated & (info["lives"] == 0)) if self._training else ended
        episodes = [
            EpisodeEnd(int(i), (float(self._return[i]),), int(self._length[i])) for i in np.flatnonzero(game_ended)
        ]
        self._age = np.where(first, 0, self._age + 1)
        self._clear_earlier_frames(frames)
        self._life_ended, self._game_ended = ended & ~game_ended, game_ended
        return Tick(
            observation={"frame": frames},
            reward=self._trained_reward(reward),
            terminated=terminated,
            truncated=truncated & ~terminated,
            active=~ended,
            first=first,
            env_steps=int(stepped.sum()),
            episodes=episodes,
        )

    def _uneventful(self, frames: np.ndarray, reward: np.ndarray) -> Tick:
        """Nothing ends or begins, and no stack is filling up, as in most ticks."""
        self._return += reward
        self._length += 1
        return Tick(
            observation={"frame": frames},
            reward=self._trained_reward(reward),
            terminated=self._none,
            truncated=self._none,
            active=self._everywhere,
            first=self._none,
            env_steps=self._num_envs,
        )

    def _trained_reward(self, reward: np.ndarray) -> np.ndarray:
        return (np.sign(reward) if self._training and self._config.sign_reward else reward).astype(np.float32)

    def _clear_earlier_frames(self, frames: np.ndarray) -> None:
        """Frames from before a life's first observation are zero: ALE clears its stack only when a game starts."""
        stack = self._config.frame_stack
        for i in np.flatnonzero(self._age < stack - 1):
            frames[i, : stack - 1 - self._age[i]] = 0

    def start_rendering(self) -> None:
        """Play the same games on a second emulator in colour and full size; before `reset`."""
        self._screen = self._make(self._num_envs, height=210, width=160, grayscale=False)

    def render(self) -> np.ndarray:
        """The screens after the last tick: uint8 [E, 210, 160, 3]."""
        if self._screen is None:
            raise UserError("call start_rendering() before reset() to draw games")
        return self._image[:, -1]

    def close(self) -> None:
        self._vector.close()
        if self._screen is not None:
            self._screen.close()
