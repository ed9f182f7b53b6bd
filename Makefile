# The one front door: people and CI go through it. `make` alone lists what there is.
#
# It needs make and a Python of 3.11 or newer, no more. The project is installed into .venv as users get it (not
# editable), with the versions of constraints.txt, and again whenever a source file has changed.

PYTHON  ?= python3
PYTHONS ?= 3.11 3.12 3.13
LITELLMS ?= 1.103.0 1.109.1
VENV    ?= .venv
ARGS    ?=
# One more than there are cores, as tests wait for processes now and then; no more than four.
JOBS    ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -lt 4 ] && echo $$((n + 1)) || echo 4)

FOLDERS := decision providers engine
PARTS   := $(FOLDERS) pyproject.toml README.md LICENSE
BIN     := $(VENV)/bin
# $(1): an environment. It has no pip of its own where that of PYTHON can install into it, as pip 22.3 and newer can:
# that saves 25 MB, and the seconds to install them.
pip      = $$([ -e $(1)/.own-pip ] && echo $(1)/bin/python -m pip || echo $(PYTHON) -m pip --python $(1)/bin/python) \
    --disable-pip-version-check --no-input
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
SOURCES := $(shell find $(FOLDERS) -name __pycache__ -prune -o -print)

ADAPTERS ?= google-adk langchain strands claude-agent-sdk openai-agents pydantic-ai
.PHONY: agents test-adapters bench-adapters bench-goals
.PHONY: help demo system test tests check lint types pyright bench bench-serve bench-durable bench-fleet bench-peers kill soak night upgrade search growth gaps mutants fuzz test-long faults test-all test-litellm install-sizes prices docs site dist clean
.DELETE_ON_ERROR:
# pytest rewrites the assertions of each test file: without its cache, each of its workers would do so each time.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=python3.12 chooses the interpreter, ARGS='-k bus -x' goes to pytest."

demo: $(VENV)/.core ## one response read by a usual reader and by endstop, and counted; needs no model
	@$(BIN)/endstop demo

# Nothing of this ever fails the build: a test that misses something is skipped and says so. RUNLEVEL=1 keeps Debian from
# starting a database server; the tests start one of their own. Where chromium is there already, its lighter build
# without windows is installed too, if it can be had at once: the tests of the page take it first.
system: ## what the tests need beside Python: PostgreSQL, Chromium, zsh and fish, from Debian (as root)
	@has() { command -v "$$1" >/dev/null 2>&1; }; \
	can() { [ "$$(id -u)" = 0 ] && has apt-get; }; \
	missing=; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || has postgres || missing="$$missing postgresql"; \
	for shell in zsh fish; do has $$shell || missing="$$missing $$shell"; done; \
	has chromium-headless-shell || { has chromium && ! { can && apt-cache show chromium-headless-shell >/dev/null 2>&1; }; } \
	    || missing="$$missing chromium-headless-shell"; \
	[ -n "$$missing" ] || exit 0; \
	if can; then \
	    echo "installing$$missing from Debian, for the tests"; \
	    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
	    install() { apt-get install -y -qq --no-install-recommends $$1 >/dev/null 2>&1; }; \
	    install "$$missing" || { apt-get update -qq >/dev/null 2>&1; install "$$missing"; } \
	        || install "$${missing%-headless-shell}" && exit 0; \
	fi; \
	! has chromium || missing="$${missing% chromium-headless-shell}"; \
	[ -n "$$missing" ] || exit 0; \
	echo "not here, so the tests that need it are skipped:$$missing (as root: apt-get install$$missing)"

# Types are checked beside the tests: mypy keeps one core busy, and tests wait for processes now and then.
test: lint system ## all that CI checks: lint, types and tests
	@$(MAKE) --no-print-directory --jobs 2 types tests

# A file's tests stay together, since they share servers and browsers. A worker that is lost is a failure at once: it is
# not started again, for pytest-xdist would then wait for ever. ARGS="-n 0" is one process, as a debugger needs it.
tests: $(VENV)/.ready
	@$(BIN)/pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 $(ARGS)

check: test ## the same as test

lint: $(VENV)/.ready ## ruff: rules and format
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/ruff format --quiet --check .

types: $(VENV)/.ready ## mypy, strict, of the installed package
	@$(BIN)/mypy -p endstop

# In an environment of its own, of 300 MB: basedpyright brings node, so nothing is downloaded when it runs.
pyright: $(VENV)/.ready $(VENV)-pyright/.ready ## pyright, strict, of programs that use the installed package
	@$(VENV)-pyright/bin/basedpyright --pythonpath $(BIN)/python

