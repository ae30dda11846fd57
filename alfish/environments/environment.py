"""`Environment`: a batch of environments that speaks in time steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

import numpy as np

from alfish.specs import TensorSpec
from alfish.types import Nest, TimeStep


class Environment(ABC):
    """`B` environments stepped together. Every backend yields the same stream of `TimeStep`s.

    Each environment yields FIRST MID ... LAST FIRST ...: the step after LAST starts the next episode, and the action
    given to it is ignored. So a call of `step` makes one *environment step* for every row that is not FIRST:

        env_steps = int((~time_step.is_first()).sum())

    Tensors are fresh at every step and never overwritten later. Actions are `[B, ...]` tensors of `action_spec`.
    """

    # Whether an episode is a function of (seed, environment index, episode number) and its actions. Then a run can be
    # resumed to the bit, and batch size, backend and the other environments do not change an episode.
    exact_resume: bool = False

    # How the backend was chosen and by which numbers, for the report at the start; "" when nothing was measured.
    remark: str = ""

    name: str
    batch_size: int
    observation_spec: Nest
    action_spec: Nest
    reward_spec: TensorSpec  # shape () or, for a vector reward, (R,)
    env_info_spec: Nest  # dict of float32 scalars, or () when no info_keys were asked for

    @property
    def num_restarts(self) -> int:
        """How often an environment failed and was rebuilt, see `create_environment.on_env_error`."""
        return 0

    @abstractmethod
    def reset(self, seed: int | None = None) -> TimeStep:
        """A new episode in every environment: all rows are FIRST, with reward 0, discount 1 and prev_action zeros.

        Args:
            seed: the root that the seeds of all episodes follow from; restarts the numbering of episodes. None: go
                on with the next episode, or, the first time, with a root nobody chose.
        """

    @abstractmethod
    def step(self, action: Nest) -> TimeStep:
        """One step in every environment; environments at LAST start their next episode instead."""

    def state_dict(self) -> dict[str, Any]:
        """Where the episodes are, for `restore`; only with `exact_resume`. Tensors and plain values."""
        raise NotImplementedError

    def restore(self, state: dict[str, Any], time_step: TimeStep) -> list[int]:
        """Brings every environment to where it was, by playing its episode again up to `time_step`.

        Returns the rows where it did not come out the same, because the environment is not deterministic, or is too
        long to be remembered. Their episodes are over: the next step begins new ones.
        """
        raise NotImplementedError

    def render(self) -> np.ndarray[Any, Any] | None:
        """The picture `[H, W, 3]` of environment 0, or None when it has none (`render_mode` is not 'rgb_array')."""
        return None

    def close(self) -> None:
        """Frees processes and windows. Calling it twice is fine."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
