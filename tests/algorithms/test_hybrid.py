"""Learning from recorded data, and from own experience beside them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.agent import Agent
from alfish.algorithms.bc import BcAlgorithm
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.hybrid import sum_of_losses
from alfish.algorithms.iql import IqlAlgorithm
from alfish.algorithms.off_policy import Judged
from alfish.algorithms.sac import SacAlgorithm
from alfish.algorithms.td3 import Td3Algorithm
from alfish.algorithms.td_loss import RetraceTDLoss
from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.normalizers import ObservationNormalizer
from alfish.algorithms.updater import total_loss
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.networks.actor import ActorNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.q import QNetwork
from alfish.networks.value import ValueNetwork
from alfish.types import BatchInfo, Experience, LossInfo
from tests.algorithms.off_policy_runs import final_reward
from tests.algorithms.recorded import POLICY, random_tape, start_offline

SMALL_Q = partial(QNetwork, fc_layer_params=(16,))
WHOLE = {"whole_replay_buffer_training": True}
SQUASHED = partial(
    ActorDistributionNetwork, fc_layer_params=(16,), continuous_projection_net_ctor=StableNormalProjectionNetwork
)
SAC = {"actor_network_ctor": SQUASHED, "critic_network_ctor": partial(CriticNetwork, joint_fc_layer_params=(16,))}


def start(options: dict[str, Any] | None = None, cls: Any = DqnAlgorithm, **arguments: Any) -> Any:
    if cls is DqnAlgorithm:
        arguments = {"q_network_ctor": SMALL_Q, **arguments}
    return start_offline(cls, arguments.pop("tape", None) or random_tape(), options=options, **arguments)


def watch(algorithm: Any) -> list[tuple[int, int | None]]:
    """Notes the sizes of the recorded and of the own mini batch of every update."""
    sizes: list[tuple[int, int | None]] = []
    update = algorithm.loop._update_with

    def noted(offline: Experience, online: Experience | None) -> bool:
        sizes.append((len(offline.action[0]), None if online is None else len(online.action[0])))
        more: bool = update(offline, online)
        return more

    algorithm.loop._update_with = noted
    return sizes


def test_nobody_acts_before_the_hand_over_and_everybody_does_after_it() -> None:
    algorithm = start({"rl_train_after_update_steps": 6, "num_updates_per_train_iter": 2})
    sizes, steps = watch(algorithm), []
    for _ in range(5):
        assert algorithm.is_pretraining == (algorithm.progress.updates < 6)
        algorithm.train_iter()
        steps.append(algorithm.progress.env_steps)
    assert steps == [0, 0, 0, 4, 8]
    assert sizes == [(64, None)] * 6 + [(64, 64)] * 4


@pytest.mark.parametrize("every", [1, 3])
def test_own_experience_takes_part_in_every_nth_update(every: int) -> None:
    algorithm = start({"rl_train_every_update_steps": every, "num_updates_per_train_iter": 5})
    sizes = watch(algorithm)
    for _ in range(3):
        algorithm.train_iter()
    assert [own is not None for _, own in sizes] == [index % every == 0 for index in range(15)]


def test_before_the_hand_over_a_pass_is_over_all_recorded_data() -> None:
    tape = random_tape(num_steps=100)
    options = {**WHOLE, "num_updates_per_train_iter": 2, "rl_train_after_update_steps": 1000, "mini_batch_size": 10}
    algorithm = start(options, tape=tape)
    seen: list[torch.Tensor] = []
    judge = algorithm.loop._judge
    algorithm.loop._judge = lambda batch, replay: (seen.append(batch.batch_info.positions), judge(batch, replay))[1]
    algorithm.train_iter()
    assert sorted(torch.cat(seen).tolist()) == sorted([*range(len(tape) - 1)] * 2)
    assert algorithm.loop.updates_per_iter == len(seen) == algorithm.progress.updates


def test_after_it_a_pass_is_over_the_own_experience() -> None:
    algorithm = start(
        {**WHOLE, "clear_replay_buffer": True, "unroll_length": 6, "mini_batch_size": 8}, cls=IqlAlgorithm
    )
    sizes = watch(algorithm)
    algorithm.train_iter()
    assert [own for _, own in sizes] == [8] * 3  # 6 steps in 4 environments
    assert all(8 <= recorded <= 9 for recorded, _ in sizes)  # cut evenly, without a rest
    assert not algorithm.replay.has_sequences(2)


def test_a_pass_with_own_experience_in_every_third_update_is_three_times_as_long() -> None:
    options = {**WHOLE, "unroll_length": 4, "mini_batch_size": 8, "rl_train_every_update_steps": 3}
    algorithm = start(options)
    sizes = watch(algorithm)
    algorithm.train_iter()
    assert [own for _, own in sizes] == [8, None, None, 8]
    algorithm.train_iter()
    assert [own for _, own in sizes[4:7]] == [None, None, 8]


@pytest.mark.parametrize("size", ["whole", None, 7])
def test_any_batch_size_works_in_whole_buffer_training(size: Any) -> None:
    algorithm = start({**WHOLE, "clear_replay_buffer": True, "mini_batch_size": size, "unroll_length": 7})
    sizes = watch(algorithm)
    algorithm.train_iter()
    assert sum(own or 0 for _, own in sizes) == 28
    assert len(sizes) == {"whole": 1, None: 7, 7: 4}[size]


def test_until_the_initial_collection_is_over_there_are_recorded_data() -> None:
    algorithm = start({"initial_collect_steps": 8, "random_initial_collect": True})
    sizes = watch(algorithm)
    for _ in range(3):
        algorithm.train_iter()
    assert [own for _, own in sizes] == [None, 64, 64]


def test_updates_per_environment_step_count_for_both() -> None:
    options = {"num_updates_per_env_step": 0.5, "num_updates_per_train_iter": 4}
    algorithm = start({**options, "unroll_length": 1})
    sizes = watch(algorithm)
    for _ in range(4):
        algorithm.train_iter()
    assert sizes == [(64, 64)] * 8


def test_losses_are_added_each_with_its_own_weights() -> None:
    def judged(loss: list[list[float]], valid: list[list[float]], scalar: Any = ()) -> Judged:
        info = LossInfo(torch.tensor(loss), scalar, {"part": torch.tensor(loss)})
        return Judged(info, torch.tensor(valid), None, BatchInfo(), None)  # type: ignore[arg-type]

    offline = judged([[1.0, 3.0, 100.0]], [[1.0, 1.0, 0.0]], torch.tensor(0.5))
    online = judged([[10.0, 7.0, 20.0]], [[1.0, 0.0, 1.0]])
    combined = sum_of_losses(offline, online)
    assert total_loss(combined, offline.valid).item() == 2.0 + 0.5 + 15.0
    assert combined.extra["online/part"].item() == 15.0
    assert set(combined.extra) == {"offline/part", "online/part"}
    alone = sum_of_losses(offline)
    assert total_loss(alone, offline.valid).item() == 2.5
    assert set(alone.extra) == {"offline/part"}


def test_priorities_of_both_kinds_are_kept_apart() -> None:
    algorithm = start({"priority_replay": True, "unroll_length": 4})
    for _ in range(3):
        algorithm.train_iter()
    for replay in (algorithm.replay, algorithm.loop.offline):
        priorities = replay.state_dict()["priorities"]["priorities"]
        assert len(priorities.unique()) > 3


def test_an_error_in_a_loss_is_told_as_it_is() -> None:
    class Broken(DqnAlgorithm):
        def compute_loss(self, experience: Experience) -> LossInfo:
            raise ZeroDivisionError("in the loss")

    algorithm = start(cls=Broken, q_network_ctor=SMALL_Q)
    with pytest.raises(ZeroDivisionError, match="in the loss"):
        algorithm.train_iter()


IQL = {
    "actor_network_ctor": partial(ActorDistributionNetwork, fc_layer_params=(16,)),
    "value_network_ctor": partial(ValueNetwork, fc_layer_params=(16,)),
    "critic_network_ctor": SAC["critic_network_ctor"],
    "target_update_tau": 0.1,
}
DETERMINISTIC = {
    "actor_network_ctor": partial(ActorNetwork, fc_layer_params=(16,)),
    "critic_network_ctor": SAC["critic_network_ctor"],
}
CONTINUOUS = {"action_type": "continuous", "episode_length": 1}
LEARNERS = {
    "dqn": (DqnAlgorithm, {"episode_length": 1}, {"q_network_ctor": SMALL_Q}),
    "sac": (SacAlgorithm, CONTINUOUS, {**SAC, "initial_log_alpha": -3.0}),
    "ddpg": (DdpgAlgorithm, CONTINUOUS, DETERMINISTIC),
    "td3": (Td3Algorithm, CONTINUOUS, DETERMINISTIC),
    "iql": (IqlAlgorithm, CONTINUOUS, {"inverse_temperature": 20.0, **IQL}),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_off_policy_algorithms_learn_from_random_data_without_a_step(name: str) -> None:
    cls, env_kwargs, arguments = LEARNERS[name]
    tape = random_tape(num_steps=400, **env_kwargs)
    options = {"rl_train_after_update_steps": 10**9}
    algorithm = start(options, cls=cls, tape=tape, env_kwargs=env_kwargs, **arguments)
    for _ in range(250):
        algorithm.train_iter()
    assert algorithm.progress.env_steps == 0
    assert final_reward(algorithm) > 0.85  # random: 0.5, the optimum: 1


def test_normalizers_know_the_recorded_data_before_the_first_update() -> None:
    tape = random_tape("CartPole-v1", num_steps=200)
    normalizer: Any = None

    def with_normalizer(observation_spec: Any, *specs: Any, **arguments: Any) -> Any:
        nonlocal normalizer
        normalizer = ObservationNormalizer(observation_spec)
        algorithm = DqnAlgorithm(observation_spec, *specs, **arguments)
        algorithm.data_transformer = normalizer
        return algorithm

    start_offline(with_normalizer, tape, "CartPole-v1")
    torch.testing.assert_close(normalizer.moments[0].mean.float(), tape.observation.mean(0))


def test_frames_are_stacked_from_recorded_data() -> None:
    tape = random_tape(num_steps=40)
    config = {"rl_train_after_update_steps": 100}
    env = create_environment(POLICY)
    transformer = FrameStacker(env.observation_spec, 3)
    algorithm = start(config, tape=tape)
    batch = algorithm.loop.offline.get(torch.tensor([0]), torch.tensor([3]), 2)
    stacked = transformer.transform_experience(batch, algorithm.loop.offline).time_step.observation
    assert stacked[0, 0].tolist() == tape.observation[1:4, 0].tolist()


def state_of(algorithm: Any) -> list[Any]:
    state = (algorithm.run_state(), algorithm.replay.state_dict(), algorithm.state_dict())
    return nest.leaves([state[0], state[1], dict(state[2])])


@pytest.mark.parametrize("options", [{"priority_replay": True}, WHOLE], ids=["sampled", "passes"])
def test_a_resumed_run_is_the_run_that_was_never_stopped(options: dict[str, Any]) -> None:
    options = {**options, "rl_train_after_update_steps": 20, "mini_batch_size": 16, "rl_train_every_update_steps": 2}

    def go_on(state: Any, model: Any, replay: Any, progress: Any) -> Any:
        algorithm = start(options)
        algorithm.load_state_dict(model)
        for name, optimizer in algorithm.loop.updater.ownership.optimizers.items():
            optimizer.load_state_dict(state[1][name])
        for name, value in progress.items():
            setattr(algorithm.progress, name, value)
        algorithm.load_run_state(state[0])
        algorithm.load_replay(replay)
        return algorithm

    whole = start(options)
    for stop in (2, 11):
        for _ in range(stop):
            whole.train_iter()
        optimizers = {n: o.state_dict() for n, o in whole.loop.updater.ownership.optimizers.items()}
        copied = torch.load(_saved((whole.run_state(), optimizers)), weights_only=True)
        model = {name: value.clone() for name, value in whole.state_dict().items()}
        resumed = go_on(copied, model, whole.replay.state_dict(), vars(whole.progress).copy())
        for _ in range(4):
            whole.train_iter()
            resumed.train_iter()
        one, other = state_of(whole), state_of(resumed)
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def _saved(value: Any) -> Any:
    import io

    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    return stream


def test_other_data_than_before_are_told(caplog: pytest.LogCaptureFixture) -> None:
    state = start().run_state()
    start(tape=random_tape(seed=1)).load_run_state(state)
    assert "TrainerConfig.offline_buffer_dir holds other data" in caplog.text


def test_an_algorithm_that_learns_offline_only_never_acts() -> None:
    algorithm = start(cls=BcAlgorithm)
    for _ in range(3):
        algorithm.train_iter()
    assert (algorithm.progress.env_steps, algorithm.progress.updates) == (0, 3)
    assert algorithm.loop.is_offline


def test_an_agent_learns_as_its_algorithm_does() -> None:
    agent = start_offline(Agent, random_tape(), rl_algorithm_cls=BcAlgorithm)
    agent.train_iter()
    assert (agent.progress.env_steps, agent.progress.updates) == (0, 1)


def test_a_budget_that_ends_before_the_hand_over_is_offline() -> None:
    def is_offline(**options: Any) -> bool:
        offline: bool = start({"num_updates_per_train_iter": 4, **options}).loop.is_offline
        return offline

    assert is_offline(num_iterations=10, rl_train_after_update_steps=40)
    assert not is_offline(num_iterations=11, rl_train_after_update_steps=40)
    assert is_offline(num_epochs=2, num_steps_per_epoch=20, rl_train_after_update_steps=40)
    assert not is_offline(num_epochs=2, num_steps_per_epoch=17, rl_train_after_update_steps=34)  # 20 updates each
    assert not is_offline(num_iterations=0, num_env_steps=5, rl_train_after_update_steps=40)


def test_what_cannot_learn_from_recorded_data_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ActorCriticAlgorithm is on-policy.*Use an off-policy algorithm"):
        start(cls=ActorCriticAlgorithm)
    with pytest.raises(ConfigError, match="which recorded data do not have"):
        start(
            cls=SacAlgorithm,
            tape=random_tape(action_type="continuous"),
            env_kwargs=CONTINUOUS,
            critic_loss_ctor=RetraceTDLoss,
            **SAC,
        )
    with pytest.raises(
        ConfigError, match=r"BcAlgorithm learns from recorded data: set TrainerConfig.offline_buffer_dir"
    ):
        start_offline(BcAlgorithm, None)
    with pytest.raises(ConfigError, match="the run would never end"):
        start({"num_iterations": 0, "num_env_steps": 100}, cls=BcAlgorithm)
    with pytest.raises(ConfigError, match="12 time steps in all, but DqnAlgorithm learns sequences of 50"):
        start({"mini_batch_length": 50}, tape=random_tape(num_steps=8))
