"""How inductor is told to compute the products of `alfish.networks.products`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def onednn_products() -> Iterator[None]:
    """Inside the block graphs may have products by oneDNN; inductor's own way is for weights that never change."""
    from torch._inductor.lowering import lowerings

    with patch.dict(lowerings, {torch.ops.mkldnn._linear_pointwise.default: _product}):
        yield


def _product(x: Any, weight: Any, bias: Any, *activation: Any) -> Any:
    """The same call as in the graph, of its own memory."""
    from torch._inductor import ir
    from torch._inductor.mkldnn_ir import LinearUnary, _create_output_node

    name, scalars, variant = activation
    x = ir.ExternKernel.require_contiguous(ir.ExternKernel.realize_input(x))
    weight = ir.ExternKernel.realize_input(weight)  # a transposed one will do
    layout = ir.FixedLayout(x.get_device(), x.get_dtype(), [x.get_size()[0], weight.get_size()[0]])
    constants = [name, scalars or [-1], variant]
    if bias is None:
        call = LinearUnary(layout, [x, weight], [None, *constants])
    else:
        bias = ir.ExternKernel.require_contiguous(ir.ExternKernel.realize_input(bias))
        call = LinearUnary(layout, [x, weight, bias], constants)
    return ir.TensorBox.create(_create_output_node(call))  # type: ignore[no-untyped-call]