bench: $(VENV)/.ready ## measure against hand-written loops; writes docs/explanation/performance.md
	@$(BIN)/python tests/benchmarks/run.py
	@$(BIN)/python tests/benchmarks/voices.py
	@$(BIN)/python tests/benchmarks/wires.py
	@$(BIN)/python tests/benchmarks/backtests.py
	@$(BIN)/python tests/benchmarks/follower.py
	@$(BIN)/python tests/benchmarks/session_imports.py
	@$(BIN)/python tests/benchmarks/record_sizes.py

bench-serve: $(VENV)/.ready ## load on `endstop serve`, on SQLite and PostgreSQL; writes docs/explanation/performance.md
	@$(BIN)/python tests/benchmarks/serving.py $(ARGS)

bench-peers: ## measure beside other frameworks, if ../shared/bench is there; writes docs/explanation/performance.md
	@$(PYTHON) tests/benchmarks/peers.py $(ARGS)

bench-durable: $(VENV)/.ready ## what a durable step costs with DBOS and Temporal; writes docs/explanation/performance.md
	@$(BIN)/python tests/benchmarks/durable.py $(ARGS)

bench-fleet: $(VENV)/.ready ## sessions a second with 1, 2 and 4 workers, and how long a death costs; writes docs/explanation/performance.md
	@$(BIN)/python tests/benchmarks/fleet.py $(ARGS)

kill: $(VENV)/.ready system ## SIGKILL to workers at fifty random points of their runs, ten more with Temporal's queue, a thousand between a yes and its effect
	@ENDSTOP_KILLS=50 $(BIN)/pytest -s -m "long or not long" -o faulthandler_timeout=3000 tests/fleet/test_kills.py tests/fleet/test_freezes.py tests/fleet/test_temporal.py $(ARGS)
	@$(BIN)/python -m tests.approval_kills 1000
	@for store in sqlite postgres; do $(BIN)/python -m tests.approval_kills 300 --store $$store || exit 1; done
	@$(BIN)/python -m tests.subagent_kills 100

soak: $(VENV)/.ready ## a thousand sessions over failing providers, for ten minutes: nothing lost, nothing left
	@$(BIN)/python tests/benchmarks/soak.py $(ARGS)

# `make tests` tries the same examples each time, so that it does not fail by chance. Here they are drawn anew.
# As root: disks that run full are small file systems in memory. Prometheus is Debian's.
night: $(VENV)/.ready system ## incidents on a fleet under load, seen by Prometheus with our alerts; 15 minutes; writes docs/explanation/operators_night.md
	@$(BIN)/python tests/benchmarks/operators_night.py --write $(ARGS)

upgrade: $(VENV)/.ready system ## processes of an older version (OLD=COMMIT) restarted as this one under load, in three orders: nothing lost, nothing twice; 15 minutes
	@[ -n "$(OLD)" ] || { echo "name the older version: make upgrade OLD=COMMIT" >&2; exit 2; }
	@$(BIN)/python tests/benchmarks/rolling_upgrade.py --old "$(OLD)" $(ARGS)

search: $(VENV)/.ready system ## the tests of properties on examples of a new seed, which it names
	@seed=$$(date +%s); echo "to repeat it: --hypothesis-seed=$$seed"; \
	$(BIN)/pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 --hypothesis-seed=$$seed \
	    $$(grep -rlE '^(from|import) (hypothesis|schemathesis)' --include='test_*.py' tests) $(ARGS)

test-long: $(VENV)/.ready system ## the tests that take longer: two more engines in full, networks that are cut, Temporal under kills
	@$(BIN)/pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 -m long $(ARGS)

growth: $(VENV)/.ready ## time for inputs from 100 kB to 2 MB, for every pattern and all that reads foreign text; 20 minutes
	@$(BIN)/pytest -m "long or not long" tests/growth
	@$(BIN)/python -m tests.growth $(ARGS)

gaps: $(VENV)/.ready ## for how long a stream keeps the event loop from everything else, by body and path; 10 minutes
	@$(BIN)/python -m tests.growth.gaps $(ARGS)

mutants: $(VENV)/.ready $(VENV)-mutants/.ready ## small changes of the decision that tests/decision does not notice; half an hour on two idle cores
	@$(VENV)-mutants/bin/python tests/mutants.py $(ARGS)

fuzz: $(VENV)/.ready ## a million changed inputs for all that reads what others wrote; ARGS=20000 for fewer
	@$(BIN)/python -m tests.fuzz $(ARGS)

