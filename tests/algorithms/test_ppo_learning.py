"""Updates: equal to a plain loop, safe against numbers that are not finite, exact after loading."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.algorithms.ppo.learning import PPO
from srl_core.api import ActionSpec, EnvironmentSpec, SampleBatch
from srl_core.base.arrays import Arrays
from srl_core.networks.config import NetworkConfig
from tests.algorithms.reference import ReferencePPO
from tests.algorithms.samples import again, rollout, vector_environment

NVEC = (3, 2)
MASKED = vector_environment(ActionSpec(NVEC), masked=True)
PLAIN = vector_environment(ActionSpec((3,)))
ONE_LAYER = NetworkConfig(hidden=(8,))
LSTM = NetworkConfig(hidden=(8,), recurrent="lstm", recurrent_size=6)


def make(environment: EnvironmentSpec, seed: int = 1, **settings) -> PPO:
    settings = {"network": ONE_LAYER, "learning_rate": 0.02, **settings}
    return PPOConfig(**settings).build(environment, device="cpu", seed=seed)


def batch_for(algorithm: PPO, environment: EnvironmentSpec, seed: int = 0, **cut) -> SampleBatch:
    random = np.random.default_rng(seed)
    return rollout(algorithm.policy, random, environment=environment, **{"steps": 10, "columns": 4, **cut})


def copied(batch: SampleBatch) -> SampleBatch:
    return replace(batch, arrays={name: array.copy() for name, array in batch.arrays.items()})


def assert_same(a: Any, b: Any) -> None:
    """Nested states, equal bit for bit."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    else:
        assert a == b


def assert_close(a: Arrays, b: Arrays, tolerance: float = 1e-5) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=tolerance, err_msg=name)


def differ(a: Arrays, b: Arrays) -> bool:
    return any(np.abs(a[name] - b[name]).max() > 1e-4 for name in a)


VARIANTS: dict[str, dict] = {
    "plain": {"dual_clip": None},
    "dual_clip": {"dual_clip": 1.1, "clip": 0.05},
    "value_clip": {"value_clip": 0.02, "value_loss": "mse"},
    "huber": {"huber_delta": 0.3},
    "popart": {"popart": True, "popart_beta": 0.9, "value_clip": 0.1},
    "entropy": {"entropy_coefficient": 0.5, "entropy_schedule": "linear", "entropy_schedule_steps": 4},
    "optimizer": {"gradient_clip": 0.1, "weight_decay": 0.1, "learning_rate_anneal_steps": 5, "adam_eps": 1e-3},
    "raw_advantages": {"normalise_advantages": False, "gamma": 0.9, "gae_lambda": 0.5},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_updates_equal_a_plain_loop(variant: str) -> None:
    settings = {"epochs": 3, "minibatch_size": 10_000, **VARIANTS[variant]}
    algorithm = make(MASKED, **settings)
    start = algorithm.policy.read_parameters()
    reference = ReferencePPO(algorithm.config, NVEC, start)
    for seed in range(2):
        batch = batch_for(algorithm, MASKED, seed, end_rate=0.2)
        batch.arrays["reward"] *= 3
        metrics = algorithm.update(copied(batch))
        assert metrics["gradient_steps"] == 3
        reference.update(batch)
    parameters = algorithm.policy.read_parameters()
    if algorithm.config.popart:
        np.testing.assert_allclose(parameters.pop("popart.statistics"), reference.statistics, rtol=1e-6)
    assert_close(parameters, {n: p.detach().numpy() for n, p in reference.parameters.items()}, 2e-5)
    assert differ(parameters, {n: start[n] for n in parameters})


def test_each_setting_of_the_loop_matters() -> None:
    """Otherwise the comparison would not see that a setting is ignored."""
    results = []
    for variant in VARIANTS.values():
        algorithm = make(MASKED, **{"epochs": 3, "minibatch_size": 10_000, **variant})
        for seed in range(2):
            batch = batch_for(make(MASKED), MASKED, seed, end_rate=0.2)
            batch.arrays["reward"] *= 3
            algorithm.update(batch)
        results.append(algorithm.policy.read_parameters())
        results[-1].pop("popart.statistics", None)
    for i, a in enumerate(results):
        for b in results[:i]:
            assert differ(a, b)


def test_minibatches_are_gradient_steps_over_every_usable_step_once() -> None:
    algorithm = make(PLAIN, epochs=2, minibatch_size=8, entropy_schedule="linear", entropy_schedule_steps=1000)
    batch = batch_for(algorithm, PLAIN, steps=12, columns=6)
    usable = len(ReferencePPO(algorithm.config, (3,), {})._usable(batch))
    metrics = algorithm.update(batch)
    assert metrics["gradient_samples"] == 2 * usable
    assert metrics["gradient_steps"] == 2 * round(usable / 8) == algorithm.gradient_steps
    assert metrics["valid_fraction"] == batch.sample_part("valid").mean()


def spoil(batch: SampleBatch, name: str, value: float) -> None:
    t, b = np.argwhere(batch.sample_part("valid"))[5]
    batch.arrays[name][t, b] = value


@pytest.mark.parametrize("network", [ONE_LAYER, LSTM], ids=["mlp", "lstm"])
@pytest.mark.parametrize("value_clip", [None, 0.2])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reward", np.nan),
        ("reward", np.inf),
        ("observation.x", np.nan),
        ("observation.x", np.inf),
        ("log_prob", np.nan),
        ("log_prob", -np.inf),
        ("value", np.nan),
        ("value", -np.inf),
        ("log_prob", -100.0),
    ],
)
def test_what_is_not_finite_changes_nothing_and_is_counted(
    network: NetworkConfig, value_clip: float | None, name: str, value: float
) -> None:
    algorithm = make(PLAIN, network=network, value_clip=value_clip, epochs=2, minibatch_size=10_000)
    algorithm.update(batch_for(algorithm, PLAIN, 0))  # the optimizer has a state
    before = algorithm.state_dict()
    bad = batch_for(algorithm, PLAIN, 1)
    spoil(bad, name, value)
    metrics = algorithm.update(bad)
    assert metrics["skipped"] == 2
    assert metrics["gradient_steps"] == metrics["gradient_samples"] == 0
    assert all(np.isfinite(number) for number in metrics.values())
    assert algorithm.skip_reason.startswith("not finite: ")
    after = algorithm.state_dict()
    assert_same({**after, "updates": 0}, {**before, "updates": 0})
    assert algorithm.update(batch_for(algorithm, PLAIN, 2))["skipped"] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad: float) -> None:
    algorithm = make(PLAIN, minibatch_size=10_000)
    algorithm.update(batch_for(algorithm, PLAIN, 0))
    before = algorithm.state_dict()
    hook = algorithm.policy.network.value_head.weight.register_hook(lambda g: torch.full_like(g, bad))
    metrics = algorithm.update(batch_for(algorithm, PLAIN, 1))
    hook.remove()
    assert (metrics["skipped"], metrics["gradient_steps"]) == (1, 0)
    assert algorithm.skip_reason == "not finite: grad_norm"
    assert all(np.isfinite(number) for number in metrics.values())
    assert_same({**algorithm.state_dict(), "updates": 0}, {**before, "updates": 0})


