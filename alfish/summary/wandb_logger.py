"""Numbers to Weights & Biases, which comes with `pip install 'alfish[wandb]'`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.summary.writer import Moment


@configurable
class WandbLogger:
    """Sends the numbers of a run to Weights & Biases; iterations are the default axis of its plots.

    A run that goes on goes on there, too. There, numbers that come a second time are shown twice.

    Args:
        project: where the run belongs to.
        entity: user or team; None: the default one.
        name: of the run; None: the name of its folder.
        group: of runs that belong together.
        tags: of the run.
        mode: 'offline' keeps everything in the folder of the run, for `wandb sync`; None: as the environment variable
            WANDB_MODE says.
    """

    def __init__(
        self,
        project: str = "alfish",
        entity: str | None = None,
        name: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        mode: Literal["online", "offline", "disabled"] | None = None,
    ) -> None:
        self._options = {"project": project, "entity": entity, "group": group, "tags": list(tags), "mode": mode}
        self._name = name
        self._folder = Path()
        self._wandb: Any = None
        self._id: str | None = None
        self._run: Any = None

    def open(self, folder: Path) -> None:
        try:
            self._wandb = importlib.import_module("wandb")
        except ImportError as error:
            raise ConfigError(
                f"TrainerConfig.loggers: WandbLogger needs wandb, which cannot be imported ({error}). Install it with: "
                "pip install 'alfish[wandb]'"
            ) from error
        self._folder = folder

    def write(self, moment: Moment, values: Mapping[str, float]) -> None:
        if self._run is None:
            self._run = self._begin()
        axes = {"iterations": moment.iterations, "env_steps": moment.env_steps, "seconds": moment.seconds}
        if moment.update is not None:
            axes["updates"] = moment.update
        self._run.log({**axes, **values})

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None

    def state_dict(self) -> dict[str, Any]:
        return {"id": self._id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._id = state["id"]

    def _begin(self) -> Any:
        """With the first numbers: by then it is known whether a run goes on, and its config.gin is in the folder."""
        config = self._folder / "config.gin"
        run = self._wandb.init(
            **self._options,
            name=self._name or self._folder.resolve().name,
            dir=str(self._folder),
            config={"config.gin": config.read_text()} if config.is_file() else {},
            id=self._id,
            resume="allow",
        )
        self._id = run.id
        run.define_metric("iterations")
        run.define_metric("*", step_metric="iterations")
        return run
