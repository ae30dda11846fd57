"""Linear layers by torch's own products and by oneDNN's, forward and with gradients.

    python tools/bench_products.py [--threads 1 2] [--seconds 1]

Both take turns. The last column says whether networks take oneDNN's here (`alfish.networks.products`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch.nn import functional as F
from workloads.measuring import microseconds

from alfish.networks.products import onednn_linear, onednn_pays

SIZES = ((256, 64, 64), (256, 23, 256), (256, 128, 128), (64, 256, 256), (256, 256, 256), (256, 3136, 512))
Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
WAYS: dict[str, Linear] = {"torch": F.linear, "oneDNN": onednn_linear}


def calls(batch: int, inputs: int, outputs: int) -> dict[str, Callable[[], object]]:
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((batch, inputs), (outputs, inputs), (outputs,))]
    gradient = torch.randn(batch, outputs)

    def forward(way: Linear) -> Callable[[], object]:
        return torch.no_grad()(lambda: way(*leaves))

    def both(way: Linear) -> Callable[[], object]:
        return lambda: torch.autograd.grad(way(*leaves), leaves, gradient)

    return {f"{name} {kind.__name__}": kind(way) for kind in (forward, both) for name, way in WAYS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of torch")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each size")
    arguments = parser.parse_args()
    print(f"{'batch x inputs x outputs, us':30}{'threads':>8}{'forward':>10}{'oneDNN':>10}{'+ back':>10}{'oneDNN':>10}")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for size in SIZES:
            found = [each["wall"] for each in microseconds(calls(*size), arguments.seconds).values()]
            batch, inputs, outputs = size
            taken = "taken" if onednn_pays(torch.empty(batch, inputs), torch.empty(outputs, inputs)) else ""
            name = " x ".join(map(str, size))
            print(f"{name:30}{threads:8}" + "".join(f"{each:10.1f}" for each in found) + f"   {taken}", flush=True)


if __name__ == "__main__":
    main()
