"""Atari against a plain emulator stepped by hand."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from ale_py import Action, ALEInterface, roms

from envs.atari import AtariConfig, rom_name
from srl_core.base.errors import UserError


class PlainGame:
    """One game in a loop: four frames an action, the maximum of the last two, grayscale, 84x84."""

    def __init__(self, game: str) -> None:
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 1)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()

    def reset(self) -> None:
        self.ale.reset_game()
        if Action.FIRE in self.actions:
            self.ale.act(Action.FIRE)

    def step(self, action: int) -> tuple[np.ndarray | None, float]:
        """The frame (None where the game was over before all four had passed) and the reward."""
        reward, screens = 0.0, []
        for frame in range(4):
            reward += self.ale.act(self.actions[action])
            if frame >= 2:
                screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                return None, reward
        return cv2.resize(np.maximum.reduce(screens), (84, 84), interpolation=cv2.INTER_AREA), reward


@pytest.mark.parametrize("game", ["Pong", "Breakout", "Qbert"])
def test_frames_rewards_and_ends_are_those_of_a_plain_loop(game: str) -> None:
    environment = AtariConfig(game=game).build(1, training=False)
    plain = PlainGame(rom_name(game))
    tick = environment.reset(3)
    plain.reset()
    rng = np.random.default_rng(0)
    score, steps, ended = 0.0, 0, False
    history = [np.zeros((84, 84), np.uint8)] * 3 + [tick.observation["frame"][0, 3]]
    while not ended and steps < 1500:
        action = int(rng.integers(environment.spec.action.nvec[0]))
        environment.send(np.array([[action]]))
        tick = environment.recv()
        frame, reward = plain.step(action)
        if frame is not None:
            history = [*history[1:], frame]
            np.testing.assert_array_equal(tick.observation["frame"][0], np.stack(history))
        assert tick.reward[0] == reward
        score, steps, ended = score + reward, steps + 1, plain.ale.game_over()
        assert tick.terminated[0] == ended
    if ended:
        assert [(e.returns, e.length) for e in tick.episodes] == [((score,), steps)]
    environment.close()


def lives_of_breakout(config: AtariConfig, steps: int) -> list[dict]:
    """Ticks of one training game in which FIRE is pressed now and then and the ball soon lost."""
    environment = config.build(1, training=True)
    ticks = [environment.reset(1)]
    rng = np.random.default_rng(0)
    for _ in range(steps):
        environment.send(rng.integers(0, 2, (1, 1)))
        ticks.append(environment.recv())
    environment.close()
    return [
        {
            "terminated": bool(t.terminated[0]),
            "first": bool(t.first[0]),
            "active": bool(t.active[0]),
            "reward": float(t.reward[0]),
            "env_steps": t.env_steps,
            "earlier": [bool(frame.any()) for frame in t.observation["frame"][0]],
            "episodes": list(t.episodes),
        }
        for t in ticks
    ]


def test_a_life_ends_the_episode_but_not_the_game() -> None:
    ticks = lives_of_breakout(AtariConfig(game="Breakout"), 1200)
    ends = [i for i, t in enumerate(ticks) if t["terminated"]]
    games = [i for i, t in enumerate(ticks) if t["episodes"]]
    assert len(games) >= 2
    # Five lives a game: each ends an episode, the fifth the game.
    assert [ends.index(i) for i in games] == [5 * k + 4 for k in range(len(games))]
    for i in ends[:-1]:
        assert not ticks[i]["active"]
        assert ticks[i + 1]["first"]
        assert ticks[i + 1]["env_steps"] == (0 if i in games else 1)
        for age in range(4):  # the stack holds nothing from before the episode's first observation
            assert ticks[i + 1 + age]["earlier"] == [False] * (3 - age) + [True] * (age + 1)
    begin = 0
    for i in games:
        (episode,) = ticks[i]["episodes"]
        part = ticks[begin + 1 : i + 1]
        assert episode.length == sum(t["env_steps"] for t in part)
        assert episode.returns[0] == sum(t["reward"] for t in part)  # bricks of the lowest rows are worth one
        begin = i + 1


def test_evaluation_plays_whole_games_with_their_own_score() -> None:
    config = AtariConfig(game="Qbert", noop_max=0)
    scores = {}
    for training in (True, False):
        environment = config.build(1, training=training)
        tick = environment.reset(1)
        rng = np.random.default_rng(1)
        rewards: list[float] = []
        while not tick.episodes:
            environment.send(rng.integers(0, 6, (1, 1)))
            tick = environment.recv()
            rewards.append(float(tick.reward[0]))
        scores[training] = tick.episodes[0].returns[0]
        assert max(rewards) == (1.0 if training else 25.0)
        environment.close()
    assert scores[True] % 25 == 0
    assert scores[True] > 0


def test_long_games_are_truncated() -> None:
    environment = AtariConfig(max_frames=400).build(2, training=True)
    tick = environment.reset(1)
    steps = 0
    while not tick.episodes:
        environment.send(np.zeros((2, 1), np.int64))
        tick = environment.recv()
        steps += 1
    assert tick.truncated.any()
    assert not tick.terminated.any()
    assert tick.episodes[0].length == steps
    assert 90 <= steps <= 100  # of 400 frames, some may be no-ops
    environment.close()


def test_equal_seeds_give_equal_games_whatever_their_number() -> None:
    def play(num_envs: int, seed: int) -> np.ndarray:
        environment = AtariConfig(version="v5").build(num_envs, training=True)
        environment.reset(seed)
        rng = np.random.default_rng(0)
        frames = []
        for _ in range(60):
            environment.send(np.repeat(rng.integers(0, 6, (1, 1)), num_envs, 0))
            frames.append(environment.recv().observation["frame"][0])
        environment.close()
        return np.stack(frames)

    np.testing.assert_array_equal(play(1, 5), play(3, 5))
    assert (play(1, 5) != play(1, 6)).any()


def test_drawing_shows_the_same_game() -> None:
    environment = AtariConfig(version="v5").build(2, training=False)
    environment.start_rendering()
    environment.reset(4)
    rng = np.random.default_rng(0)
    for _ in range(100):
        environment.send(rng.integers(0, 6, (2, 1)))
        tick = environment.recv()
    screens = environment.render()
    assert screens.shape == (2, 210, 160, 3)
    for screen, frame in zip(screens, tick.observation["frame"][:, -1], strict=True):
        gray = cv2.resize(cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY), (84, 84), interpolation=cv2.INTER_AREA)
        assert np.abs(gray.astype(int) - frame.astype(int)).max() <= 4  # the two round gray differently
    environment.close()


@pytest.mark.parametrize(("field", "value"), [("game", "Pnog"), ("frame_stack", 0), ("threads", 0)])
def test_bad_values_are_named(field: str, value: object) -> None:
    with pytest.raises(UserError, match=f"environment.{field} is {value!r}"):
        AtariConfig(**{field: value}).build(1, training=True)  # type: ignore[arg-type]
