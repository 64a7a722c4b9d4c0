# make demo     train a small OLMo 3 on text of this machine, generate a sample
# make test     the tests that need no other framework
# make help     everything else
#
# Each command makes the virtual environment that it needs. PYTHON=... chooses the interpreter.

SHELL := /bin/bash
BIN := .venv/bin
DEMO_SECONDS ?= 90
DEMO_OUT ?= runs/demo
TEST_WORKERS ?= 2
STRESS_MINUTES ?= 5
PEERS := .venv-peers
TEST_ARGUMENTS ?=
# the tests start hundreds of processes, each of which would compile every module that it imports
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test sweep stress smoke lint format types imports docs peer bench check clean demo-environment \
	dev-environment peer-environment

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: demo-environment ## train for DEMO_SECONDS, generate a sample, say where everything is
	@$(BIN)/bedplate train --preset demo --minutes $$(awk 'BEGIN{print $(DEMO_SECONDS)/60}') \
		--out $(DEMO_OUT) --overwrite --sample "def "

test: dev-environment ## all tests but the peers'
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal --ignore=tests/external $(TEST_ARGUMENTS)

sweep: dev-environment ## the sweeps of `make test` at full length: hypothesis at 200 examples and others
	@BEDPLATE_SWEEP=full $(BIN)/python -m pytest -m sweep -n $(TEST_WORKERS) --dist worksteal \
		--timeout 1800 --ignore=tests/external $(TEST_ARGUMENTS)

stress: dev-environment ## eight threads that do everything at once, for STRESS_MINUTES
	@$(BIN)/python tests/stress_threads.py --minutes $(STRESS_MINUTES)

smoke: dev-environment ## everything once, under a minute
	@$(BIN)/python -m pytest tests/smoke.py

lint: dev-environment ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: dev-environment ## mend what ruff can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

types: dev-environment ## pyright
	@$(BIN)/pyright

imports: dev-environment ## the floors of ARCHITECTURE.md, by import-linter
	@$(BIN)/lint-imports

docs: dev-environment ## the site, into site/; a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going -q -E -b html docs site
	@echo "site/index.html"

peer: peer-environment ## tests against torch and transformers, in an environment of their own
	@$(PEERS)/bin/python -m pytest tests/external $(TEST_ARGUMENTS)

bench: dev-environment ## benchmarks beside the peers
	@.ci/environment $(PEERS) peers,bench
	@BEDPLATE_PEERS_PYTHON=$(PEERS)/bin/python $(BIN)/python -m benchmarks --only spine

check: format lint types imports smoke ## before each commit

clean: ## remove what make made
	rm -rf .venv .venv-peers site runs build dist

demo-environment:
	@.ci/environment .venv

dev-environment:
	@.ci/environment .venv dev

peer-environment:
	@.ci/environment $(PEERS) peers