# The checks of `endstop.testing.faults` in full: 10,000 points and more each, on a loop with simulated time.
faults: $(VENV)/.ready ## cancels at every point of runs of three providers, and every other fault, in full
	@$(BIN)/pytest -n $(JOBS) -s -m "long or not long" -o faulthandler_timeout=3000 tests/promises/test_cancel_points.py tests/engine/testing tests/providers/test_litellm_bounds.py $(ARGS)

# An interpreter is looked for on the PATH (a shim that cannot run does not count), then among pyenv's.
test-all: ## the tests on each of PYTHONS, in environments of their own, and test-litellm
	@found=; missing=; \
	for v in $(PYTHONS); do \
	    for p in "python$$v" "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$v".*/bin/python3; do \
	        "$$p" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$v')" >/dev/null 2>&1 && break; p=; \
	    done; \
	    if [ -n "$$p" ]; then found="$$found $$v=$$p"; else missing="$$missing $$v"; fi; \
	done; \
	if [ -n "$$missing" ]; then \
	    echo "test-all: no Python$$missing on the PATH or under pyenv." >&2; \
	    echo "Install it, or name those you have: make test-all PYTHONS='3.11 3.12'" >&2; \
	    exit 1; \
	fi; \
	failed=; \
	for pair in $$found; do \
	    v=$${pair%%=*}; p=$${pair#*=}; \
	    echo "== Python $$v: $$p"; \
	    $(MAKE) --no-print-directory test VENV=.venv-$$v PYTHON="$$p" || failed="$$failed $$v"; \
	done; \
	$(MAKE) --no-print-directory test-litellm || failed="$$failed with another litellm"; \
	if [ -n "$$failed" ]; then echo "test-all: failed on Python$$failed." >&2; exit 1; fi

# Without its dependencies: 1.109 asks for a newer certifi than some indexes have, and runs with the pinned one, too.
test-litellm: ## the tests of providers with the lowest and the highest litellm that pyproject.toml allows
	@failed=; \
	for v in $(LITELLMS); do \
	    echo "== litellm $$v"; \
	    env=.venv-litellm-$$v; \
	    $(MAKE) --no-print-directory $$env/.ready VENV=$$env \
	    && $(call pip,$$env) install -qq --no-deps litellm==$$v \
	    && $$env/bin/pytest tests/providers $(ARGS) || failed="$$failed $$v"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-litellm: failed with litellm$$failed." >&2; exit 1; fi

# Packages come from the index that pip is set up for, each set into an environment of its own under .venv-sizes.
install-sizes: ## packages and MB of each extra, beside other frameworks, time to import; writes docs/start/installation.md
	@$(PYTHON) tests/benchmarks/install_sizes.py $(ARGS)

prices: $(VENV)/.ready ## write our list of prices anew, from that of the litellm in constraints.txt
	@$(BIN)/python docs/price_list.py

# Frameworks ask for different versions of the same packages, so each has an environment of its own. What the tests speak
# to a model with comes beside it.
MODELS_google-adk := litellm~=1.105.0
MODELS_langchain := langchain-openai
MODELS_openai-agents :=
MODELS_pydantic-ai := pydantic-ai-slim[openai]
MODELS_claude-agent-sdk :=
MODELS_strands := strands-agents[openai]
.PRECIOUS: .venv-adapters-%/.ready
.venv-adapters-%/.ready: pyproject.toml $(PARTS) $(SOURCES)
	@echo "installing endstop with $* into $(@D)"
	@$(PYTHON) -m venv --clear $(@D)
	@mkdir $(@D)/source && cp -R $(PARTS) $(@D)/source
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install -qq "./$(@D)/source[$*]" $(MODELS_$*) pytest pytest-asyncio
	@rm -rf $(@D)/source
	@touch $@

test-adapters: ## the tests of the adapters, each with its framework in an environment of its own
	@failed=; \
	for f in $(ADAPTERS); do \
	    echo "== $$f"; \
	    $(MAKE) --no-print-directory .venv-adapters-$$f/.ready \
	    && .venv-adapters-$$f/bin/python -m pytest --noconftest -o addopts=--import-mode=importlib -q tests/engine/adapters $(ARGS) \
	    || failed="$$failed $$f"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-adapters: failed with$$failed." >&2; exit 1; fi

bench-adapters: ## measure agents of other frameworks without and with the adapter and the proxy; writes docs/guides/adapters.md
	@for f in $(ADAPTERS); do \
	    $(MAKE) --no-print-directory .venv-adapters-$$f/.ready \
	    && .venv-adapters-$$f/bin/python tests/benchmarks/adapters.py $(ARGS) || exit 1; \
	done

