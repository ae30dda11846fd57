"""An update learns the same, compiled or not; where it cannot be compiled, one line says so and it learns all the same.

The graphs run here as they were traced. That inductor makes the same of them is shown once, in `test_compilation`, and
for whole runs in `tests/options/test_compile_options`: it takes seconds for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor
from torch._inductor.compile_fx import compile_fx as COMPILE_FX

from alfish.algorithms import update_step
from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.ppo_loss import PPOLoss
from alfish.algorithms.sac import SacAlgorithm
from alfish.algorithms.td3 import Td3Algorithm
from alfish.algorithms.td_loss import TDLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.update_step import CompiledUpdateStep, expected_updates
from alfish.errors import NumericFault
from alfish.networks.actor import ActorNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.q import QNetwork
from alfish.optimizers.adam import Adam, AdamW
from alfish.optimizers.schedulers import LinearScheduler
from alfish.optimizers.sgd import SGD, RMSprop
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import replace
from tests.algorithms.off_policy_runs import start_replay
from tests.algorithms.runs import start_run

CONTINUOUS = {"action_type": "continuous"}
Q = partial(QNetwork, fc_layer_params=(8,))
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(8,))
SAC_NETWORKS: dict[str, Any] = {
    "actor_network_ctor": partial(
        ActorDistributionNetwork, fc_layer_params=(8,), continuous_projection_net_ctor=StableNormalProjectionNetwork
    ),
    "critic_network_ctor": CRITIC,
}
DDPG_NETWORKS: dict[str, Any] = {
    "actor_network_ctor": partial(ActorNetwork, fc_layer_params=(8,)),
    "critic_network_ctor": CRITIC,
}
Make = Callable[..., Any]


def ppo(compile: str = "on", **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "optimizer": Adam(lr=0.01, gradient_clipping=0.5),
        "unroll_length": 8,
        "mini_batch_length": 1,
        "mini_batch_size": 16,
        "num_updates_per_train_iter": 2,
    }
    return start_run(PPOAlgorithm, compile=compile, **{**arguments, **changes})


def a2c(compile: str = "on", **changes: Any) -> Any:
    return start_run(ActorCriticAlgorithm, compile=compile, **changes)


def off_policy(cls: Any, env_kwargs: Any = None, options: Any = None, **arguments: Any) -> Make:
    def make(compile: str = "on") -> Any:
        all_options = {"compile": compile, "mini_batch_size": 16, **(options or {})}
        made = {name: value() if name.endswith("optimizer") else value for name, value in arguments.items()}
        return start_replay(cls, env_kwargs=env_kwargs, options=all_options, **made)

    return make


PRIORITIZED = {"priority_replay": True}
sac = off_policy(SacAlgorithm, CONTINUOUS, **SAC_NETWORKS)
td3 = off_policy(Td3Algorithm, CONTINUOUS, **DDPG_NETWORKS)
ALGORITHMS: dict[str, Make] = {
    "ppo": ppo,
    "ppo with limits": partial(ppo, loss_class=partial(PPOLoss, target_kl=0.01, entropy_regularization=0.01)),
    "a2c": a2c,
    "sac": sac,
    "sac with three optimizers": off_policy(
        SacAlgorithm,
        CONTINUOUS,
        actor_optimizer=partial(Adam, lr=0.01),
        critic_optimizer=partial(AdamW, lr=0.02, gradient_clipping=0.1, clip_by_global_norm=False),
        alpha_optimizer=partial(SGD, lr=0.1, momentum=0.9),
        **SAC_NETWORKS,
    ),
    "sac over choices": off_policy(SacAlgorithm, q_network_ctor=Q),
    "sac with priorities": off_policy(SacAlgorithm, CONTINUOUS, PRIORITIZED, **SAC_NETWORKS),
    "td3": td3,
    "ddpg": off_policy(DdpgAlgorithm, CONTINUOUS, **DDPG_NETWORKS),
    "dqn": off_policy(DqnAlgorithm, q_network_ctor=Q, optimizer=partial(RMSprop, lr=0.01, momentum=0.5)),
    "dqn with priorities": off_policy(DqnAlgorithm, options=PRIORITIZED, q_network_ctor=Q),
    "dqn with long returns": off_policy(DqnAlgorithm, q_network_ctor=Q, critic_loss_ctor=partial(TDLoss, num_steps=3)),
}


@pytest.fixture(autouse=True)
def _as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, examples: graph)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """An entry for every graph that is made."""
    made: list[Any] = []
    compile_graph = update_step.compile_graph

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return compile_graph(*arguments)

    monkeypatch.setattr(update_step, "compile_graph", noted)
    return made


def train(algorithm: Any, iterations: int = 8) -> torch.Tensor:
    """All parameters, targets included, and the states of the random streams."""
    for _ in range(iterations):
        algorithm.train_iter()
    return nn.utils.parameters_to_vector(algorithm.parameters()).detach()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_learns_the_same(name: str, traced: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    eager, compiled = ALGORITHMS[name]("off"), ALGORITHMS[name]("on")
    before = nn.utils.parameters_to_vector(eager.parameters()).detach()
    expected, found = train(eager), train(compiled)
    assert (expected - before).abs().max() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(traced) == (2 if name == "td3" else 1)
    assert "not compiled" not in caplog.text
    assert compiled.progress == eager.progress
    assert compiled.loop.updater.average_loss == pytest.approx(eager.loop.updater.average_loss, rel=1e-4)
    assert [part.generator.get_state().tolist() for part in compiled.tree()] == [
        part.generator.get_state().tolist() for part in eager.tree()
    ]


def test_priorities_are_those_of_the_eager_update() -> None:
    replays = []
    for compile in ("off", "on"):
        algorithm = ALGORITHMS["dqn with priorities"](compile)
        train(algorithm)
        replays.append(algorithm.replay.state_dict()["priorities"])
    torch.testing.assert_close(replays[0], replays[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["dqn", "dqn with priorities"])
def test_only_compiled_updates_are_done_with_a_batch_when_the_next_is_drawn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    sample = ReplayBuffer.sample

    def noted(*arguments: Any, **options: Any) -> Any:
        drawn.append(sample(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(ReplayBuffer, "sample", noted)
    compiled, eager, failing = ALGORITHMS[name]("on"), ALGORITHMS[name]("off"), ALGORITHMS[name]("on")
    train(compiled)
    assert len(drawn) > 3
    assert len({id(batch) for batch in drawn}) == 1
    drawn.clear()
    train(eager)
    assert len({id(batch) for batch in drawn}) == len(drawn) > 3
    drawn.clear()
    monkeypatch.setattr(update_step, "_MOST_GRAPHS", 0)
    train(failing)
    assert len({id(batch) for batch in drawn}) == len(drawn) > 3


def test_optimizer_states_are_those_of_the_eager_update() -> None:
    states = []
    for compile in ("off", "on"):
        algorithm = sac(compile)
        train(algorithm)
        optimizer = next(iter(algorithm.loop.updater.ownership.optimizers.values()))
        states.append(optimizer.state_dict())
    torch.testing.assert_close(states[0], states[1], rtol=1e-4, atol=1e-6)


def test_another_learning_rate_needs_no_other_graph(traced: list[Any]) -> None:
    def schedule() -> Adam:
        return Adam(lr=LinearScheduler("updates", [(0, 0.1), (20, 0.0)]))

    expected, found = (train(ppo(compile, optimizer=schedule()), 4) for compile in ("off", "on"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(traced) == 1


def test_a_loaded_optimizer_state_counts() -> None:
    eager, compiled = sac("off"), sac("on")
    for algorithm in (eager, compiled):
        train(algorithm)
        for optimizer in algorithm.loop.updater.ownership.optimizers.values():
            kept = optimizer.state_dict()
            optimizer.load_state_dict({name: {**each, "step": each["step"] + 100} for name, each in kept.items()})
    torch.testing.assert_close(train(compiled), train(eager), rtol=1e-4, atol=1e-5)


def test_mini_batches_of_two_sizes_have_two_graphs(traced: list[Any]) -> None:
    train(ppo("on", mini_batch_size=15, unroll_length=8, num_environments=4, optimizer=SGD(lr=0.1)), 2)  # 16 and 16
    train(ppo("on", mini_batch_size=6, unroll_length=8, num_environments=4), 2)  # 6 and 7
    assert len(traced) == 3


def test_too_many_shapes_end_it_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(update_step, "_MOST_GRAPHS", 1)
    expected, found = (train(ppo(compile, mini_batch_size=6), 2) for compile in ("off", "on"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert caplog.text.count("updates are not compiled, since mini batches have more than 1 different shapes") == 1


@pytest.mark.parametrize("policy", ["stop", "skip"])
@pytest.mark.parametrize("spoilt", ["loss", "gradient"])
def test_a_number_that_is_not_finite_reaches_nothing(policy: str, spoilt: str) -> None:
    algorithm = ppo("on", nan_policy=policy)
    train(algorithm, 1)
    before, updates = train(algorithm, 0), algorithm.progress.updates
    prepare = algorithm.preprocess_experience

    def spoil(experience: Any) -> Any:
        prepared = prepare(experience)
        # The root has no finite slope at 0; an infinite target makes the loss itself infinite.
        prepared.rollout_info.target.fill_(float("inf") if spoilt == "loss" else 3e19)
        return prepared

    algorithm.preprocess_experience = spoil
    if policy == "stop":
        with pytest.raises(NumericFault, match="value_loss is not finite" if spoilt == "loss" else "not finite|inf"):
            train(algorithm, 1)
    else:
        train(algorithm, 1)
        assert algorithm.loop.updater.skipped == 4
    assert torch.equal(train(algorithm, 0), before)
    assert algorithm.progress.updates == updates


def test_summaries_show_what_the_eager_update_shows_and_change_nothing() -> None:
    shown, weights = [], []
    for compile, enabled in (("off", True), ("on", True), ("on", False)):
        algorithm = sac(compile)
        algorithm.summary.enabled = enabled
        weights.append(train(algorithm))
        shown.append(algorithm.summary.write())
    assert shown[0].keys() == shown[1].keys() > {"Loss/loss", "Loss/actor"}
    assert shown[1] == pytest.approx(shown[0], rel=1e-3, abs=1e-5)
    assert torch.equal(weights[1], weights[2])


def test_one_graph_follows_schedulers() -> None:
    falling, rising = (LinearScheduler("updates", [(0, a), (20, b)]) for a, b in ((0.5, 0.0), (0.05, 0.3)))
    loss = partial(PPOLoss, entropy_regularization=falling, importance_ratio_clipping=rising)
    expected, found = (train(ppo(compile, loss_class=loss), 4) for compile in ("off", "on"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    algorithm = ppo("on", loss_class=loss)
    train(algorithm, 4)
    assert algorithm.compilation["compile"] == "on"
    assert len(algorithm.loop._update_step._graphs) == 1
    constant = partial(PPOLoss, entropy_regularization=0.5, importance_ratio_clipping=0.05)
    assert not torch.allclose(train(ppo("on", loss_class=constant), 4), expected, rtol=1e-4, atol=1e-5)


class _Impatient(PPOLoss):
    def __call__(self, info: Any, progress: Any, diagnose: bool = True) -> Any:
        loss_info = super().__call__(info, progress, diagnose)
        return replace(loss_info, loss=loss_info.loss * (1.0 if progress.updates < 3 else 0.5))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"recurrent": True, "mini_batch_length": 4, "mini_batch_size": 2}, "PPOAlgorithm has memory"),
        ({"unroll_episodes": 4, "unroll_length": TrainerConfig.unroll_length}, "unroll_episodes gives mini batches"),
        ({"loss_class": _Impatient}, "its loss changes with the progress of the run in another way than"),
    ],
)
def test_what_cannot_be_compiled_learns_all_the_same(
    changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected, found = (train(ppo(compile, **changes), 2) for compile in ("off", "on"))
    assert torch.equal(found, expected)
    assert caplog.text.count(f"TrainerConfig.compile: updates are not compiled, since {reason}") == 1


def test_noisy_layers_are_left_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    noisy = off_policy(DqnAlgorithm, q_network_ctor=partial(QNetwork, fc_layer_params=(8,), noise_std=0.5))
    expected, found = (train(noisy(compile), 4) for compile in ("off", "on"))
    assert torch.equal(found, expected)
    assert "NoisyLinear makes new tensors of its own" in caplog.text


def test_without_a_compiler_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with inductor.patch({"cpp.cxx": ("no-such-compiler",)}):
        found = train(ppo("on"), 2)
    assert torch.equal(found, train(ppo("off"), 2))
    assert caplog.text.count("updates are not compiled, since no C++ compiler was found") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a2c", "td3", "dqn with priorities"])
def test_inductor_learns_the_same(
    name: str, traced: list[Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", COMPILE_FX)
    expected, found = train(ALGORITHMS[name]("off")), train(ALGORITHMS[name]("on"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(traced) == (2 if name == "td3" else 1)
    assert "not compiled" not in caplog.text


def test_auto_compiles_what_pays() -> None:
    short, long = ppo("auto", num_iterations=3000), ppo("auto", num_iterations=8000)
    assert expected_updates(short, short._config, 4) == 3000 * 4
    assert expected_updates(long, long._config, 4) == 8000 * 4
    assert not isinstance(short.loop._update_step, CompiledUpdateStep)
    assert isinstance(long.loop._update_step, CompiledUpdateStep)
    pays = "updates are expected, and compiling pays from 30,000 on"
    assert short.loop.compilation == f"off: about 12,000 {pays}"
    assert long.loop.compilation == f"on: about 32,000 {pays}"


@pytest.mark.parametrize(
    ("algorithm", "options", "expected"),
    [
        (PPOAlgorithm, {"num_iterations": 10, "unroll_length": 8, "mini_batch_length": 4, "mini_batch_size": 2}, 320),
        (PPOAlgorithm, {"num_iterations": 0, "num_env_steps": 640, "unroll_length": 8, "mini_batch_size": "whole"}, 40),
        (PPOAlgorithm, {"num_epochs": 5, "num_steps_per_epoch": 64, "unroll_length": 8}, 20),
        (ActorCriticAlgorithm, {"num_iterations": 10}, 10),
        (DqnAlgorithm, {"num_iterations": 10, "whole_replay_buffer_training": False}, 40),
        (
            DqnAlgorithm,
            {"num_iterations": 10, "whole_replay_buffer_training": False, "num_updates_per_env_step": 0.25},
            160,
        ),
    ],
)
def test_updates_of_a_run(algorithm: Any, options: dict[str, Any], expected: float) -> None:
    config = TrainerConfig(algorithm_ctor=algorithm, **options)
    assert expected_updates(algorithm, config, 8) == expected