def test_only_the_minibatch_with_the_bad_step_is_skipped() -> None:
    algorithm = make(PLAIN, minibatch_size=10, gae_lambda=0.0)
    batch = batch_for(algorithm, PLAIN, end_rate=0.0)
    batch.arrays["reward"][4, 2] = np.nan
    metrics = algorithm.update(batch)
    assert (metrics["skipped"], metrics["gradient_steps"], metrics["gradient_samples"]) == (1, 3, 30)


@pytest.mark.parametrize("vtrace", [False, True])
def test_a_bad_reward_stays_within_its_episode(vtrace: bool) -> None:
    algorithm = make(PLAIN, minibatch_size=1, normalise_advantages=False, vtrace=vtrace)
    batch = batch_for(algorithm, PLAIN, columns=1, resets=[0, 4])  # steps 0 to 2, a final observation, steps 4 to 9
    batch.arrays["reward"][5, 0] = np.nan
    metrics = algorithm.update(batch)
    assert (metrics["skipped"], metrics["gradient_steps"]) == (2, 7)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("burn_in", [0, 3])
@pytest.mark.parametrize("resets", [[], [7], [0, 5, 9]], ids=["no_reset", "one", "three"])
def test_training_sees_what_acting_saw(kind: str, separate: bool, burn_in: int, resets: list[int]) -> None:
    network = replace(LSTM, recurrent=kind, separate_critic=separate)
    algorithm = make(PLAIN, network=network, chunk_steps=5, minibatch_size=10)
    batch = batch_for(algorithm, PLAIN, columns=1, burn_in=burn_in, resets=resets)
    for name in ("log_prob", "value"):
        np.testing.assert_allclose(replay(algorithm, batch)[name], batch.arrays[name], atol=1e-5)
    metrics = algorithm.update(batch)
    assert metrics["approx_kl"] < 1e-10
    assert metrics["clip_fraction"] == 0
    # With other parameters the burn-in brings the state up to date: as if acting had begun where it begins.
    changed = replay(algorithm, batch)
    for name in ("log_prob", "value"):
        np.testing.assert_allclose(changed[name], replay_by_acting(algorithm, batch)[name], atol=1e-5)
    assert np.abs(changed["value"] - batch.arrays["value"]).max() > 1e-3


