# Two commands do all the set-up: `make train` and `make test`. `make venv` does the set-up alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: train test venv lint test-learning test-faults bench bench-quick clean

train: venv
	$(BIN)/python -m alfish.train --gin_file=ppo.gin

test: venv lint
	$(BIN)/python -m pytest -n 2
	$(BIN)/python tools/bench_quick.py --rounds 5

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# BINDINGS="TrainerConfig.compile='on'" is bound in every run; ARGS="-k DQN" is a part of it.
test-learning: venv
	BINDINGS="$(BINDINGS)" $(BIN)/python -m pytest tests/learning -v -s $(ARGS)

test-faults: venv
	$(BIN)/python -m pytest tests/faults -n 2

# More than an hour. `make bench ARGS="--workloads W1 --seconds 3"` is a part of it.
bench: venv
	$(BIN)/python tools/benchmark.py --json benchmark.json $(ARGS)

bench-quick: venv
	$(BIN)/python tools/bench_quick.py

venv: $(STAMP)

$(STAMP): setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .[dev,atari,mujoco]
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info
