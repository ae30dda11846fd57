"""One measurement, in a process of its own: `python -m workloads.child LIBRARY WORKLOAD ...` prints JSON.

Run by `tools/benchmark.py`, with the interpreter that has the library and `tools/` on the path.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import warnings


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

    import torch

    from workloads.measuring import Request

    torch.set_num_threads(options.threads)
    module = importlib.import_module(f"workloads.{options.module}")
    reason = module.missing(options.variant) if hasattr(module, "missing") else None
    if reason:
        print(json.dumps({"skipped": reason}))
        return
    with tempfile.TemporaryDirectory() as folder:
        request = Request(options.workload, options.variant, options.threads, options.seconds, folder)
        print(json.dumps({"metrics": module.measure(request)}))


if __name__ == "__main__":
    main()
