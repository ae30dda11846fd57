"""The workloads of `tools/benchmark.py`: one module per library, each run in a process of its own."""
