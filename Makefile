# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
# `make test EXTRAS=torch` also installs torch (CPU) and runs the tests that need it.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
EXTRAS ?=
PIP_QUIET := --quiet --disable-pip-version-check

# The tests start hundreds of programs: without bytecode on the disk each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint clean

help:
	@echo "make demo              few-shot scenario: a server, six training and three onboarding agents"
	@echo "make test              linters, types, import contracts, tests"
	@echo "make test EXTRAS=torch the same, with torch"

# A stamp per set of packages: a second call of a target does not call pip.
$(PY):
	@echo "creating $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "edge_fed needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(PY)
	@echo "installing edge_fed (core and plot)"
	@$(PY) -m pip install $(PIP_QUIET) -c constraints/ci.txt -e '.[plot]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	@echo "installing edge_fed (core, plot, privacy, gym, images and dev)"
	@$(PY) -m pip install $(PIP_QUIET) -c constraints/ci.txt -e '.[plot,privacy,gym,images,dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.dev-torch: pyproject.toml constraints/ci.txt | $(VENV)/.dev
	@echo "installing torch (CPU build, see constraints/ci.txt)"
	@$(PY) -m pip install $(PIP_QUIET) -c constraints/ci.txt -e '.[torch]'
	@touch $@

demo: $(VENV)/.demo
	@$(PY) -m scenarios run few-shot --runtime processes --run-dir runs/demo --overwrite --set federation.evaluate_every=15 --picture runs/few-shot.png

lint: $(VENV)/.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

test: $(VENV)/.dev $(if $(findstring torch,$(EXTRAS)),$(VENV)/.dev-torch) lint
	$(PY) -m pytest -n auto --dist worksteal

clean:
	rm -rf $(VENV) build runs *.egg-info
