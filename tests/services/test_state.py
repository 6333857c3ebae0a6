"""Nested state to JSON and arrays and back."""

import json
import math

import numpy as np
import pytest

from srl_core.services.state import decode, encode


def again(state):
    tree, arrays = encode(state)
    return decode(json.loads(json.dumps(tree, allow_nan=False)), arrays)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 2**53, 2**53 + 1, -(2**63), 2**64 - 1, 2**128 + 1, -(2**200), 0.1, -0.0, 5e-324,
        1.7976931348623157e308, math.inf, -math.inf, "", "é\n\0", [], {}, [[], {}], {"a": {"b": [1, {"c": None}]}},
        {0: 1, 1: {"x": 2}}, {"$array": "x"}, {"$int": 5}, {"": 1}, {"a": 1, 0: 2}, {"$x": 1, "y": 2},
    ],
)  # fmt: skip
def test_values_come_back_as_they_were(value) -> None:
    found = again(value)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


def test_nan_comes_back() -> None:
    assert math.isnan(again({"x": [math.nan]})["x"][0])


def test_integers_beyond_53_bits_are_texts_in_the_file() -> None:
    assert encode(2**100)[0] == {"$int": str(2**100)}
    assert encode(2**53)[0] == 2**53


def test_tuples_and_numpy_scalars_become_lists_and_numbers() -> None:
    assert again((1, (2,))) == [1, [2]]
    found = again([np.float32(0.5), np.int64(3), np.bool_(True), np.uint64(2**64 - 1), np.str_("x")])
    assert found == [0.5, 3, True, 2**64 - 1, "x"]
    assert [type(v) for v in found] == [float, int, bool, int, str]


def test_arrays_are_named_by_their_place_and_come_back_as_copies() -> None:
    array = np.arange(3)
    tree, arrays = encode({"policy": {"layers": [array, array + 1]}})
    assert list(arrays) == ["policy/layers/0", "policy/layers/1"]
    found = decode(tree, arrays)["policy"]["layers"][0]
    found[0] = 9
    assert array[0] == 0


def test_places_that_read_the_same_stay_apart() -> None:
    state = {
        "a/b": np.array(1),
        "a": {"b": np.array(2)},
        "__metadata__": np.array(3),
        "x": {0: np.array(4), "0": np.array(5)},
    }
    found = again(state)
    assert (found["a/b"], found["a"]["b"], found["__metadata__"]) == (1, 2, 3)
    assert (found["x"][0], found["x"]["0"]) == (4, 5)
    assert "__metadata__" not in encode(state)[1]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [object()]}, "state a/0 is a builtins.object; only arrays"),
        ({"a": {"b": b"x"}}, "state a/b is a builtins.bytes"),
        ({"a": {(1, 2): 3}}, r"state a has the key \(1, 2\); keys must be"),
        ({True: 3}, "has the key True"),
        ({"a": np.array(["x"])}, "state a is an array of <U1"),
        ({"a": np.array([None])}, "state a is an array of object"),
        (1j, "state itself is a builtins.complex"),
    ],
)
def test_what_cannot_be_saved_is_named(state, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        encode(state)


@pytest.mark.parametrize("tree", [{"$array": "x"}, {"$float": "1"}, {"$new": 1}, {"$int": "x"}])
def test_what_was_never_encoded_is_refused(tree) -> None:
    with pytest.raises(ValueError, match=r"decoded|invalid literal"):
        decode(tree, {})


@pytest.mark.parametrize(
    "tree",
    [{"$array": []}, {"$array": {}}, {"$int": None}, {"$int": 1.5}, {"$int": "x"}, {"$dict": 5}, {"$dict": [1]},
     {"$dict": [[[], 1]]}, {"$dict": [[1, 2, 3]]}, {"$float": "1"}, {"$float": []}, {"$other": 1}],
)  # fmt: skip
def test_what_nobody_encoded_is_a_value_error(tree: dict) -> None:
    with pytest.raises(ValueError, match=r"decoded|invalid literal"):
        decode({"inside": [tree]}, {})
