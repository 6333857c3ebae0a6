import numpy as np
import pytest
import torch

from srl_core.algorithms.common.batches import ROUND_TO, Steps, chunk_minibatches, frame_ages, step_minibatches
from srl_core.api import ActionSpec, EnvironmentSpec, PolicySpec, SampleBatch, SampleSpec
from srl_core.base.arrays import ArraySpec
from srl_core.networks.images import ImageBuffer


def stacked_batch(stack: int, seed: int, length: int = 12, columns: int = 5, size: int = 6):
    """A batch of single frames, and the stacks [L, B, k, H, W] that its steps stand for, by a direct loop."""
    random = np.random.default_rng(seed)
    observation = {"frame": ArraySpec((stack, size, size), "uint8")}
    policy = PolicySpec(observation, {}, ArraySpec((1,), "int64"))
    spec = SampleSpec.make(policy, sample_steps=length - 1, frame_stacks={"frame": stack})
    arrays = spec.empty(columns)
    frames = arrays["observation.frame"]
    frames[:] = random.integers(1, 256, frames.shape)
    arrays["first"][:] = random.random((length, columns)) < 0.3
    stacks = np.zeros((length, columns, stack, size, size), np.uint8)
    for t in range(length):
        for b in range(columns):
            begin = max((s for s in range(t + 1) if arrays["first"][s, b]), default=-length)
            for k in range(stack):
                time = t - (stack - 1) + k
                if time >= begin:
                    stacks[t, b, k] = frames[t + k, b]
    return SampleBatch(arrays, spec), stacks


@pytest.mark.parametrize("stack", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_restacked_frames_equal_a_direct_loop(stack, dtype):
    batch, stacks = stacked_batch(stack, stack)
    images = ImageBuffer((stack, 6, 6), dtype, torch.device("cpu"))
    steps = Steps(batch, torch.device("cpu"), "frame", images)
    index = np.random.default_rng(0).permutation(60)
    for part in (index, index[:7], np.resize(index, 300)):
        x = steps.observation(part)["frame"]
        assert x.dtype == dtype
        assert x.is_contiguous(memory_format=torch.channels_last)
        expected = stacks.reshape(60, stack, 6, 6)[part]
        np.testing.assert_array_equal(x.float().numpy(), expected)  # bfloat16 holds 0..255 exactly


def test_stacks_that_no_encoder_convolves_and_images_that_are_no_stack():
    batch, stacks = stacked_batch(3, 0)
    x = Steps(batch, torch.device("cpu")).observation(np.arange(60))["frame"]
    np.testing.assert_array_equal(x.numpy(), stacks.reshape(60, 3, 6, 6))

    environment = EnvironmentSpec(1, ("a",), {"rgb": ArraySpec((3, 6, 7), "uint8")}, ActionSpec((2,)))
    policy = PolicySpec(environment.observation, {}, ArraySpec((1,), "int64"))
    spec = SampleSpec.make(policy, sample_steps=4)
    arrays = spec.empty(2)
    arrays["observation.rgb"][:] = np.random.default_rng(0).integers(0, 256, arrays["observation.rgb"].shape)
    images = ImageBuffer((3, 6, 7), torch.float32, torch.device("cpu"))
    x = Steps(SampleBatch(arrays, spec), torch.device("cpu"), "rgb", images).observation(np.arange(10))["rgb"]
    np.testing.assert_array_equal(x.numpy(), arrays["observation.rgb"].reshape(10, 3, 6, 7))


def test_frame_ages():
    first = np.array([[0, 1], [0, 0], [1, 0], [0, 0], [0, 1], [0, 0]], bool)
    np.testing.assert_array_equal(frame_ages(first, 3), [[2, 0], [2, 1], [0, 2], [1, 2], [2, 0], [2, 1]])


@pytest.mark.parametrize(
    ("usable_rate", "size", "count"), [(1.0, 64, 10), (0.9, 64, 9), (0.1, 64, 1), (1.0, 10_000, 1)]
)
def test_minibatches_hold_every_usable_step_once(usable_rate, size, count):
    usable = np.zeros(640, bool)
    usable[: int(640 * usable_rate)] = True
    usable = np.random.default_rng(0).permutation(usable).reshape(64, 10)
    minibatches = step_minibatches(usable, size, np.random.default_rng(1))
    assert len(minibatches) == count
    steps = np.concatenate([index[weight] for index, weight in minibatches])
    np.testing.assert_array_equal(np.sort(steps), np.flatnonzero(usable))
    lengths = {len(index) for index, _ in minibatches}
    assert len(lengths) == 1
    assert lengths.pop() % ROUND_TO == 0
    weights = [weight.sum() for _, weight in minibatches]
    assert max(weights) - min(weights) <= 1
    assert usable.ravel()[np.concatenate([index for index, _ in minibatches])].all()


def test_no_usable_step_gives_no_minibatch():
    usable = np.zeros((8, 2), bool)
    assert step_minibatches(usable, 4, np.random.default_rng(0)) == []
    assert chunk_minibatches(usable, 0, 8, 4, 8, np.random.default_rng(0)) == []


def test_chunks_are_consecutive_steps_of_one_column():
    columns, burn_in, chunk, steps = 3, 2, 4, 12
    usable = np.random.default_rng(0).random((burn_in + steps + 1, columns)) < 0.5
    usable[burn_in : burn_in + chunk, 1] = False
    minibatches = chunk_minibatches(usable, burn_in, steps, chunk, 2 * chunk, np.random.default_rng(1))
    heads = []
    for index, weight in minibatches:
        assert (np.diff(index, axis=0) == columns).all()
        np.testing.assert_array_equal(weight, usable.ravel()[index])
        heads += index[0].tolist()
    expected = [t * columns + b for t in range(burn_in, burn_in + steps, chunk) for b in range(columns)]
    expected.remove(burn_in * columns + 1)
    assert sorted(heads) == expected
