# make install   set up .venv with the locked dependencies (every other target does it when needed)
# make demo      two real tables from release to posterior, with an HTML report for each
# make test      the tests of the mathematics; make test-system those of kills, disks and packages; make test-full all of them
# make lint      style, types and import rules
# make help      all targets
#
# PYTHON=/path/to/python3.13 make install   chooses the interpreter that .venv is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LINTS := lint-rules lint-layout lint-types lint-imports lint-size
LOCK_OPTIONS ?=
PYTEST_OPTIONS ?=
CASES ?= 5000
SEED ?= 1
LOWEST := .venv-lowest
LOWEST_PYTHON ?= 3.12
LOWEST_TESTS ?= tests

# Tests and notebooks start some hundred interpreters. Where the environment forbids files of bytecode, each of them would translate
# PyMC and this package again, which takes three seconds of a processor and is three quarters of the time of an import.
export PYTHONDONTWRITEBYTECODE :=

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.PHONY: help install lock dist demo test test-system test-full test-lowest lint $(LINTS) bench calibration notebooks notebooks-quick fuzz docs clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

# ---------------------------------------------------------------------------------------------------- environment

install: $(INSTALLED) ## set up .venv: locked dependencies and this package, editable

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	  echo "make: there is no '$(PYTHON)'. bayesdp needs Python 3.12 or newer: install one, then run" >&2; \
	  echo "make:   make install PYTHON=/path/to/python3.13" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  echo "make: bayesdp needs Python 3.12 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1 | head -n 1)." >&2; \
	  echo "make: Install a newer one, then run: make install PYTHON=/path/to/python3.13" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# pip is used once, to fetch uv: its entry in the lock (the pin and the hashes) is all that pip needs.
$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/python
	sed -n '/^uv==/,/^    # via/p' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --only-binary :all: --no-deps -r $(VENV)/uv.lock
	$(BIN)/uv pip sync --python $(BIN)/python --require-hashes --only-binary :all: requirements.lock
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

lock: $(INSTALLED) ## rewrite requirements.lock from pyproject.toml (LOCK_OPTIONS=--upgrade for newer versions)
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --group docs --universal --python-version 3.12 \
	  --generate-hashes --only-binary :all: --no-emit-index-url --no-header $(LOCK_OPTIONS) \
	  --quiet --output-file requirements.lock

# ------------------------------------------------------------------------------------------------------- products

dist: $(INSTALLED) ## wheel and sdist in dist/, with the backend of .venv: nothing is fetched
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -t wheel -d dist

demo: $(INSTALLED) ## two real tables from release to posterior, with an HTML report for each
	$(BIN)/python -m bayesdp demo

# --------------------------------------------------------------------------------------------------------- checks

# A file's tests stay in one process: what they share is compiled once.
test: $(INSTALLED) ## the tests without the slow ones and those of test-system, and the slowest durations
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not system" $(PYTEST_OPTIONS)

test-system: $(INSTALLED) ## kills, full disks, mutated files, clusters, packages, the pages of docs/; posteriors sampled, calibrated and reported from end to end
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "system and not slow" tests docs $(PYTEST_OPTIONS)

test-full: $(INSTALLED) ## all the tests, the slow ones included, with coverage
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term $(PYTEST_OPTIONS)

# Wheels only. What pyproject.toml names is as old as it may be; what these need in turn is the newest that goes with them.
$(LOWEST)/.installed: pyproject.toml | $(INSTALLED)
	$(BIN)/uv venv --clear --python "$(LOWEST_PYTHON)" $(LOWEST)
	$(BIN)/uv pip compile pyproject.toml --all-extras --resolution lowest-direct --only-binary :all: --no-header \
	  --python $(LOWEST)/bin/python --quiet --output-file $(LOWEST)/lowest.txt
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --only-binary :all: --requirement $(LOWEST)/lowest.txt --group dev --group docs
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --no-deps --no-build-isolation --editable .
	touch $@

