"""Small streams that the tests share."""

from __future__ import annotations

import numpy as np

from srl_core.api import PolicySpec, SampleSpec
from srl_core.base.arrays import Arrays, ArraySpec
from srl_core.base.stop import StopFlag
from srl_core.streams import InferenceLink, SampleLink, StreamOptions, make_inference_link, make_sample_link

BACKENDS = ("inline", "shared_memory", "socket")
CONCURRENT = BACKENDS[1:]
"""Back-ends whose ends may live in different threads or processes."""

PATIENCE = 20.0
"""Seconds after which a message that must come is taken for lost."""

POLICY = PolicySpec(
    observation={"frame": ArraySpec((3, 5), "uint8"), "speed": ArraySpec((), "float64")},
    state={"hidden": ArraySpec((7,), "float32")},
    action=ArraySpec((2,), "int64"),
)
SAMPLES = SampleSpec.make(POLICY, sample_steps=4, burn_in_steps=1)
STACKED = SampleSpec.make(
    PolicySpec({"frame": ArraySpec((4, 6, 6), "uint8")}, {}, ArraySpec((1,), "float32")),
    sample_steps=3,
    frame_stacks={"frame": 4},
)


def random_arrays(empty: Arrays, rng: np.random.Generator) -> Arrays:
    """Arrays like `empty` of any bits at all, NaNs included."""
    filled = {}
    for name, array in empty.items():
        if array.dtype == bool:
            filled[name] = rng.integers(0, 2, array.shape).astype(bool)
        else:
            data = rng.integers(0, 256, array.nbytes, np.uint8)
            filled[name] = data.view(array.dtype).reshape(array.shape)
    return filled


def numbered(number: int, columns: int, spec: SampleSpec = SAMPLES) -> Arrays:
    """A sample that carries `number`, with other contents that follow from it."""
    sample = random_arrays(spec.empty(columns), np.random.default_rng(number))
    sample["version"][...] = number
    return sample


def number_of(sample: Arrays) -> int:
    return int(sample["version"][0, 0])


def request(number: int, rows: int) -> Arrays:
    """A request that carries `number`."""
    empty = {name: np.zeros((rows, *s.shape), s.dtype) for name, s in POLICY.request.items()}
    arrays = random_arrays(empty, np.random.default_rng(number))
    arrays["observation.speed"][...] = number + np.arange(rows) / 100
    return arrays


def answer(asked: Arrays) -> Arrays:
    """The reply that a test's policy gives: each row follows from the same row of the request."""
    speed = asked["observation.speed"]
    return {
        "action": np.stack([speed.astype(np.int64), asked["observation.frame"][:, 1, 1].astype(np.int64)], axis=1),
        "log_prob": -speed.astype(np.float32),
        "value": speed.astype(np.float32),
        "state.hidden": asked["state.hidden"].copy(),
        "version": np.full(len(speed), 3),
    }


def same_bytes(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(
        a[k].shape == b[k].shape and a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a
    )


def sample_link(backend: str, stop: StopFlag, spec: SampleSpec = SAMPLES, *, lz4: bool = False, **size) -> SampleLink:
    settings = {"producers": 1, "consumers": 1, "columns": 3, "slots": 4, "when_full": "block", **size}
    return make_sample_link(backend, spec, stop=stop, options=StreamOptions(lz4=lz4), **settings)


def inference_link(backend: str, stop: StopFlag, **size) -> InferenceLink:
    settings = {"clients": 1, "servers": 1, "members": 1, "rows": 4, **size}
    return make_inference_link(backend, POLICY, stop=stop, options=StreamOptions(), **settings)
