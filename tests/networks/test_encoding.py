from __future__ import annotations

import gin
import pytest
import torch

from alfish import nest, specs
from alfish.errors import ConfigError
from alfish.networks.activations import tanh
from alfish.networks.encoding import EncodingNetwork
from alfish.specs import TensorSpec

IMAGE_FIRST = TensorSpec((4, 20, 20), torch.uint8)
IMAGE_LAST = TensorSpec((20, 20, 4), torch.uint8)
CONVOLUTIONS = ((8, 4, 2), (8, 3, 2))


@pytest.mark.parametrize("leading", [(3,), (5, 3)])
@pytest.mark.parametrize(
    ("spec", "conv"),
    [
        (TensorSpec((4,)), None),
        (TensorSpec((2, 3)), None),
        (TensorSpec(()), None),
        (TensorSpec((9,), torch.uint8), None),
        (IMAGE_FIRST, CONVOLUTIONS),
        (IMAGE_LAST, CONVOLUTIONS),
        ({"camera": IMAGE_LAST, "speed": TensorSpec((2,)), "more": (TensorSpec(()),)}, CONVOLUTIONS),
        ((TensorSpec((4,)), TensorSpec((2,))), None),
    ],
)
def test_any_observation_becomes_a_vector(spec, conv, leading: tuple[int, ...]) -> None:
    net = EncodingNetwork(spec, conv_layer_params=conv, fc_layer_params=(16, 7))
    inputs = specs.zeros(spec, *leading)
    features, state = net(inputs)
    assert features.shape == (*leading, 7)
    assert state == net.state_spec == ()
    assert net.output_size == 7
    assert net.input_tensor_spec is spec


def test_leading_dimensions_do_not_change_the_numbers() -> None:
    spec = {"camera": IMAGE_LAST, "speed": TensorSpec((2,))}
    net = EncodingNetwork(spec, conv_layer_params=CONVOLUTIONS, fc_layer_params=(7,))
    inputs = {"camera": torch.randint(0, 256, (5, 3, 20, 20, 4), dtype=torch.uint8), "speed": torch.randn(5, 3, 2)}
    features, _ = net(inputs)
    for time in range(5):
        torch.testing.assert_close(features[time], net(nest.index(inputs, time))[0])


def test_the_layout_of_an_image_is_found_or_told() -> None:
    def channels(spec: TensorSpec, layout: str = "auto") -> int:
        net = EncodingNetwork(spec, conv_layer_params=((8, 2, 1),), image_layout=layout)
        return nest.leaves(net._encoder._encoders)[0].layers[0].in_channels

    assert channels(IMAGE_FIRST) == channels(IMAGE_LAST) == 4
    cube = TensorSpec((6, 7, 8))
    assert channels(cube) == channels(cube, "channels_first") == 6
    assert channels(cube, "channels_last") == 8


def test_the_last_layer_is_linear_and_not_normalised() -> None:
    net = EncodingNetwork(TensorSpec((3,)), fc_layer_params=(5,), use_fc_ln=True, last_layer_size=2)
    hidden, last = net._dense.layers
    (norm,) = net._dense.norms
    x = torch.randn(4, 3)
    torch.testing.assert_close(net(x)[0], last(norm(hidden(x)).relu()))
    bounded = EncodingNetwork(TensorSpec((3,)), last_layer_size=2, last_activation=tanh)
    torch.testing.assert_close(bounded(x)[0], bounded._dense.layers[0](x).tanh())


def test_every_parameter_gets_a_gradient() -> None:
    spec = {"camera": IMAGE_FIRST, "speed": TensorSpec((2,))}
    net = EncodingNetwork(spec, conv_layer_params=CONVOLUTIONS, fc_layer_params=(7,), activation=tanh, use_fc_ln=True)
    inputs = {"camera": torch.randint(0, 256, (5, 4, 20, 20), dtype=torch.uint8), "speed": torch.randn(5, 2)}
    net(inputs)[0].square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in net.parameters())


def test_the_seed_decides_the_weights() -> None:
    def weights(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        return list(EncodingNetwork(IMAGE_FIRST, conv_layer_params=CONVOLUTIONS, fc_layer_params=(7,)).parameters())

    assert all(torch.equal(a, b) for a, b in zip(weights(1), weights(1), strict=True))
    assert not torch.equal(weights(1)[0], weights(2)[0])


def test_hidden_layers_start_orthogonal_with_gain_sqrt_2() -> None:
    weight = EncodingNetwork(TensorSpec((9,)), fc_layer_params=(4,))._dense.layers[0].weight
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(4))


def test_gin_binds_what_the_code_leaves_open() -> None:
    gin.parse_config("EncodingNetwork.fc_layer_params = (8, 6)\nEncodingNetwork.use_fc_ln = True")
    net = EncodingNetwork(TensorSpec((3,)))
    assert net.output_size == 6
    assert len(net._dense.norms) == 2


def test_convolutions_on_a_vector() -> None:
    with pytest.raises(ConfigError, match=r"the observation has no image.*it: \(4,\).*Remove conv_layer_params"):
        EncodingNetwork(TensorSpec((4,)), conv_layer_params=CONVOLUTIONS)


def test_an_image_without_convolutions() -> None:
    with pytest.raises(ConfigError, match=r"'camera' is an image of shape \(4, 20, 20\).*conv_layer_params = \(\(32"):
        EncodingNetwork({"camera": IMAGE_FIRST}, fc_layer_params=(64,))


def test_a_size_instead_of_sizes() -> None:
    with pytest.raises(ConfigError, match=r"fc_layer_params = 64"):
        EncodingNetwork(TensorSpec((4,)), fc_layer_params=64)
