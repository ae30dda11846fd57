"""`TrainerConfig.compile`: one graph for an update, the same learning, or a line that says why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from alfish.algorithms import update_step
from tests.options.running import DQN, PPO, SAC, refusal, train


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What inductor makes is kept for the tests of this file."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "inductor"))


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for every graph that is made."""
    made: list[int] = []
    compile_graph = update_step.compile_graph
    monkeypatch.setattr(update_step, "compile_graph", lambda *given: (made.append(1), compile_graph(*given))[1])
    return made


@pytest.fixture
def _as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor takes a quarter of a minute for SAC; what it gets is quick to run."""
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, examples: graph)


@pytest.mark.usefixtures("_as_traced")
def test_compile(graphs: list[int]) -> None:
    """The same learning, of SAC, which draws random numbers in its loss, and the same summaries."""
    plain = train(SAC, root_dir="plain", compile="off")
    assert graphs == []
    compiled = train(SAC, root_dir="compiled", compile="on")
    assert graphs == [1]
    assert "not compiled" not in compiled.console
    assert compiled.history == plain.history
    torch.testing.assert_close(compiled.weights, plain.weights, rtol=1e-4, atol=1e-5)
    assert compiled.tags() == plain.tags()


def test_compile_resumes_to_the_bit(graphs: list[int]) -> None:
    whole = train(PPO, root_dir="whole", compile="on")
    train(PPO, root_dir="parts", compile="on", num_iterations=2)
    resumed = train(PPO, root_dir="parts", compile="on")
    assert graphs == [1, 1, 1]
    assert "not compiled" not in whole.console
    assert resumed.start.iterations == 2
    assert torch.equal(resumed.weights, whole.weights)


def recorded(root_dir: str) -> str:
    """What `run.json` says came of the option."""
    words: str = json.loads((Path(root_dir) / "run.json").read_text())["compile"]
    return words


@pytest.mark.usefixtures("_as_traced")
def test_compile_auto(graphs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(PPO, root_dir="short", compile="auto")
    updates = run.result.updates
    assert graphs == []
    assert recorded("short") == f"off: about {updates} updates are expected, and compiling pays from 30,000 on"
    monkeypatch.setattr(update_step, "WORTH_COMPILING", updates)
    train(PPO, root_dir="long", compile="auto")
    assert graphs == [1]
    assert recorded("long") == f"on: about {updates} updates are expected, and compiling pays from {updates} on"
    train(PPO, root_dir="plain")
    assert recorded("plain") == "off"


def test_compile_without_a_way(graphs: list[int]) -> None:
    """Where updates cannot be, the run learns as without (up to rounding, since acting can), and one line says why."""
    text = "QNetwork.noise_std = 0.5"
    plain = train(DQN, text, root_dir="plain", compile="off")
    compiled = train(DQN, text, root_dir="compiled", compile="on")
    torch.testing.assert_close(compiled.weights, plain.weights, rtol=1e-4, atol=1e-5)
    reason = "NoisyLinear makes new tensors of its own every time"
    assert compiled.console.count(f"TrainerConfig.compile: updates are not compiled, since {reason}") == 1
    assert recorded("compiled") == f"off: {reason}"


def test_compile_beside_other_options() -> None:
    assert "enable_amp" in refusal(PPO, compile="on", enable_amp=True)
    assert "unroll_with_grad" in refusal(DQN, compile="on", unroll_with_grad=True)
    assert "expects 'off' or 'on' or 'auto'" in refusal(PPO, compile="yes")
