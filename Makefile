# One door: CI, the README and people call these targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Commands and tests start flushlab hundreds of times: where the environment forbids compiled modules, as images
# of Python do, each start would compile it anew.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: help setup tune quick check unit statics docs rust checks suite test fetch coverage bench soak wheel supply release clean

VENV := .venv
TOOLS := target/tools
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null)
SERVERS := mariadb@10.11 mysql@5.7 mysql@8.0 mysql@9.7 mariadb@11.8 mariadb@11.4
COVERED := tests/unit tests/golden
TUNE := --server mariadb --workload oltp_update_non_index

help: ## Say what each target does
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.ready ## Install what is missing; leaves .venv/bin/flushlab

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup.sh $(RUST)
	@scripts/setup.sh $(VENV)
	@touch $@

tune: setup ## The main job: tune the embedded MariaDB in 5 minutes, in 10 with little memory (TUNE='…' for other options)
	$(BIN)/flushlab tune $(TUNE) --out out

# Side by side: types keep one processor busy; cargo and the unit tests use what is left, and neither waits for the other.
check: setup ## Lint, types, layers, unit and golden tests, cargo tests; needs no server
	@$(MAKE) --no-print-directory -j3 --output-sync=target statics rust unit

quick: setup ## Judge the changes since the merge base with main: linters, types, the unit tests that import them
	@$(BIN)/python scripts/quick.py

unit: setup
	$(BIN)/pytest tests/unit tests/golden -n 2 -q

# The stub of the native core is compared by itself: within its package, all modules would be type-checked again.
statics: docs
	$(BIN)/ruff format --check python tests benchmarks scripts examples
	$(BIN)/ruff check python tests benchmarks scripts examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/prose.py
	$(BIN)/python scripts/size.py
	@mkdir -p target/stub/flushlab && : >target/stub/flushlab/__init__.pyi && cp python/flushlab/_core.pyi target/stub/flushlab/
	MYPYPATH=target/stub $(BIN)/python -m mypy.stubtest flushlab._core

docs: setup ## Build the documentation into target/docs-site/site/, strictly: every link and anchor resolves
	$(BIN)/python scripts/docs_site.py

rust: private export MAKEFLAGS =# cargo would look for make's job server, in vain
# Clippy compiles what the tests run, so that our crates are read once. Other crates come from setup's build: the file is what
# pyo3 was configured with there.
rust: private export RUSTC_WORKSPACE_WRAPPER = clippy-driver
rust: private export CLIPPY_ARGS = -Dwarnings
PYO3 = $(addprefix PYO3_CONFIG_FILE=,$(firstword $(wildcard $(CURDIR)/target/maturin/pyo3-config-$(shell uname -m)-*-gnu-*.txt)))
rust: setup
	. scripts/cargo.sh && cargo fmt --check
	. scripts/cargo.sh && $(PYO3) cargo build -q --workspace --all-targets --profile test
	. scripts/cargo.sh && cargo test -q --workspace --no-fail-fast

# Tests wait for disks and clocks a sixth of their time: cargo and mypy use it, and give way. If a check fails, the tests go on,
# and its output comes again at the end.
test: fetch ## check, then unit tests and tests with real servers side by side
	@$(MAKE) --no-print-directory -j3 --output-sync=target checks suite || { grep -B 60 '[*][*][*]' target/checks.log; exit 1; } >&2

checks: setup
	@mkdir -p target
	+@nice $(MAKE) --no-print-directory statics rust 2>&1 | tee target/checks.log

suite: private export MAKEFLAGS =
suite: setup
	+$(BIN)/pytest tests -n 5 --dist loadgroup --no-loadscope-reorder -q

coverage: setup ## Statements and branches that unit and golden tests reach (COVERED='…' for other tests); pages in target/coverage/html/
	@mkdir -p target/coverage && rm -f target/coverage/data*
	$(BIN)/coverage run -m pytest $(COVERED) -n 2 -q
	$(BIN)/coverage combine -q
	$(BIN)/coverage html -q
	$(BIN)/coverage report

