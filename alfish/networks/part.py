"""What all parts of networks extend: modules whose calls cost half as much as those of torch."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


class Part(nn.Module):
    """A module that looks for hooks in one step, not in two.

    An update of an actor-critic calls fifty modules, each of which takes torch as long as a small operation.
    """

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
            return super().__call__(*inputs, **options)
        if self._compiled_call_impl is not None or _has_any_global_hook():  # type: ignore[no-untyped-call]
            return super().__call__(*inputs, **options)
        return self.forward(*inputs, **options)