def replay(algorithm: PPO, batch: SampleBatch) -> Arrays:
    """Log-probabilities and values [L, B] by the training network, chunk by chunk; stored ones outside of chunks."""
    from srl_core.algorithms.common.batches import Steps, chunk_minibatches

    spec, steps = batch.spec, Steps(batch, torch.device("cpu"))
    result = {name: batch.arrays[name].copy() for name in ("log_prob", "value")}
    everywhere = np.ones(result["value"].shape, bool)
    chunks = chunk_minibatches(
        everywhere, spec.burn_in_steps, spec.sample_steps, algorithm.config.chunk_steps, 10, np.random.default_rng(0)
    )
    actions = torch.from_numpy(batch.arrays["action"].reshape(result["value"].size, -1))
    for index, _ in chunks:
        with torch.no_grad():
            parameters, value, mask = algorithm.policy.forward(steps, index, spec.burn_in_steps)
            log_prob, _ = algorithm.policy.distribution.evaluate(parameters, actions[index.ravel()], mask)
        result["value"].ravel()[index.ravel()] = value.numpy()
        result["log_prob"].ravel()[index.ravel()] = log_prob.numpy()
    return result


def replay_by_acting(algorithm: PPO, batch: SampleBatch) -> Arrays:
    """The same by calling `act` step after step, from the state stored `burn_in` steps before each chunk."""
    spec, a = batch.spec, batch.arrays
    result = {name: a[name].copy() for name in ("log_prob", "value")}
    chunk = algorithm.config.chunk_steps
    for begin in range(spec.burn_in_steps, spec.burn_in_steps + spec.sample_steps, chunk):
        state = {n: a[f"state.{n}"][begin - spec.burn_in_steps] for n in algorithm.policy.spec.state}
        for t in range(begin - spec.burn_in_steps, begin + chunk):
            request = {"observation.x": a["observation.x"][t], "first": a["first"][t]}
            request |= {f"state.{n}": array for n, array in state.items()}
            tries = {n: np.repeat(array, 200, axis=0) for n, array in request.items()}  # one takes the stored action
            noise = np.linspace(0, 1, 200, endpoint=False, dtype=np.float32)[:, None]
            reply = algorithm.policy.act({**tries, "noise": noise})
            if t >= begin:
                same = np.flatnonzero(reply["action"][:, 0] == a["action"][t, 0, 0])[0]
                result["log_prob"][t, 0], result["value"][t, 0] = reply["log_prob"][same], reply["value"][same]
            state = {n: reply[f"state.{n}"][:1] for n in state}
    return result


