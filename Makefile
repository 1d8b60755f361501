SHELL := /bin/bash
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.PHONY: help demo test check bench soak generate lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

# The stamp makes a second run instant; it is renewed only when the lock or the project file changes.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpufence needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (once, about a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## see real pods mutated and refused by a real webhook (ARGS=--once ends by itself)
	@$(BIN)/gpufence demo $(ARGS)

test: $(STAMP) ## run the whole test suite
	@$(BIN)/python -m pytest $(ARGS)

check: $(STAMP) ## ruff, mypy --strict, import-linter, generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m cli.generate --check

bench: $(STAMP) ## time the decision and the webhook, as ratios to baselines of the same run
	@$(BIN)/python -m benchmarks.decide $(ARGS)
	@$(BIN)/python -m benchmarks.metrics
	@$(BIN)/python -m benchmarks.webhook $(ARGS)

soak: $(STAMP) ## 100,000 wrong requests to a real webhook (ARGS='--seed N --requests N')
	@$(BIN)/python -m soak $(ARGS)

generate: $(STAMP) ## write the pages, CRD and policies that are made from code anew
	@$(BIN)/python -m cli.generate

lock: ## resolve requirements.lock anew (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group dev pyproject.toml -o requirements.lock

clean: ## remove .venv and caches
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
