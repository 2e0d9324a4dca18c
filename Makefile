# Every target sets up what it needs: a machine with Python 3.11 and pip is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: demo test test-slow test-all notebooks docs lint format clean

demo: $(STAMP)
	$(BIN)/pyro-copula demo

test: $(STAMP) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m slow

# Every test in one run, with coverage; what they went through is written if all of them pass, and
# quoted in the README if they saw every error.
test-all: $(STAMP) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m 'slow or not slow' --cov --cov-report= --reliability experiments/results/reliability.json
	$(BIN)/python tests/error_paths.py
	$(BIN)/python tests/reliability.py

# One or some of them: make notebooks NOTEBOOKS="01_quickstart 02_copulas_from_scratch"
notebooks: $(STAMP)
	$(BIN)/python notebooks/execute.py $(NOTEBOOKS)

# The API reference, from the docstrings: docs/_build/index.html
docs: $(STAMP)
	$(BIN)/python docs/build.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Wheels only: nothing is compiled, and nothing outside .venv is touched.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --prefer-binary --only-binary :all: -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build docs/_build *.egg-info .pytest_cache .ruff_cache .mypy_cache
