"""One contestant, in a process of its own: `python -m workloads.child LIBRARY WORKLOAD ...` prints JSON, a line a turn.

Run by `tools/benchmark.py`, with the interpreter that has the library and `tools/` on the path. A training loop that
takes turns waits, after each, for a line of input, and ends with the input.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import warnings
from typing import Any, TextIO


class InputTurns:
    """The next turn begins with a line of input."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers

    def pass_on(self, metrics: Any) -> None:
        from workloads.measuring import Finished

        answer(self._answers, metrics=metrics)
        if not sys.stdin.readline():
            raise Finished


def answer(answers: TextIO, **said: Any) -> None:
    print(json.dumps(said), file=answers, flush=True)


def own_output() -> TextIO:
    """For answers alone: what libraries print goes where errors go."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="of this package, e.g. sb3_runs")
    parser.add_argument("workload")
    parser.add_argument("--variant", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    warnings.simplefilter("ignore")
    answers = own_output()

    import torch

    from workloads.measuring import Request

    torch.set_num_threads(options.threads)
    module = importlib.import_module(f"workloads.{options.module}")
    reason = module.missing(options.variant) if hasattr(module, "missing") else None
    if reason:
        answer(answers, skipped=reason)
        return
    with tempfile.TemporaryDirectory() as folder:
        turns = InputTurns(answers)
        request = Request(options.workload, options.variant, options.threads, options.seconds, folder, turns)
        answer(answers, metrics=module.measure(request), is_last=True)


if __name__ == "__main__":
    main()
