# `make help` lists the targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Where pip looks for torch; the CPU build, which is smaller: make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
VENV ?= .venv
PROFILE ?= desk
SEEDS ?=
LAUNCHER ?= local
# Training time of the quickstart [s].
QUICKSTART_SECONDS ?= 600

BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
QUICKSTART := runs/quickstart

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup quickstart test test-slow test-all test-minimum lint types check-figures ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with all that the project needs; a second call has nothing to do

$(STAMP): pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; PYTHON=/path/to/python3.11 says where it is" >&2; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) || \
	  { echo "the virtual environment cannot be made; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(BIN)/python -m pip install --quiet -e '.[all]'
	@touch $@

quickstart: setup ## train Pong for ten minutes, draw a figure and a table, record a video
	@if [ -f $(QUICKSTART)/metadata.json ]; then $(BIN)/srl resume $(QUICKSTART); \
	else $(BIN)/srl run pong --run-dir $(QUICKSTART) budget.seconds=$(QUICKSTART_SECONDS) evaluation.interval_seconds=60; fi
	@test -f $(QUICKSTART)/video.mp4 || $(BIN)/srl eval $(QUICKSTART) --episodes 4 --video $(QUICKSTART)/video.mp4
	@$(BIN)/python -m analysis run $(QUICKSTART)
	@echo "video: $(QUICKSTART)/video.mp4"
	@echo "checkpoint: $$(ls -d $(QUICKSTART)/checkpoints/*/* | tail -n 1)"

test: setup ## fast tests
	$(BIN)/python -m pytest -q -m 'not slow and not integration' -n 2

test-slow: setup ## the other tests: slow ones, and those that start processes and train
	$(BIN)/python -m pytest -q -m 'slow or integration'

test-all: test test-slow ## all tests

test-minimum: ## fast tests with the oldest versions that pyproject.toml allows, in a virtual environment of its own
	@test -x .venv-minimum/bin/python || "$(PYTHON)" -m venv .venv-minimum
	.venv-minimum/bin/python tests/minimum_versions.py > .venv-minimum/minimum.txt
	.venv-minimum/bin/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) \
	  $$(grep '^torch==' .venv-minimum/minimum.txt)
	.venv-minimum/bin/python -m pip install --quiet -r .venv-minimum/minimum.txt
	.venv-minimum/bin/python -m pip install --quiet --no-deps -e .
	.venv-minimum/bin/python -m pytest -q -m 'not slow and not integration' -n 2

lint: setup ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## types
	$(BIN)/pyright --pythonpath $(BIN)/python

check-figures: setup ## compare every table under results/ with its data
	$(BIN)/python -m analysis check

reproduce-%: setup ## run a figure of the paper and draw it: PROFILE=smoke|desk|node|cluster SEEDS=n
	$(BIN)/python -m reproductions $* --profile $(PROFILE) $(if $(SEEDS),--seeds $(SEEDS)) --launcher $(LAUNCHER)

bench-%: setup ## measure: throughput, dataflow, streams or peers
	$(BIN)/python -m srl_core.bench.$*

ci: ## all that continuous integration runs
	.ci/run

clean: ## remove what dead runs left, and caches; runs, results and .venv stay
	@test ! -x $(BIN)/srl || $(BIN)/srl clean
	rm -rf build dist .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)*' -prune -exec rm -rf {} +
