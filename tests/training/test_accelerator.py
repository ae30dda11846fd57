from __future__ import annotations

import pytest

from alfish.training.accelerator import empty_cache


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_the_backend_of_the_device_gives_its_memory_back(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: calls.append("cuda"))
    empty_cache(device)
    assert calls == ["cuda"]


def test_the_cpu_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: pytest.fail("another device"))
    empty_cache("cpu")