bench-goals: ## goals of other frameworks beside `until`, on the same scenes; writes docs/explanation/goals.md
	@$(PYTHON) tests/benchmarks/goal_loops/compare.py $(ARGS)

# Node (tried with 20) and npm must be there. AGENTS="codex pi" and SCENARIOS="c i" choose; ARGS=--record keeps what the agents send.
# ARGS='--delays "0 5 50"' measures each cell with streams that end so many ms late; ARGS=--options=OPTION makes a row of its own.
agents: $(VENV)/.ready ## twelve real coding agents behind the proxy and five with a hook, in fifteen scenarios; writes docs/reference/agents.md
	@$(BIN)/python -m tests.agents --agents "$(AGENTS)" --scenarios "$(SCENARIOS)" $(ARGS)

docs: $(VENV)/.ready ## write the tables in the documentation anew, from the code
	@$(BIN)/python docs/tables.py
	@$(BIN)/python docs/stop_signals.py
	@$(BIN)/python docs/package_map.py
	@$(BIN)/python docs/demo_picture.py
	@$(BIN)/python docs/until_picture.py
	@$(BIN)/python docs/until_terminal.py

# In an environment of its own: what makes the site is no part of what the tests need.
site: $(VENV)-site/.ready ## the documentation as a site, in build/site; needs no network once it has installed
	@$(VENV)-site/bin/python docs/build_site.py

dist: $(VENV)-dist/.ready ## sdist and wheel in dist/: built twice to the same bytes, checked, installed and used
	@$(VENV)-dist/bin/python tests/build_dist.py

clean: ## remove the environments and what tools left behind
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(FOLDERS) tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

# Another interpreter than last time means another stamp, and so a new environment.
$(VENV)/.python-$(VERSION):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    is=$$($(PYTHON) --version 2>&1) || is="not there"; \
	    echo "endstop needs Python 3.11 or newer, and $(PYTHON) is $$is." >&2; \
	    echo "Name another one: make PYTHON=python3.12" >&2; \
	    exit 1; }
	@$(PYTHON) -m venv --clear --without-pip $(VENV) \
	    && { $(PYTHON) -m pip --python $(BIN)/python --version >/dev/null 2>&1 \
	        || { $(BIN)/python -m ensurepip >/dev/null && touch $(VENV)/.own-pip; }; } \
	    || { rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)-pyright/.ready:
	@$(PYTHON) -m venv --clear $(VENV)-pyright
	@$(VENV)-pyright/bin/python -m pip --disable-pip-version-check --no-input install -qq basedpyright==1.40.2
	@touch $@

# It sees the packages of the tests, and none of them sees it.
$(VENV)-mutants/.ready: $(VENV)/.ready
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install -qq mutmut==3.8.1
	@cd $(@D)/lib/python3*/site-packages && ls -d $(abspath $(VENV))/lib/python3*/site-packages > tests.pth
	@touch $@

$(VENV)-dist/.ready: Makefile
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install -qq build==1.6.1 setuptools==84.2.1 twine==7.0.0
	@touch $@

$(VENV)-site/.ready: pyproject.toml constraints.txt $(PARTS) $(SOURCES)
	@echo "installing endstop and what makes its site into $(@D)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@rm -rf $(@D)/source && mkdir $(@D)/source && cp -R $(PARTS) $(@D)/source
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install -qq --constraint constraints.txt "./$(@D)/source[docs]"
	@rm -rf $(@D)/source
	@touch $@

# In a variable, because a comma in the argument of a call ends it.
EXTRAS = [test,bench]

# Built from a copy, so that neither an old build/ gets into the package nor a new one into the checkout.
install = rm -rf $(VENV)/source && mkdir $(VENV)/source && cp -R $(PARTS) $(VENV)/source \
    && $(call pip,$(VENV)) install -qq $(2) --constraint constraints.txt "./$(VENV)/source$(1)" && rm -rf $(VENV)/source

# What `pip install endstop` brings, and no extra. Python compiles what it imports, when it does so first: a fifth of all.
$(VENV)/.core: $(VENV)/.python-$(VERSION) constraints.txt $(PARTS) $(SOURCES)
	@echo "installing endstop into $(VENV)"
	@$(call install,,--no-compile)
	@touch $@

$(VENV)/.ready: $(VENV)/.python-$(VERSION) constraints.txt $(PARTS) $(SOURCES)
	@echo "installing endstop with all its extras into $(VENV) (a minute or two the first time)"
	@$(call install,$(EXTRAS))
	@touch $(VENV)/.core $@