test-lowest: $(LOWEST)/.installed ## the same with the lowest versions that pyproject.toml allows; LOWEST_PYTHON=3.13, LOWEST_TESTS=tests/noise
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadfile -m "not slow" $(LOWEST_TESTS) $(PYTEST_OPTIONS)

fuzz: $(INSTALLED) ## mutated files of every kind that is read; CASES=20000 SEED=7; fails at a defect, and keeps its file
	$(BIN)/python -m tests.storage.fuzz.run --cases $(CASES) --seed $(SEED)

lint: $(LINTS) ## all checks of the source, and its size; -k goes on after a failure

lint-rules: $(INSTALLED) ## ruff's rules
	$(BIN)/ruff check .

lint-layout: $(INSTALLED) ## ruff's layout; `ruff format` mends it
	$(BIN)/ruff format --check .

lint-types: $(INSTALLED) ## mypy
	$(BIN)/mypy

lint-imports: $(INSTALLED) ## who may import whom
	$(BIN)/lint-imports

# Nothing is said of main where there is no such branch, as in an archive of the sources.
lint-size: ## lines and files of the package, beside those of the last commit on main
	@echo "bayesdp: $$(find bayesdp -name '*.py' -exec cat {} + | wc -l) lines in $$(find bayesdp -name '*.py' | wc -l) files"
	@! git rev-parse --verify --quiet main >/dev/null 2>&1 || echo "on main: $$(git archive main bayesdp | tar -x -O \
	  --wildcards '*.py' | wc -l) lines in $$(git ls-tree -r --name-only main bayesdp | grep -c '\.py$$') files"

bench: $(INSTALLED) ## the benchmarks, with the load of the machine before and after
	@$(BIN)/python -c 'import os; print("load average before: %.2f %.2f %.2f on %d cores" % (*os.getloadavg(), os.cpu_count()))'
	$(BIN)/python -m pytest benchmarks/ --benchmark-only --durations=0 $(PYTEST_OPTIONS)
	@$(BIN)/python -c 'import os; print("load average after: %.2f %.2f %.2f on %d cores" % (*os.getloadavg(), os.cpu_count()))'

calibration: $(INSTALLED) ## every mechanism x 2 priors x 2 invariants, and hierarchies; goes on where it was stopped
	$(BIN)/python -m benchmarks.calibration.matrix --workers 2 --folder .cache/calibration \
	  --output notebooks/data/calibration_matrix.csv
	$(BIN)/python -m benchmarks.calibration.hierarchy --workers 2 --folder .cache/calibration \
	  --output notebooks/data/calibration_hierarchy.csv
	$(BIN)/python -m benchmarks.calibration.law_checks --output notebooks/data/law_checks.csv

notebooks: $(INSTALLED) ## run every notebook in full, twice, and store the outputs if the numbers agree
	$(BIN)/python notebooks/run.py --twice --store

notebooks-quick: $(INSTALLED) ## run every notebook with small numbers of draws; nothing is stored; tests find the kernels it compiles
	NUMBA_CACHE_DIR="$$($(BIN)/python conftest.py)" BAYESDP_QUICK=1 $(BIN)/python notebooks/run.py --jobs 2

docs: $(INSTALLED) ## the site in build/site, from docs/, the notebooks and the package itself; warnings and dead links are errors
	NUMBA_CACHE_DIR="$$($(BIN)/python conftest.py)" $(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	BAYESDP_SITE=build/site $(BIN)/python -m pytest -n0 -q --durations=0 tests/docs/test_site.py
	@echo "the site is at $(CURDIR)/build/site/index.html"

# ---------------------------------------------------------------------------------------------------------- tidying

clean: ## remove caches, coverage data and built files (not .venv and .venv-lowest)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks .cache .coverage .coverage.* htmlcov build dist
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -not -path './$(LOWEST)/*' -prune -exec rm -rf {} +