@pytest.mark.parametrize("network", [ONE_LAYER, LSTM], ids=["mlp", "lstm"])
@pytest.mark.parametrize("popart", [False, True])
def test_inactive_agents_neither_add_to_the_loss_nor_dilute_it(network: NetworkConfig, popart: bool) -> None:
    settings = {"network": network, "minibatch_size": 10_000, "popart": popart}
    alone, crowd = make(PLAIN, **settings), make(PLAIN, **settings)
    batch = batch_for(alone, PLAIN, columns=4, end_rate=0.0)
    random = np.random.default_rng(3)
    wide = batch.spec.empty(40)
    places = random.permutation(40)[:4]
    for name, array in wide.items():
        if array.dtype == np.float32:
            array[...] = random.normal(0, 100, array.shape)
        array[:, places] = batch.arrays[name]
    wide["valid"][:, np.setdiff1d(np.arange(40), places)] = False
    one, two = alone.update(batch), crowd.update(SampleBatch(wide, batch.spec))
    assert (one["valid_fraction"], two["valid_fraction"]) == (1.0, 0.1)
    for name in ("policy_loss", "value_loss", "entropy", "grad_norm", "explained_variance", "gradient_samples"):
        assert two[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name
    assert_close(alone.policy.read_parameters(), crowd.policy.read_parameters())


@pytest.mark.parametrize(("end", "target"), [("truncated", 1 + 0.9 * 5.0), ("terminated", 1.0)])
def test_truncation_bootstraps_and_termination_does_not(end: str, target: float) -> None:
    """One step that pays 1, an end, a final observation worth 5, and a next episode worth 1000."""
    environment = vector_environment(ActionSpec((2,)), size=3)
    algorithm = make(environment, gamma=0.9, epochs=150, entropy_coefficient=0.0, minibatch_size=100)
    batch = batch_for(algorithm, environment, steps=2, columns=8, resets=[])
    a = batch.arrays
    a["observation.x"][...] = np.eye(3, dtype=np.float32)[:, None]
    a["value"][...] = np.array([0.0, 5.0, 1000.0], np.float32)[:, None]
    a["reward"][...] = 1.0
    a[end][0], a["valid"][1], a["first"][[0, 2]] = True, False, True
    metrics = algorithm.update(batch)
    assert metrics["gradient_samples"] == 150 * 8
    request = {name: a[name][0] for name in ("observation.x", "first")}
    value = algorithm.policy.act({**request, "noise": np.zeros((8, 1), np.float32)})["value"]
    np.testing.assert_allclose(value, target, atol=0.05)


@pytest.mark.parametrize("network", [ONE_LAYER, LSTM], ids=["mlp", "lstm"])
@pytest.mark.parametrize("popart", [False, True])
def test_values_are_computed_anew_when_a_batch_is_used_again(network: NetworkConfig, popart: bool) -> None:
    def parameters(uses: int, shift: float, **settings) -> Arrays:
        algorithm = make(PLAIN, network=network, popart=popart, minibatch_size=10_000, **settings)
        batch = batch_for(algorithm, PLAIN)
        batch.arrays["value"] += np.float32(shift) * np.arange(4, dtype=np.float32)
        algorithm.update(again(batch) if uses else batch)
        return algorithm.policy.read_parameters()

    assert_close(parameters(1, 0.0), parameters(0, 0.0))  # the policy is that which acted
    assert_close(parameters(1, 3.0), parameters(0, 0.0))
    assert differ(parameters(0, 3.0), parameters(0, 0.0))
    stored = {"recompute_advantages_on_reuse": False}
    assert_close(parameters(1, 3.0, **stored), parameters(0, 3.0))


@pytest.mark.parametrize("network", [ONE_LAYER, LSTM], ids=["mlp", "lstm"])
def test_vtrace_at_unchanged_weights_is_gae(network: NetworkConfig) -> None:
    plain, corrected = (make(PLAIN, network=network, minibatch_size=10_000, vtrace=v) for v in (False, True))
    for seed in range(2):
        batch = batch_for(plain, PLAIN, seed, end_rate=0.2)
        plain.update(copied(batch))
        corrected.update(batch)
        assert_close(plain.policy.read_parameters(), corrected.policy.read_parameters(), 1e-4)
    stale = batch_for(make(PLAIN, network=network, seed=9), PLAIN, 5)
    plain.update(copied(stale))
    corrected.update(stale)
    assert differ(plain.policy.read_parameters(), corrected.policy.read_parameters())


@pytest.mark.parametrize("network", [ONE_LAYER, LSTM], ids=["mlp", "lstm"])
def test_a_loaded_state_goes_on_bit_for_bit(network: NetworkConfig) -> None:
    settings = {
        "network": network,
        "popart": True,
        "epochs": 2,
        "minibatch_size": 10,
        "learning_rate_anneal_steps": 50,
        "entropy_schedule": "linear",
        "entropy_schedule_steps": 30,
    }
    first = make(MASKED, **settings)
    batches = [batch_for(first, MASKED, seed) for seed in range(3)]
    first.update(copied(batches[0]))
    state = first.state_dict()
    kept = {**state, "parameters": {n: a.copy() for n, a in state["parameters"].items()}}
    metrics = [first.update(copied(batch)) for batch in batches[1:]]
    assert_same(state["parameters"], kept["parameters"])  # a copy: later updates do not reach it
    second = make(MASKED, seed=8, **settings)
    second.update(copied(batches[2]))  # what it had before does not matter
    second.load_state_dict(state)
    assert_same(second.state_dict(), state)
    assert [second.update(copied(batch)) for batch in batches[1:]] == metrics
    assert_same(second.state_dict(), first.state_dict())


def test_a_batch_without_a_usable_step_changes_nothing() -> None:
    algorithm = make(PLAIN)
    batch = batch_for(algorithm, PLAIN)
    batch.arrays["valid"][:] = False
    before = algorithm.state_dict()
    metrics = algorithm.update(batch)
    assert metrics["gradient_steps"] == metrics["skipped"] == metrics["valid_fraction"] == 0
    assert all(np.isfinite(number) for number in metrics.values())
    assert_same({**algorithm.state_dict(), "updates": 0}, {**before, "updates": 0})
