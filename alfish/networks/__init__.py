"""Networks: from observations to features, values, actions and action distributions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "ActorDistributionNetwork": "actor_distribution",
    "ActorDistributionRnnNetwork": "actor_distribution",
    "ActorNetwork": "actor",
    "ActorRnnNetwork": "actor",
    "CategoricalProjectionNetwork": "projection",
    "CriticNetwork": "critic",
    "CriticRnnNetwork": "critic",
    "EncodingNetwork": "encoding",
    "GRUEncodingNetwork": "recurrent",
    "LSTMEncodingNetwork": "recurrent",
    "Network": "network",
    "NormalProjectionNetwork": "projection",
    "QNetwork": "q",
    "QRnnNetwork": "q",
    "StableNormalProjectionNetwork": "projection",
    "ValueNetwork": "value",
    "ValueRnnNetwork": "value",
    "unroll_network": "network",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
