"""Linear layers with large products, on processors that MKL does not make full use of.

torch computes products of float32 matrices by MKL, convolutions by oneDNN. Of the processors with 512-bit vectors MKL
uses these only on those of its own maker; on others oneDNN's products are twice as fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

# So many multiplications make up for what oneDNN, and Python around it, take for every call.
_LEAST = 2**22


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`F.linear`, the faster way."""
    if onednn_pays(x, weight):
        return onednn_linear(x, weight, bias)
    return F.linear(x, weight, bias)


def onednn_pays(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether `onednn_linear` can take these and is the faster way. Both may be those of several layers, stacked."""
    return (
        _IS_FASTER
        and x.dim() == weight.dim()
        and x.size(-2) * weight.size(-1) * weight.size(-2) >= _LEAST
        and x.dtype is torch.float32
        and weight.dtype is torch.float32
        and x.is_cpu
        and weight.is_cpu
        and torch._C._get_mkldnn_enabled()
        and is_plain("cpu")
    )


def is_plain(device_type: str) -> bool:
    """Whether neither autocast nor torch.func are at work, which autograd functions of our own do not heed."""
    return not torch.is_autocast_enabled(device_type) and not torch._C._are_functorch_transforms_active()


def onednn_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` for `[B, in]`."""
    if torch.is_grad_enabled():
        answer: torch.Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return answer
    return onednn_product(x, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            onednn_linear(gradient, weight.t(), None) if of_x else None,
            gradient_of_weight(gradient, x) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def gradient_of_weight(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Of a linear layer, from the gradient of its output and its input.

    Either has to be copied, with its rows as columns: the narrower one.
    """
    if x.size(1) < gradient.size(1):
        return onednn_linear(x.t().contiguous(), gradient.t(), None).t().contiguous()
    return onednn_linear(gradient.t().contiguous(), x.t(), None)


def onednn_product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"
) -> torch.Tensor:
    """`onednn_linear` without gradients, and `activation` (oneDNN's name) of it."""
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # with gaps between the rows it would take a hundred times as long
    answer: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, activation, [], "")
    return answer


def _is_faster() -> bool:
    if not (torch._C.has_mkl and torch._C._has_mkldnn):
        return False
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and _maker() not in ("", "GenuineIntel")


def _maker() -> str:
    """Of the processor; "" where nobody tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")


_IS_FASTER = _is_faster()
