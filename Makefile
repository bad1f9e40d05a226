# Needs python3 (3.11 or newer), git and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# MuJoCo's and numpy's small matrices are slower with several BLAS threads.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: study test test-all lint studies studies-full browser wheel clean

PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

# What optik needs, at the locked versions.
.venv/ready: requirements.lock pyproject.toml
	@echo "== setting up .venv (about a minute)"
	$(PYTHON) -m venv .venv
	$(PIP) -c requirements.lock -e .
	@touch $@

# What its tests need besides.
.venv/ready-to-test: .venv/ready
	@echo "== adding what the tests need (about a minute)"
	$(PIP) -r requirements.lock
	@touch $@

study: .venv/ready
	@echo "== studies/failure_at_limits.py"
	$(BIN)/python studies/failure_at_limits.py

# The five lessons and the headline at 200 problems a stratum; rewrites studies/results.
LESSONS := clamped_dls two_link so101 six_axis humanoid_foot
studies: .venv/ready
	@for lesson in $(LESSONS); do \
	  echo "== studies/lesson_$$lesson.py"; \
	  $(BIN)/python studies/lesson_$$lesson.py || exit 1; done
	@echo "== studies/constrained_or_clamped.py"
	$(BIN)/python studies/constrained_or_clamped.py

# Whole sets; takes long, and goes on where it was interrupted.
studies-full: .venv/ready
	$(BIN)/python studies/constrained_or_clamped.py --full

# Needs Chromium (Debian: apt-get install chromium chromium-driver).
browser: .venv/ready-to-test
	$(BIN)/python studies/browser_check.py

lint: .venv/ready-to-test
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

wheel: .venv/ready-to-test
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv dist build runs
