"""Schemas and the layout of arrays in a block of bytes."""

import numpy as np
import pytest

from srl_core.base import arrays as a

SCHEMA = {
    "observation.frame": a.ArraySpec((3, 5), "uint8"),
    "value": a.ArraySpec((), "float32"),
    "mask": a.ArraySpec((7,), "bool"),
    "version": a.ArraySpec((), "int64"),
}


def random_arrays(leading: tuple[int, ...], seed: int = 0) -> a.Arrays:
    rng = np.random.default_rng(seed)
    return {n: (rng.random(leading + s.shape) * 200).astype(s.dtype) for n, s in SCHEMA.items()}


def test_nbytes_is_that_of_numpy() -> None:
    for leading in [(), (4,), (2, 3)]:
        for name, array in random_arrays(leading).items():
            assert SCHEMA[name].nbytes(leading) == array.nbytes


def test_schema_of_drops_leading_axes() -> None:
    assert a.schema_of(random_arrays((2, 3)), 2) == SCHEMA


def test_zeros_fit_the_schema() -> None:
    made = a.zeros(SCHEMA, (2, 3))
    a.check(made, SCHEMA, (2, 3))
    assert not any(array.any() for array in made.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("mask"), "missing \\['mask'\\]"),
        (lambda d: d.update(more=np.zeros(2)), "unexpected \\['more'\\]"),
        (lambda d: d.update(value=np.zeros(2, np.float64)), "value is float64\\[2\\], expected float32\\[2\\]"),
        (lambda d: d.update(mask=np.zeros((2, 8), bool)), "mask is bool\\[2, 8\\], expected bool\\[2, 7\\]"),
    ],
)
def test_check_names_what_differs(change, message) -> None:
    wrong = random_arrays((2,))
    change(wrong)
    with pytest.raises(ValueError, match=message):
        a.check(wrong, SCHEMA, (2,))


def test_json_round_trip_keeps_order() -> None:
    again = a.schema_from_json(a.schema_to_json(SCHEMA))
    assert again == SCHEMA
    assert list(again) == list(SCHEMA)


@pytest.mark.parametrize("dtype", ["object", "O", "U5", "S3", "complex64", "datetime64[s]"])
def test_types_that_are_no_numbers_are_refused(dtype) -> None:
    with pytest.raises(ValueError, match="x: dtype"):
        a.schema_from_json({"x": [dtype, []]})


@pytest.mark.parametrize("leading", [(), (4,), {name: (2, i) for i, name in enumerate(SCHEMA)}])
def test_views_are_disjoint_aligned_and_inside_the_block(leading) -> None:
    size, offset = a.block_nbytes(SCHEMA, leading), 128
    block = np.zeros(size + offset + 64, np.uint8)
    views = a.block_views(memoryview(block), offset, SCHEMA, leading)
    start = block.ctypes.data
    covered = np.zeros(len(block), int)
    for name, view in views.items():
        place = view.ctypes.data - start
        assert (place - offset) % a.ALIGNMENT == 0
        covered[place : place + view.nbytes] += 1
        lead = leading if isinstance(leading, tuple) else leading[name]
        assert view.shape == lead + SCHEMA[name].shape
        assert view.dtype == SCHEMA[name].dtype
    assert covered.max() <= 1
    assert not covered[:offset].any()
    assert not covered[offset + size :].any()


def test_two_views_of_one_block_share_it() -> None:
    block = bytearray(a.block_nbytes(SCHEMA, (4,)))
    written, expected = a.block_views(memoryview(block), 0, SCHEMA, (4,)), random_arrays((4,))
    for name, view in written.items():
        view[...] = expected[name]
    for name, view in a.block_views(memoryview(block), 0, SCHEMA, (4,)).items():
        np.testing.assert_array_equal(view, expected[name])


def test_prefixes() -> None:
    prefixed = a.with_prefix("observation", {"x": SCHEMA["value"], "y.z": SCHEMA["mask"]})
    assert list(prefixed) == ["observation.x", "observation.y.z"]
    arrays = {"observation.x": np.zeros(1), "observation.y.z": np.ones(1), "observations": np.ones(1)}
    assert list(a.take_prefix(arrays, "observation")) == ["x", "y.z"]
