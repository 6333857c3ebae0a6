"""Acting: a pure function of the request, whatever the actions and the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.algorithms.ppo.policy import ActorCriticPolicy
from srl_core.api import ActionSpec, EnvironmentSpec
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import Arrays, check
from srl_core.networks.config import NetworkConfig
from tests.algorithms.samples import frame_environment, observe, rollout, vector_environment

ACTIONS = {
    "discrete": vector_environment(ActionSpec((4,))),
    "multi_discrete": vector_environment(ActionSpec((3, 2, 5))),
    "continuous": vector_environment(ActionSpec(size=2)),
    "masked": vector_environment(ActionSpec((3, 4)), masked=True),
}
NETWORKS = {
    "mlp": NetworkConfig(hidden=(16,)),
    "lstm": NetworkConfig(hidden=(16,), recurrent="lstm", recurrent_size=8),
    "gru_separate": NetworkConfig(hidden=(16,), recurrent="gru", recurrent_size=8, separate_critic=True),
}


def make(environment: EnvironmentSpec, seed: int = 3, **settings) -> ActorCriticPolicy:
    return PPOConfig(**settings).build_policy(environment, device="cpu", seed=seed)


def request_for(policy: ActorCriticPolicy, rows: int, seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        **{f"observation.{name}": array for name, array in observe(random, policy.spec, rows).items()},
        **{f"state.{n}": random.normal(size=(rows, *s.shape)).astype(np.float32) for n, s in policy.spec.state.items()},
        "first": random.random(rows) < 0.3,
        "noise": random.random((rows, *policy.spec.action.shape), dtype=np.float32),
    }


def rows_of(arrays: Arrays, rows: np.ndarray | slice) -> Arrays:
    return {name: array[rows] for name, array in arrays.items()}


def decisive(policy: ActorCriticPolicy) -> ActorCriticPolicy:
    """Parameters far from the flat policy of the start, so that actions depend on the observation."""
    random = np.random.default_rng(5)
    parameters = policy.read_parameters()
    policy.write_parameters(
        {
            n: a if a.dtype == np.float64 else a + random.normal(0, 0.5, a.shape).astype(a.dtype)
            for n, a in parameters.items()
        }
    )
    return policy


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_reply_follows_from_its_own_row_of_the_request_alone(action: str, network: str) -> None:
    policy = decisive(make(ACTIONS[action], network=NETWORKS[network]))
    request = request_for(policy, 40)
    kept = {name: array.copy() for name, array in request.items()}
    reply = policy.act(request)
    check({**reply, "version": np.zeros(40, np.int64)}, policy.spec.reply, (40,))
    for name, array in kept.items():
        np.testing.assert_array_equal(request[name], array)  # the caller's arrays stay as they were
    torch.manual_seed(1)  # no other source of randomness
    again = policy.act(request)
    part = np.array([31, 2, 17])
    some = policy.act(rows_of(request, part))
    for name in reply:
        np.testing.assert_array_equal(again[name], reply[name])
        np.testing.assert_allclose(some[name], reply[name][part], rtol=1e-4, atol=1e-5)
    noise = 1 - kept["noise"] - np.float32(2**-24)
    assert not np.array_equal(policy.act({**request, "noise": noise})["action"], reply["action"])


@pytest.mark.parametrize("action", ACTIONS)
def test_greedy_takes_the_mode_whatever_the_noise(action: str) -> None:
    policy = decisive(make(ACTIONS[action], network=NETWORKS["mlp"]))
    request = request_for(policy, 60)
    greedy = policy.act(request, greedy=True)
    other = policy.act({**request, "noise": request_for(policy, 60, seed=9)["noise"]}, greedy=True)
    np.testing.assert_array_equal(greedy["action"], other["action"])
    for seed in range(20):
        sampled = policy.act({**request, "noise": request_for(policy, 60, seed)["noise"]})
        assert (greedy["log_prob"] >= sampled["log_prob"] - 1e-5).all()


def test_a_million_actions_and_none_is_illegal() -> None:
    policy = decisive(make(ACTIONS["masked"], network=NETWORKS["mlp"]))
    rows, offsets = 50_000, np.array([0, 3])
    for seed in range(20):
        request = request_for(policy, rows, seed)
        mask = request[f"observation.{ACTION_MASK}"]
        mask[:, 3:] = False  # in the second dimension a single action is legal
        only = np.random.default_rng(seed).integers(0, 4, rows)
        mask[np.arange(rows), 3 + only] = True
        mask[~mask[:, :3].any(1), 1] = True
        reply = policy.act(request)
        assert np.take_along_axis(mask, reply["action"] + offsets, 1).all()
        np.testing.assert_array_equal(reply["action"][:, 1], only)
        assert np.isfinite(reply["log_prob"]).all()


def test_a_dead_agents_row_is_finite_and_changes_no_other() -> None:
    policy = decisive(make(ACTIONS["masked"], network=NETWORKS["mlp"]))
    request = request_for(policy, 8)
    reply = policy.act(request)
    request[f"observation.{ACTION_MASK}"][3] = False
    with_dead = policy.act(request)
    assert all(np.isfinite(array).all() for array in with_dead.values())
    assert with_dead["log_prob"][3] == 0
    assert (with_dead["action"][3] >= 0).all()
    assert (with_dead["action"][3] < [3, 4]).all()
    alive = np.arange(8) != 3
    np.testing.assert_array_equal(with_dead["action"][alive], reply["action"][alive])


@pytest.mark.parametrize("network", ["lstm", "gru_separate"])
def test_an_episode_starts_from_the_zero_state_whatever_the_request_says(network: str) -> None:
    policy = decisive(make(ACTIONS["discrete"], network=NETWORKS[network]))
    request = request_for(policy, 10)
    request["first"][:] = True
    zeroed = {n: np.zeros_like(a) if n.startswith("state.") else a for n, a in request.items()}
    broken = {n: np.full_like(a, np.nan) if n.startswith("state.") else a for n, a in request.items()}
    expected = policy.act({**zeroed, "first": np.zeros(10, bool)})
    for variant in (request, broken):
        for name, array in policy.act(variant).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    assert not np.allclose(policy.act({**request, "first": np.zeros(10, bool)})["value"], expected["value"])


@pytest.mark.parametrize("popart", [False, True])
@pytest.mark.parametrize("action", ["masked", "continuous"])
def test_parameters_make_another_policy_the_same(action: str, popart: bool) -> None:
    settings = {"network": NETWORKS["gru_separate"], "popart": popart}
    first, second = decisive(make(ACTIONS[action], 1, **settings)), make(ACTIONS[action], 2, **settings)
    if popart:
        assert first.popart is not None
        first.popart.statistics = np.array([3.0, 25.0, 1.0])
    request = request_for(first, 12)
    before = second.act(request)
    parameters = first.read_parameters()
    assert {n: (a.shape, a.dtype) for n, a in parameters.items()} == {
        n: (s.shape, np.dtype(s.dtype)) for n, s in first.parameter_schema().items()
    }
    second.write_parameters(parameters)
    for array in parameters.values():
        array.fill(0)  # both hold copies
    reply, expected = second.act(request), first.act(request)
    assert not np.array_equal(before["value"], reply["value"])
    for name in expected:
        np.testing.assert_array_equal(reply[name], expected[name])
    if popart:
        assert first.popart is not None
        plain = first.popart.normalise(expected["value"])
        assert np.abs(plain - expected["value"]).max() > 1  # values come in units of the reward


def test_parameters_of_another_shape_are_refused_and_change_nothing() -> None:
    policy = make(ACTIONS["discrete"])
    before = policy.read_parameters()
    name = next(iter(before))
    for wrong in (
        {**before, name: before[name][:-1]},
        {**before, name: before[name].astype(np.float64)},
        {n: a for n, a in before.items() if n != name},
        {**before, "extra": before[name]},
    ):
        with pytest.raises(ValueError, match=name if len(wrong) == len(before) else "extra|" + name):
            policy.write_parameters({n: a + 1 for n, a in wrong.items()})
    for key, array in policy.read_parameters().items():
        np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("encoder", ["atari_small", "nature"])
def test_acting_agrees_with_the_network_that_is_trained(precision: str, tolerance: float, encoder: str) -> None:
    environment = frame_environment(6)
    config = {"network": NetworkConfig(encoder=encoder), "precision": precision}  # type: ignore[arg-type]
    policy, exact = make(environment, **config), make(environment, **{**config, "precision": "float32"})
    request = request_for(policy, 5)
    pixels = torch.from_numpy(request["observation.frame"]).float()
    with torch.no_grad():
        images = pixels.contiguous(memory_format=torch.channels_last)
        logits, value, _ = exact.network({"frame": images}, {}, torch.empty(0))
        action = torch.from_numpy((reply := policy.act(request))["action"])
        log_prob, _ = exact.distribution.evaluate(logits, action, None)
    np.testing.assert_allclose(reply["value"], value, atol=tolerance * value.abs().max().item())
    np.testing.assert_allclose(reply["log_prob"], log_prob, atol=tolerance)


@pytest.mark.parametrize("environment", [frame_environment(6), ACTIONS["continuous"]], ids=["image", "vector"])
def test_initial_weights_depend_on_the_seed_alone(environment: EnvironmentSpec) -> None:
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    try:
        torch.set_num_threads(1)
        one = make(environment).read_parameters()
        torch.set_num_threads(3)
        torch.manual_seed(99)
        before = torch.random.get_rng_state()
        three = make(environment).read_parameters()
        assert torch.equal(torch.random.get_rng_state(), before)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
        torch.random.set_rng_state(state)
    for name in one:
        np.testing.assert_array_equal(one[name], three[name])
    assert any(not np.array_equal(one[n], a) for n, a in make(environment, seed=4).read_parameters().items())
    built = PPOConfig().build(environment, device="cpu", seed=3).policy.read_parameters()
    assert all(np.array_equal(one[n], built[n]) for n in one)


def test_requests_may_be_read_only() -> None:
    """Streams hand out memory that nobody may write to."""
    policy = make(ACTIONS["masked"], network=NETWORKS["lstm"])
    request = request_for(policy, 4)
    expected = policy.act(request)
    for array in request.values():
        array.flags.writeable = False
    np.testing.assert_array_equal(policy.act(request)["action"], expected["action"])


@pytest.mark.parametrize("recurrent", ["none", "lstm", "gru"])
@pytest.mark.parametrize("popart", [False, True])
def test_evaluating_what_was_just_acted_gives_the_same_numbers(recurrent: str, popart: bool) -> None:
    environment = vector_environment(ActionSpec((3,)))
    network = NetworkConfig(recurrent=recurrent, recurrent_size=8)  # type: ignore[arg-type]
    policy = make(environment, network=network, popart=popart, popart_beta=0.9)
    if policy.popart is not None:
        policy.popart.update(np.array([3.0, 9.0, 20.0]), policy.network.value_head)
        policy.parameters_changed()
    batch = rollout(policy, np.random.default_rng(0), steps=200, columns=4, environment=environment)
    found = policy.evaluate(batch)
    valid = batch.arrays["valid"]
    for name in ("log_prob", "value"):
        assert found[name].shape == valid.shape
        np.testing.assert_allclose(found[name][valid], batch.arrays[name][valid], rtol=1e-4, atol=1e-4)
