"""The lazy registry and its hints."""

import pytest

from srl_core.base.errors import UserError
from srl_core.base.registry import Registry, nearest


def test_names_are_imported_at_look_up_only() -> None:
    registry = Registry("thing", {"good": "json:loads", "bad": "no_such_module:x"})
    assert registry.names() == ["bad", "good"]
    assert registry.get("good")("[1]") == [1]
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.get("bad")


def test_unknown_names_get_the_nearest() -> None:
    registry = Registry("game", {"cartpole": "json:loads", "pong": "json:loads"})
    with pytest.raises(UserError, match="unknown game 'cartpol'; did you mean cartpole"):
        registry.get("cartpol")
    with pytest.raises(UserError, match="known: cartpole, pong"):
        registry.get("zzzzzz")


def test_a_name_can_be_given_once() -> None:
    registry = Registry("game", {"pong": "json:loads"})
    registry.add("pong", "json:loads")
    registry.add("breakout", "json:dumps")
    assert registry.get("breakout")([1]) == "[1]"
    with pytest.raises(UserError, match="'pong' is registered already as json:loads"):
        registry.add("pong", "json:dumps")


def test_the_caller_s_dict_is_not_touched() -> None:
    entries = {"pong": "json:loads"}
    Registry("game", entries).add("breakout", "json:dumps")
    assert entries == {"pong": "json:loads"}


def test_the_last_part_of_a_dotted_name_is_enough() -> None:
    assert nearest("batch_size", ["trainer.batch_size", "actor.count"]) == "did you mean trainer.batch_size?"
    assert nearest("x.keep", ["some_very_long_group.keep", "actor.count"]).startswith("did you mean some_very")
