# Needs python3 (3.11 or newer), git and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# MuJoCo's and numpy's small matrices are slower with several BLAS threads.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: study test test-all lint studies studies-full wheel clean

.venv/ready: requirements.lock pyproject.toml
	@echo "== setting up .venv (about a minute)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

study: .venv/ready
	@echo "== studies/failure_at_limits.py"
	$(BIN)/python studies/failure_at_limits.py

lint: .venv/ready
	@echo "== ruff, mypy, layers"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	@echo "== tests"
	$(BIN)/python -m pytest -n 2

test-all: lint
	$(BIN)/python -m pytest -n 2 --every-robot

wheel: .venv/ready
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv dist build runs
