import pytest
import torch
import torch.nn.functional as F

from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import UserError
from srl_core.networks.actor_critic import ActorCritic
from srl_core.networks.cnn import ImageEncoder
from srl_core.networks.config import NetworkConfig
from srl_core.networks.initialisation import HIDDEN_GAIN

FRAME = {"frame": ArraySpec((4, 84, 84), "uint8")}


@pytest.mark.parametrize("architecture", ["nature", "atari_small"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_acting_and_training_forms_of_an_encoder_agree_with_the_plain_network(architecture, dtype):
    torch.manual_seed(0)
    encoder, acting = (ImageEncoder((4, 84, 84), architecture, dtype) for _ in range(2))
    acting.prepare_for_acting(encoder)
    pixels = torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8)
    with torch.no_grad():
        x = pixels.float() / 255
        for layer in encoder._layers():
            x = F.relu(F.conv2d(x, layer.weight, layer.bias, layer.stride))
        expected = F.relu(encoder.dense(x.permute(0, 2, 3, 1).flatten(1)))
        train = encoder(pixels.to(dtype).contiguous(memory_format=torch.channels_last))
        act = acting(pixels.to(dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 0.03 * expected.abs().max().item()
    torch.testing.assert_close(train, expected, rtol=1e-5, atol=tolerance)
    torch.testing.assert_close(act, expected, rtol=1e-5, atol=tolerance)
    assert train.dtype == torch.float32


@pytest.mark.parametrize(
    ("encoder", "shapes"),
    [
        ("atari_small", [(16, 4, 8, 8), (32, 16, 4, 4), (256, 2592)]),
        ("nature", [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]),
    ],
)
def test_architectures(encoder, shapes):
    network = ActorCritic(FRAME, 6, NetworkConfig(encoder=encoder), torch.float32)
    weights = [tuple(p.shape) for name, p in network.actor.named_parameters() if name.endswith("weight")]
    assert weights == shapes
    assert ActorCritic(FRAME, 6, NetworkConfig(), torch.float32).actor.features == 512  # auto is nature


def test_initialisation_is_orthogonal_with_small_policy_outputs():
    network = ActorCritic({"x": ArraySpec((64,), "float32")}, 5, NetworkConfig(hidden=(64, 32)), torch.float32)
    first = dict(network.named_parameters())["actor.encoder.layers.0.weight"]
    torch.testing.assert_close(first @ first.T, HIDDEN_GAIN**2 * torch.eye(64), atol=1e-4, rtol=0)
    head = network.policy_head.weight
    torch.testing.assert_close(head @ head.T, 1e-4 * torch.eye(5), atol=1e-7, rtol=0)
    assert network.value_head.weight.norm().item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("recurrent", ["none", "lstm", "gru"])
@pytest.mark.parametrize("separate", [False, True])
def test_images_and_vectors_together(recurrent, separate):
    observation = {**FRAME, "x": ArraySpec((3, 2), "float32"), ACTION_MASK: ArraySpec((4,), "bool")}
    config = NetworkConfig(encoder="atari_small", recurrent=recurrent, recurrent_size=8, separate_critic=separate)
    network = ActorCritic(observation, 4, config, torch.float32)
    expected = {"none": 0, "gru": 1, "lstm": 2}[recurrent] * (2 if separate else 1)
    state = {name: torch.zeros(2, *spec.shape) for name, spec in network.state_schema().items()}
    assert len(state) == expected
    frames = torch.randint(0, 256, (6, 4, 84, 84)).float().contiguous(memory_format=torch.channels_last)
    inputs = {"frame": frames, "x": torch.randn(6, 3, 2), ACTION_MASK: torch.ones(6, 4, dtype=torch.bool)}
    parameters, value, after = network(inputs, state, torch.zeros(3, 2, dtype=torch.bool))
    assert parameters.shape == (6, 4)
    assert value.shape == (6,)
    assert after.keys() == state.keys()
    (parameters.sum() + value.sum()).backward()
    assert all(p.grad is not None for p in network.parameters())


def test_bad_architectures_are_refused_in_one_sentence():
    vector = {"x": ArraySpec((3,), "float32")}
    with pytest.raises(UserError, match=r"network\.encoder is 'nature'"):
        ActorCritic(vector, 2, NetworkConfig(encoder="nature"), torch.float32)
    with pytest.raises(UserError, match="too small"):
        ActorCritic({"i": ArraySpec((1, 20, 20), "uint8")}, 2, NetworkConfig(encoder="nature"), torch.float32)
    with pytest.raises(UserError, match=r"network\.recurrent_size is 0"):
        NetworkConfig(recurrent_size=0).validate()
    with pytest.raises(UserError, match=r"network\.hidden"):
        NetworkConfig(hidden=(64, 0)).validate()