# Programs, packages that bring them, the consequence of their absence.
need = @type -P $(1) >/dev/null || scripts/packages.sh $(2) || echo 'going on without: $(3)' >&2

# The servers come over the network while the rest is checked; one that cannot be had is reported by the tests.
fetch: setup
	$(call need,mvn,maven,absent builds are reported)
	$(call need,mydumper mariadb-dump mariabackup,mydumper mariadb-client mariadb-backup,tests of these tools are skipped)
	$(call need,mkfs.xfs mkfs.btrfs,xfsprogs btrfs-progs,tests of disks with these file systems are skipped)
	$(call need,sysbench,sysbench,comparisons with its load are skipped)
	$(call need,chromium,chromium,tests of pages in a browser are skipped)
	$(call need,promtool,prometheus,tests of metrics and alerts with promtool are skipped)
	@for server in $(SERVERS); do nice $(BIN)/flushlab server get $$server || true; done >/dev/null 2>&1 </dev/null &

bench: setup ## Ratios against peers, false positives of the whole procedure
	@command -v sysbench >/dev/null && command -v fio >/dev/null || scripts/packages.sh sysbench fio
	. scripts/cargo.sh && VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop -q --release # the core of a wheel
	$(BIN)/python benchmarks/load_engine.py
	$(BIN)/python benchmarks/report_speed.py
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/probe_disk.py
	$(BIN)/python benchmarks/probe_scaling.py
	$(BIN)/python benchmarks/test_suite.py
	@test -d /usr/lib/postgresql || scripts/packages.sh postgresql
	$(BIN)/python benchmarks/undo.py
	@command -v mvn >/dev/null || scripts/packages.sh maven
	$(BIN)/python benchmarks/flyway_suite.py
	$(BIN)/python benchmarks/flyway_suite.py --part suite --server mysql@5.7 --disk iops=120
	$(BIN)/python benchmarks/django_migrations.py
	$(BIN)/python benchmarks/public_suites.py
	$(BIN)/python benchmarks/dump_load.py
	$(BIN)/python benchmarks/fill.py
	$(BIN)/python benchmarks/commit_path.py
	@command -v mkfs.xfs >/dev/null && command -v mkfs.btrfs >/dev/null || scripts/packages.sh xfsprogs btrfs-progs
	$(BIN)/python benchmarks/fault_disk_cost.py record
	$(BIN)/python benchmarks/fault_disk_cost.py profiles
	$(BIN)/python benchmarks/fault_disk.py
	$(BIN)/python benchmarks/false_positives.py
	$(BIN)/python benchmarks/fleet_statistics.py --campaigns 4000
	$(BIN)/python benchmarks/fleet_tuning.py --campaigns 2000
	$(BIN)/python benchmarks/fleet_scheduling.py
	$(BIN)/python benchmarks/fleet_constants.py
	$(BIN)/python benchmarks/journeys.py
	$(BIN)/python benchmarks/kept_running.py
	$(BIN)/python benchmarks/tune_runs.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/watch.py --synced
	$(BIN)/python benchmarks/watch.py --inside --pairs 60 --duration 2
	for threads in 1 64 500; do $(BIN)/python benchmarks/watch.py --doctor --threads $$threads; done
	$(BIN)/python benchmarks/doctor_scale.py
	$(BIN)/python benchmarks/doctor_planted.py --healthy
	$(BIN)/python benchmarks/doctor_planted.py
	@command -v chromium >/dev/null || scripts/packages.sh chromium
	$(BIN)/python benchmarks/watch_page.py --part speed

