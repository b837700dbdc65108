# Nothing but python3 >= 3.11 and make is needed; `make setup` brings the rest into .venv.
PYTHON ?= python3
BIN := .venv/bin
COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help setup demo example test check check-all lint format wheel-test test-live test-postgres test-bigquery test-governing test-oracle test-cache test-cache-faults test-cache-bounds test-memo test-evidence races test-hostile test-adversarial mutants conformance conformance-mutants replay evals bench lock

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: .venv/.project ## .venv from requirements.lock, and the project in it; does nothing the second time

.venv/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make setup PYTHON=python3.13" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

.venv/.project: .venv/.locked pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## the whole story over loopback HTTP
	@$(BIN)/dataset-agent demo

example: setup ## two dataset agents, one of which completes its answer from the other
	@$(BIN)/python -m examples.two_agents

test: setup ## the tests, on every core
	$(BIN)/python -m pytest -n auto --dist loadfile

test-live: setup ## agents, stores and commands as people run them: started, stopped, killed and raced (minutes)
	$(BIN)/python -m pytest -n auto --dist loadfile -m live

check: lint wheel-test test ## what CI runs at every commit

check-all: check test-live ## what is run before a release

lint: setup ## ruff, mypy and the floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup ## what ruff can put right by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel-test: setup ## the demo from the built wheel, in an environment without this folder
	$(BIN)/python -m pytest -m wheel_demo tests/project

test-postgres: setup ## the ledger on a real PostgreSQL server: the contract of its stores, killed servers, accounts
	$(BIN)/python -m pytest -m live tests/postgres

test-bigquery: setup ## the BigQuery engine against an emulator, in an environment of its own; TESTS='-k cancel'
	$(BIN)/python -m tests.bigquery.emulator $(TESTS)

races: setup ## what happens once of 64 at once in 4 processes: uses of a leaf, cold calls, a killed leader; RACES='--only cold --json'
	$(BIN)/python -m tests.races $(RACES)

test-governing: setup ## thousands of random scopes over shipped and hostile templates, against an oracle; GOVERNING='--seed 7'
	$(BIN)/python -m tests.governing $(GOVERNING)

test-cache: setup ## 100,000 random pairs of each kind through the cache on both stores, against an oracle; CACHE='--pairs 5000 --json'
	$(BIN)/python -m tests.cachelaw $(CACHE)

test-memo: setup ## what is remembered of words: hits and errors on the committed pairs of questions, by kind; MEMO='--json'
	$(BIN)/python -m tests.memo $(MEMO)

test-cache-faults: setup ## a cache server stopped, silent, full, evicting and failing over under a real agent: what it costs; FAULTS='--json'
	$(BIN)/python -m tests.cachefaults $(FAULTS)

test-adversarial: setup ## every attack on the real agents, with a model that obeys the attacker, counted by class; ADVERSARIAL='--json'
	$(BIN)/python -m tests.adversarial $(ADVERSARIAL)

test-evidence: setup ## a ledger under 32 writers, kill -9, a full disk, a clock that steps back, a read-only folder: what holds; EVIDENCE='--requests 100 --json'
	$(BIN)/python -m tests.evidencefaults $(EVIDENCE)

test-cache-bounds: setup ## memory and disk under 1,000,000 distinct keys, on both stores (minutes); BOUNDS='--keys 100000'
	$(BIN)/python -m tests.cachefaults.bounds $(BOUNDS)

test-oracle: setup ## GoogleSQL's meaning against ZetaSQL, with the counts; ORACLE='--write' renews the vectors
	$(BIN)/python -m tests.oracle $(or $(ORACLE),--random 1000)

test-hostile: setup ## hostile templates and arguments under real limits: time, memory, foreign rows; killed clients (minutes)
	$(BIN)/python -m tests.queries.hostile_main $(HOSTILE)
	$(BIN)/python -m tests.queries.leaving_main

mutants: setup ## takes every check out, one at a time, and shows which test fails without it (minutes)
	$(BIN)/python -m mutants

conformance: setup ## the public conformance kit against the served product: 15 assertions over real HTTP; CONFORMANCE='--only AD-008'
	$(BIN)/python -m conformance $(CONFORMANCE)

conformance-mutants: setup ## the kit's 19 faults, each planted at every wall at once: which assertion catches each (minutes)
	$(BIN)/python -m conformance.mutants $(CONFORMANCE)

REPLAY ?= check
replay: setup ## five askings of the served product beside their baselines; REPLAY='record --only granted/mcp-tool' after a change that is meant
	$(BIN)/python -m conformance.replay $(REPLAY)

evals: setup ## 92 cases in ADK's format asked of the served product, each metric beside its gate; EVALS='--json'
	$(BIN)/python -W ignore::UserWarning -m evals $(EVALS)

bench: setup ## the ratios of the benchmarks, as a table and JSON
	$(BIN)/python -m benchmarks

lock: setup ## the locks, from pyproject.toml; `make lock UPGRADE=--upgrade` for newer versions
	$(COMPILE) $(UPGRADE) --extra dev --extra bigquery --extra mcp --extra analytics --extra otel --extra postgresql --extra oracle pyproject.toml -o requirements.lock
	$(COMPILE) --constraint requirements.lock pyproject.toml -o deploy/requirements-runtime.lock
	$(COMPILE) --constraint requirements.lock --extra bigquery pyproject.toml -o deploy/requirements-runtime-bigquery.lock
	$(COMPILE) --constraint requirements.lock --extra mcp pyproject.toml -o deploy/requirements-runtime-mcp.lock
	$(COMPILE) --constraint requirements.lock --extra otel pyproject.toml -o deploy/requirements-runtime-otel.lock
	$(COMPILE) --constraint requirements.lock --extra postgresql pyproject.toml -o deploy/requirements-runtime-postgresql.lock
	echo 'hatchling' | $(COMPILE) --constraint requirements.lock - -o deploy/requirements-build.lock
	$(COMPILE) --python-version 3.11 tests/bigquery/requirements-emulator.in -o tests/bigquery/requirements-emulator.lock
	$(COMPILE) --python-version 3.11 --no-deps benchmarks/requirements-redisvl.in -o benchmarks/requirements-redisvl.lock
	$(COMPILE) --python-version 3.11 --no-deps conformance/requirements.in -o conformance/requirements.lock
	$(COMPILE) --python-version 3.11 --no-deps benchmarks/requirements-recall.in -o benchmarks/requirements-recall.lock
