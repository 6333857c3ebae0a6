from __future__ import annotations

import pytest

from envs.classic import CartPoleConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.base.errors import UserError
from srl_core.cli.overrides import apply_overrides, describe_type, help_text, leaves
from srl_core.config import Experiment, RouteConfig

EXPERIMENT = Experiment(
    environment=CartPoleConfig(),
    algorithm=PPOConfig(),
    routes=(RouteConfig("red.*", "attack"), RouteConfig()),
)


def value_of(config, path: str):
    for name in path.split("."):
        config = config[int(name)] if name.isdigit() else getattr(config, name)
    return config


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["actor.count=2"], "actor.count", 2),
        (["--actor.count", "2"], "actor.count", 2),
        (["--actor.count=2"], "actor.count", 2),
        (["--actor.envs-per-member", "7"], "actor.envs_per_member", 7),
        (["budget.env_steps=1e6"], "budget.env_steps", 1_000_000),
        (["budget.target_return=-5.5"], "budget.target_return", -5.5),
        (["--budget.target_return", "-5"], "budget.target_return", -5.0),
        (["budget.target_return=inf"], "budget.target_return", float("inf")),
        (["trainer.prefetch=false"], "trainer.prefetch", False),
        (["--trainer.prefetch", "False"], "trainer.prefetch", False),
        (["algorithm.dual_clip=none"], "algorithm.dual_clip", None),
        (["algorithm.value_clip=0.3"], "algorithm.value_clip", 0.3),
        (["algorithm.network.hidden=32,16"], "algorithm.network.hidden", (32, 16)),
        (["--algorithm.network.hidden", "32", "16"], "algorithm.network.hidden", (32, 16)),
        (["streams.backend=socket"], "streams.backend", "socket"),
        (["environment.max_steps=9"], "environment.max_steps", 9),
        (["routes.0.policy=other"], "routes.0.policy", "other"),
        (["routes.0.agents=a=b"], "routes.0.agents", "a=b"),
        (["--seed", "4"], "seed", 4),
        (["actor.count=2", "actor.count=3"], "actor.count", 3),
    ],
)
def test_a_field_is_set_and_no_other(words, path, value):
    changed = apply_overrides(EXPERIMENT, words)
    assert value_of(changed, path) == value
    before, after = dict(flat(EXPERIMENT)), dict(flat(changed))
    assert {p for p in before if before[p] != after[p]} <= {path}


def flat(experiment):
    return [(path, value_of(experiment, path)) for path, _ in leaves(experiment)]


def test_both_spellings_mix():
    changed = apply_overrides(EXPERIMENT, ["--actor.count", "2", "trainer.batch_size=8", "--seed=3"])
    assert (changed.actor.count, changed.trainer.batch_size, changed.seed) == (2, 8, 3)


def test_nothing_typed_changes_nothing():
    assert apply_overrides(EXPERIMENT, []) == EXPERIMENT


def test_every_field_can_be_set_to_the_value_that_it_has():
    for path, _ in leaves(EXPERIMENT):
        value = value_of(EXPERIMENT, path)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert apply_overrides(EXPERIMENT, [f"{path}={text}"]) == EXPERIMENT, path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["actor.cuont=2"], r"unknown field actor\.cuont; did you mean actor\.count"),
        (["count=2"], r"unknown field count; did you mean .*actor\.count"),
        (["actor=2"], r"unknown field actor; it is a group of fields: actor\.count"),
        (["actor.count=two"], r"actor\.count is 'two'; it must be an integer"),
        (["actor.count=1.5"], r"actor\.count is '1\.5'; it must be an integer"),
        (["actor.count="], r"actor\.count is ''; it must be an integer"),
        (["actor.count"], r"'actor\.count' is no field; write field=value"),
        (["--actor.count"], r"actor\.count has no value"),
        (["--actor.count", "1", "2"], r"actor\.count is '1 2'; it must be an integer"),
        (["trainer.prefetch=maybe"], r"trainer\.prefetch is 'maybe'; it must be true or false"),
        (["streams.backend=mail"], r"streams\.backend is 'mail'; it must be one of shared_memory, socket"),
        (
            ["algorithm.network.hidden=4,x"],
            r"algorithm\.network\.hidden is '4,x'; it must be integers separated by commas",
        ),
        (["algorithm.value_clip=x"], r"algorithm\.value_clip is 'x'; it must be a number or none"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(words, message, capsys):
    with pytest.raises(UserError, match=message) as raised:
        apply_overrides(EXPERIMENT, words)
    assert "\n" not in str(raised.value)
    assert capsys.readouterr() == ("", "")


def test_the_help_shows_every_field_with_doc_default_and_unit():
    text = help_text(EXPERIMENT, prog="srl run x", description="What it is.")
    words = " ".join(text.split())
    assert "What it is." in text
    for path, _ in leaves(EXPERIMENT):
        assert f"--{path} " in words, path
    assert "Actor processes. (default: 3)" in words
    assert "Training time [s], resumed parts included. (default: 0.0)" in words


def test_types_in_words():
    hints = dict(leaves(EXPERIMENT))
    assert describe_type(hints["seed"]) == "an integer"
    assert describe_type(hints["algorithm.dual_clip"]) == "a number or none"
    assert describe_type(hints["algorithm.network.hidden"]) == "integers separated by commas"
