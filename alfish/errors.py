"""What can go wrong, and the exit code a command leaves with.

Every error that a user can cause or mend is an `AlfishError`: the entry points print its message without a
traceback and leave with its `exit_code`. Anything else is a bug of ours, and keeps its traceback.
"""


class AlfishError(Exception):
    """An error with a message for people: what, where, the nearest valid thing, the next step."""

    exit_code = 1


class ConfigError(AlfishError):
    """The command line or the configuration is wrong; nothing was started."""

    exit_code = 2


class EnvironmentFault(AlfishError):
    """An environment raised, died, hung, or returned what its spaces do not allow."""

    exit_code = 3


class NumericFault(AlfishError):
    """A loss or a gradient is not finite."""

    exit_code = 4

    def __init__(self, message: str, batch: object = ()) -> None:
        super().__init__(message)
        self.batch = batch  # what it was computed from


class StorageFault(AlfishError):
    """The run folder cannot be written: full, read-only, locked by another run."""

    exit_code = 5


class CheckpointError(AlfishError):
    """A checkpoint is missing, damaged, or does not fit the configuration."""

    exit_code = 6


class CheckpointMisfit(CheckpointError):
    """A checkpoint is whole, but of another configuration."""


class WorkerLost(AlfishError):
    """A child process died more often than it may."""

    exit_code = 7


class RankFault(WorkerLost):
    """Processes that train together lost each other, or their parameters differ."""