soak: export FLUSHLAB_EVERY_FLAVOR = 1
soak: setup $(TOOLS)/.ready ## Long: licenses and advisories, wheels in empty environments, the tests on mutants of the sources, the tests with real servers on every server, all tests on four worse machines, 100 comparisons of identical servers, 200 kills of servers and of disks, disks at load 100 and short of memory, 100 campaigns on a fleet whose machines fail, a series with real servers on one and on four machines, 1,000 of each commit pipeline and an hour of random ones, 20 million changed packets, 5,000 option files on each server, starts with 10,000 option files beside files of somebody else, 20,000 sessions of suites undone on each server, ten million damaged binlogs, binlogs as three independent readers read them
	$(MAKE) --no-print-directory supply wheel
	$(BIN)/python scripts/install_check.py dist/flushlab-*x86_64.whl --tools $(TOOLS)/bin
	. scripts/cargo.sh && FLUSHLAB_MUTATIONS=20000000 cargo test --release -q -p flushlab-protocol --test mutations
	. scripts/cargo.sh && FLUSHLAB_BINLOG_EXECUTIONS=10000000 cargo test --release -q -p flushlab-binlog --test mutations
	@command -v mvn >/dev/null && command -v javac >/dev/null && command -v go >/dev/null || scripts/packages.sh maven default-jdk-headless golang-go
	. scripts/cargo.sh && $(BIN)/python benchmarks/binlog_readers.py
	. scripts/cargo.sh && FLUSHLAB_COMMIT_KILLS=1000 FLUSHLAB_COMMIT_STRESS_SECONDS=3600 cargo test --release -q -p flushlab-commitpath --test kills
	FLUSHLAB_DISK_KILLS=200 $(BIN)/pytest tests/integration/test_fault_disk.py -q -s --timeout 0 -k any_moment
	$(BIN)/python benchmarks/fault_disk_pressure.py
	$(BIN)/python benchmarks/fleet_chaos.py --runs 100 --budget 120
	$(BIN)/python benchmarks/fleet_servers.py
	$(BIN)/python scripts/mutants.py
	FLUSHLAB_CAMPAIGNS=2000 $(BIN)/pytest tests/unit/experiment/test_false_positives.py tests/unit/campaign/fleet/test_false_claims.py -n 2 -q --timeout 0
	FLUSHLAB_UNDO_SESSIONS=20000 $(BIN)/pytest tests/integration/test_undo.py -n 2 -q --timeout 0 -k any_session
	FLUSHLAB_TREES=1000 $(BIN)/pytest tests/unit/test_what_is_the_users.py -n 2 -q --timeout 0
	FLUSHLAB_OPTION_FILES=5000 $(BIN)/pytest tests/contract/test_check_soak.py -q --timeout 0
	FLUSHLAB_STARTED_FILES=10000 FLUSHLAB_EVERY_FLAVOR=1 $(BIN)/pytest tests/integration/test_planted.py -q --timeout 0
	$(BIN)/python benchmarks/identical_arms.py --campaigns 100
	FLUSHLAB_OPTION_FILE_SERVERS=mariadb@10.11,mysql@8.0 $(BIN)/pytest tests/integration/test_option_files.py -q --timeout 0 -k windows
	$(BIN)/pytest tests/contract tests/integration -n 2 --dist loadgroup -q -m every_flavor
	for kind in neighbour one-core slow-syncs clock; do scripts/adverse_machine.sh $$kind $(BIN)/pytest tests -n 4 --dist loadgroup --no-loadscope-reorder -q; done
	FLUSHLAB_KILLS=200 FLUSHLAB_REQUIRE_BUILDS=mariadb@10.11,mysql@5.7 $(BIN)/pytest tests/integration -q -k kill

$(TOOLS)/.ready: scripts/release_tools.txt | setup
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q --disable-pip-version-check -r scripts/release_tools.txt
	@touch $@

wheel: setup $(TOOLS)/.ready ## Build the source distribution and the wheels for x86-64 and aarch64 into dist/, and check them
	. scripts/cargo.sh && $(BIN)/python scripts/wheel.py

supply: setup $(TOOLS)/.ready ## Check licenses and known vulnerabilities of crates and Python packages, and lint the Containerfile
	$(TOOLS)/bin/hadolint Containerfile
	scripts/supply_chain.sh

release: setup $(TOOLS)/.ready ## Make release VERSION=X.Y.Z in a clean clone: checks, tag, wheels, SBOMs, checksums, site; upload nothing
	. scripts/cargo.sh && $(BIN)/python scripts/release.py "$(VERSION)"

clean: ## Remove what setup and the builds made here
	rm -rf $(VENV) target out dist
