"""Noisy layers: exploration by noise in the weights, whose strength is learned (Fortunato et al. 2018)."""

from __future__ import annotations

from math import sqrt

import torch
from torch import nn

from alfish.networks.part import Part
from alfish.networks.products import linear


class NoisyLinear(Part):
    """A linear layer with factorised Gaussian noise (section 3, variant b); without noise in evaluation mode.

    `y = (w + s_w * f(e_out) f(e_in)) x + b + s_b * f(e_out)` with `f(e) = sign(e) sqrt(|e|)`. The noise is 0 until
    `reset_noise` draws some, and stays until it is drawn again. It is no part of the state: who uses the layer draws
    before every use, from a generator that is.

    Args:
        input_size: length of the input.
        output_size: length of the output.
        noise_std: sigma_0 of the paper (0.5): the weights' noise starts at `noise_std / sqrt(input_size)`.
    """

    noise_in: torch.Tensor
    noise_out: torch.Tensor

    def __init__(self, input_size: int, output_size: int, noise_std: float = 0.5) -> None:
        super().__init__()
        bound, scale = 1 / sqrt(input_size), noise_std / sqrt(input_size)
        self.weight = nn.Parameter(torch.empty(output_size, input_size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(output_size).uniform_(-bound, bound))
        self.weight_scale = nn.Parameter(torch.full((output_size, input_size), scale))
        self.bias_scale = nn.Parameter(torch.full((output_size,), scale))
        self.register_buffer("noise_in", torch.zeros(input_size), persistent=False)
        self.register_buffer("noise_out", torch.zeros(output_size), persistent=False)

    def reset_noise(self, generator: torch.Generator) -> None:
        """Draws the noise that all inputs share until the next call."""
        # New tensors, since a graph that is still in use may hold the old ones.
        split, size, device = len(self.noise_in), len(self.noise_in) + len(self.noise_out), self.noise_in.device
        noise = torch.randn(size, generator=generator, device=generator.device).to(device)
        noise = noise.sign() * noise.abs().sqrt()
        self.noise_in, self.noise_out = noise[:split], noise[split:]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return linear(x, self.weight, self.bias)
        weight = torch.addcmul(self.weight, self.weight_scale, torch.outer(self.noise_out, self.noise_in))
        return linear(x, weight, torch.addcmul(self.bias, self.bias_scale, self.noise_out))


def noisy_layers(module: nn.Module) -> list[NoisyLinear]:
    """The noisy layers of a network, in a fixed order."""
    return [layer for layer in module.modules() if isinstance(layer, NoisyLinear)]
