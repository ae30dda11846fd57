"""The hybrid loop: learn from recorded experience, and in time from the run's own as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any

from alfish import nest
from alfish.algorithms.off_policy import Judged, OffPolicyLoop
from alfish.algorithms.on_policy import split_evenly
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.recorded import take_statistics
from alfish.algorithms.unroller import Unrolled
from alfish.algorithms.updater import Updater, total_loss, weighted_mean
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.replay.shuffled_passes import ShuffledPasses
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.types import Experience, LossInfo, TimeStep, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm

_log = logging.getLogger(__name__)


class HybridLoop(OffPolicyLoop):
    """Every update learns from recorded data; every `rl_train_every_update_steps`-th from both kinds.

    Until `rl_train_after_update_steps` updates are made there are recorded data only, and nobody acts. Then the loss of
    a mini batch of the run's own experience is added to that of a recorded one; both are of the same size and drawn in
    the same way. With `whole_replay_buffer_training` a pass is over all recorded data before the hand-over, and over
    the own experience afterwards, while recorded mini batches go on from pass to pass.

    Args:
        algorithm: what learns.
        config: the options of the run.
        updater: takes the steps.
        seeds: of the run.
        env: the environments of the run.
        tape: the recorded data.
    """

    def __init__(
        self,
        algorithm: RLAlgorithm,
        config: TrainerConfig,
        updater: Updater,
        seeds: Seeds,
        env: Environment,
        tape: Tape,
    ) -> None:
        super().__init__(algorithm, config, updater, seeds, env)
        _check(algorithm, config)
        self._stream = seeds.torch("offline")
        self._fingerprint = tape.fingerprint
        self.offline = ReplayBuffer(
            1,
            len(tape),
            self._stream,
            config.device,
            prioritized=config.priority_replay,
            recent_data_ratio=0.0,
            num_earliest_frames_ignored=0,  # the tape begins with the beginning of an episode
        )
        self.offline.add(tape.experience())
        if not self.offline.has_sequences(self._length):
            raise ConfigError(
                f"TrainerConfig.offline_buffer_dir: {len(tape)} time steps in all, but {type(algorithm).__name__} "
                f"learns sequences of {self._length}"
            )
        self._passes: ShuffledPasses | None = None
        if config.whole_replay_buffer_training:
            number = len(self.offline.all_sequences(self._length)[0])
            size = config.mini_batch_size or env.batch_size
            slices = list(split_evenly(number, number if size == "whole" else size))
            self._passes = ShuffledPasses(self.offline, self._length, slices, seeds)
        self._turn = 0  # updates since there is own experience to learn from
        take_statistics(algorithm.data_transformer, tape, config.device)

    @property
    def is_pretraining(self) -> bool:
        """Whether nobody is to act yet."""
        algorithm = self._algorithm
        return algorithm.offline_only or algorithm.progress.updates < self._config.rl_train_after_update_steps

    @property
    def updates_per_iter(self) -> int:
        """How many updates an iteration before the hand-over makes."""
        return self._config.num_updates_per_train_iter * (self._passes.num_batches if self._passes else 1)

    @property
    def is_offline(self) -> bool:
        """Whether the last iteration begins before the hand-over, so that nobody ever acts."""
        config, iterations = self._config, self._config.num_iterations
        if config.num_epochs is not None:
            iterations = config.num_epochs * ceil((config.num_steps_per_epoch or 0) / self.updates_per_iter)
        before_last = (iterations - 1) * self.updates_per_iter
        return self._algorithm.offline_only or 0 <= before_last < config.rl_train_after_update_steps

    def train(self, unrolled: Unrolled | None) -> None:
        collected = self._store(unrolled)
        learns_online = not self.is_pretraining and self._has_enough()
        for offline, online in self._pairs(collected, learns_online):
            wants_more = self._update_with(offline, online)
            self._turn += learns_online
            if not wants_more:
                break
        if learns_online:
            self._clear()

    def _pairs(self, collected: int, learns_online: bool) -> Iterator[tuple[Experience, Experience | None]]:
        """The mini batches of each update: recorded, and own ones or None."""
        number = self._num_updates(collected)
        if not learns_online:
            for _ in range(number * (self._passes.num_batches if self._passes else 1)):
                yield self._draw(), None
        elif self._passes is None:
            for _ in range(number):
                yield self._draw(), next(self._batches(1)) if self._is_online_turn else None
        else:
            for online in self._batches(number):
                while not self._is_online_turn:
                    yield self._draw(), None
                yield self._draw(), online

    @property
    def _is_online_turn(self) -> bool:
        return self._turn % self._config.rl_train_every_update_steps == 0

    def _draw(self) -> Experience:
        if self._passes is not None:
            return self._passes.next()
        return self._sample(self.offline)

    def _update_with(self, offline: Experience, online: Experience | None) -> bool:
        """One optimizer step; whether more are wanted."""
        algorithm = self._algorithm
        parts = [self._judge(offline, self.offline)]
        if online is not None:
            parts.append(self._judge(online, self.replay))
        loss_info = sum_of_losses(*parts)
        if self.updater.update(loss_info, parts[0].valid, [part.batch for part in parts]):
            for part in parts:
                self._reprioritize(part.sampled, part.loss, part.replay)
        algorithm.after_update()
        return all(algorithm.wants_more_updates(part.loss) for part in parts)

    def _judge(self, batch: Experience, replay: ReplayBuffer) -> Judged:
        """The loss of sequences that were drawn from `replay`."""
        prepared = self._prepare(batch, replay)
        loss_info, valid = self._loss(prepared)
        return Judged(loss_info, valid, prepared, batch.batch_info, replay)

    def state_dict(self) -> dict[str, Any]:
        """The recorded data are not part of it: they are where they were."""
        offline = {
            "stream": self._stream.get_state(),
            "passes": self._passes.state_dict() if self._passes else None,
            "turn": self._turn,
            "fingerprint": self._fingerprint,
            "priorities": self.offline.state_dict()["priorities"] if self._config.priority_replay else None,
        }
        return {**super().state_dict(), "offline": offline}

    def load_state_dict(self, state: dict[str, Any], first: TimeStep | None) -> None:
        super().load_state_dict(state, first)
        offline = state.get("offline")
        if offline is None:  # the run began without recorded data
            return
        self._turn = offline["turn"]
        if offline["fingerprint"] != self._fingerprint:
            _log.warning(
                "TrainerConfig.offline_buffer_dir holds other data than this run learned from so far: it goes on with "
                "these, not to the bit what it would have been"
            )
            return
        if self._config.priority_replay and offline["priorities"]:
            self.offline.load_state_dict({**self.offline.state_dict(), "priorities": offline["priorities"]})
        if self._passes and offline["passes"]:
            self._passes.load_state_dict(offline["passes"])
        self._stream.set_state(offline["stream"])


def sum_of_losses(offline: Judged, online: Judged | None = None) -> LossInfo:
    """The loss whose mean, weighted by `offline.valid`, is the mean of the one plus the mean of the other."""
    extra = {f"offline/{name}": part for name, part in nest.named_leaves(offline.loss.extra).items()}
    if online is None:
        return replace(offline.loss, extra=extra)
    own = nest.named_leaves(online.loss.extra)
    extra |= {f"online/{name}": weighted_mean(part, online.valid) for name, part in own.items()}
    scalar_loss = total_loss(online.loss, online.valid)
    if not isinstance(offline.loss.scalar_loss, tuple):
        scalar_loss = scalar_loss + offline.loss.scalar_loss
    return LossInfo(offline.loss.loss, scalar_loss, extra)


def _check(algorithm: RLAlgorithm, config: TrainerConfig) -> None:
    name = type(algorithm).__name__
    if algorithm.needs_rollout_info:
        raise ConfigError(
            f"TrainerConfig.offline_buffer_dir: {name} with its present options learns from what it noted while "
            "acting, such as probabilities, which recorded data do not have. RetraceTDLoss does; use @TDLoss"
        )
    if algorithm.offline_only and config.num_epochs is None and config.num_iterations == 0:
        raise ConfigError(
            f"TrainerConfig.num_env_steps = {config.num_env_steps}: {name} takes no environment steps, so the run "
            "would never end. Set num_iterations, or num_epochs and num_steps_per_epoch"
        )
