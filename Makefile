# Everything that is run in this repository has its target here; `make` alone lists them.
#
# The targets keep a virtual environment of their own in .venv. Its stamp files stand for "installed as pyproject.toml
# says", so that a second run starts at once. Another Python: make PYTHON=python3.12 (after `make clean`).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALLED := $(VENV)/.installed
INSTALLED_FOR_TESTS := $(VENV)/.installed-for-tests
INSTALLED_FOR_BENCH := $(VENV)/.installed-for-bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format soak bench clean

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: $(INSTALLED) ## install the package and watch it admit and refuse
	@$(BIN)/sidecar demo

test: lint ## everything that continuous integration runs: lint, types, tests
	@.ci/debian-install $$(grep -v '^#' tests/debian-packages.txt) || echo "Tests that need them are skipped."
	$(BIN)/pytest -m "not soak"

lint: $(INSTALLED_FOR_TESTS) ## formatting, lint and types, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED_FOR_TESTS) ## format, and repair what lint can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: $(INSTALLED_FOR_TESTS) ## the tests that run for minutes
	$(BIN)/pytest -m soak

# As root everything is measured twice, the second time with proxies that run as nobody in particular.
bench: $(INSTALLED_FOR_BENCH) ## measure against no proxy, HAProxy and Envoy (an hour; the machine should do nothing else)
	@.ci/debian-install gcc libc6-dev libssl-dev
	$(BIN)/python -m benchmarks run --save build/benchmarks/results.json
	[ "$$(id -u)" -ne 0 ] || $(BIN)/python -m benchmarks run --user 65000 --save build/benchmarks/unprivileged.json
	$(BIN)/python -m benchmarks page build/benchmarks/*.json

clean: ## remove what these targets made
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find sidecar tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is what a virtual environment gets last: where it is, the environment is whole.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here. Install Python 3.11 or later, or name it: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || .ci/debian-install python3-venv
	@$(PYTHON) -m venv --clear $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/pip
	@echo "Installing into $(VENV) ..."
	@$(PIP_INSTALL) --editable .
	@touch $@

$(INSTALLED_FOR_TESTS): pyproject.toml | $(BIN)/pip
	@echo "Installing into $(VENV), with what tests need ..."
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(INSTALLED)

$(INSTALLED_FOR_BENCH): pyproject.toml | $(BIN)/pip
	@echo "Installing into $(VENV), with what the benchmarks compare with ..."
	@$(PIP_INSTALL) --editable '.[bench]'
	@touch $@ $(INSTALLED)
