# One door: CI, the README and people call these targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup tune check test bench soak clean

VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null)
TUNE := --server mariadb --workload oltp_update_non_index --floor second --minutes 6

help: ## Say what each target does
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.ready ## Install what is missing; leaves .venv/bin/flushlab

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup.sh $(RUST)
	@scripts/setup.sh $(VENV)
	@touch $@

tune: setup ## The main job: tune the embedded MariaDB in about 7 minutes (TUNE='…' for other options)
	$(BIN)/flushlab tune $(TUNE) --out out

check: setup ## Lint, types, layers, unit and golden tests, cargo tests; needs no server
	$(BIN)/ruff format --check python tests benchmarks scripts examples
	$(BIN)/ruff check python tests benchmarks scripts examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m mypy.stubtest flushlab._core
	. scripts/cargo.sh && cargo fmt --check && cargo clippy --workspace --all-targets -q -- -D warnings && cargo test --workspace -q
	$(BIN)/pytest tests/unit tests/golden -n 2 -q

test: check ## check, then contract and integration tests with real servers
	@command -v mvn >/dev/null || scripts/packages.sh maven || echo 'going on without: absent builds are reported' >&2
	$(BIN)/pytest tests/contract tests/integration -n 3 --dist loadfile -q

bench: setup ## Ratios against peers, false positives of the whole procedure
	@command -v sysbench >/dev/null || scripts/packages.sh sysbench
	$(BIN)/python benchmarks/load_engine.py
	$(BIN)/python benchmarks/report_speed.py
	$(BIN)/python benchmarks/test_suite.py
	$(BIN)/python benchmarks/false_positives.py

soak: setup ## Long: 200 kills, 20 million changed packets, ten million damaged binlogs
	. scripts/cargo.sh && FLUSHLAB_MUTATIONS=20000000 cargo test --release -q -p flushlab-wire --test mutations
	. scripts/cargo.sh && FLUSHLAB_BINLOG_EXECUTIONS=10000000 cargo test --release -q -p flushlab-binlog --test mutations
	FLUSHLAB_KILLS=200 FLUSHLAB_REQUIRE_BUILDS=mariadb@10.11,mysql@5.7 $(BIN)/pytest tests/integration -q -k kill

clean: ## Remove what setup and the builds made here
	rm -rf $(VENV) target out
