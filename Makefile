# Needs Python 3.11 or newer and GNU make; everything else goes into .venv. `make help` lists the targets.
#   PYTHON=...        the interpreter to make .venv with      PYTEST_ARGS=...   more arguments for pytest
#   TDLG_DATA=...     the folder with the real data sets      NAME=...          recipes for make reproduce, all if not given
#   PYTHONS=...       the versions for make test-pythons, each of which gets its own .venv-<version>

VENV := .venv
TESTS := tests
PYTHONS := 3.11 3.12 3.13 3.14 3.15
PY := $(VENV)/bin/python
VERSIONS := $(if $(LOWEST),$(VENV)/lowest.txt,constraints.txt)
INSTALL = $(PY) -m pip install -qq --disable-pip-version-check -c $(VERSIONS)
PROJECTS := pyproject.toml $(wildcard paper/pyproject.toml)
SETTINGS := $(PROJECTS) $(VERSIONS)

ifndef TDLG_DATA
ifneq ($(wildcard ../shared/data),)
export TDLG_DATA := $(abspath ../shared/data)
endif
endif

unexport PYTHONDONTWRITEBYTECODE  # else each worker, and each process that a test starts, compiles all sources again
.DEFAULT_GOAL := help
.NOTPARALLEL:  # two pips in one environment would disturb each other
.PHONY: help demo test test-paper doctest test-pythons test-lowest test-heavy lint format bench reproduce leakage payments ranking docs clean chromium

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-12s %s\n", $$1, $$2 }'

demo: $(VENV)/.core  ## install the package, run the demo, write a report to open
	@$(VENV)/bin/tdlg demo

# One process more than cores, at most four: some tests wait, for a signal or for a disk, which memory is not where it is large.
SPREAD := import os, shutil; shm = "/dev/shm"; print(min(4, 1 + (os.cpu_count() or 1)), \
  shm if os.path.isdir(shm) and shutil.disk_usage(shm).free > 8e9 else "")

test: $(VENV)/.dev  ## run the tests of the package; those of test-heavy skip with a reason
	@set -- $$($(PY) -c '$(SPREAD)'); \
	TDLG_LIGHT=1 TMPDIR="$${2:-$${TMPDIR:-/tmp}}" $(PY) -m pytest $(TESTS) --ignore tests/paper -n $$1 --dist worksteal \
	  -o tmp_path_retention_policy=failed $(PYTEST_ARGS)

test-paper: $(VENV)/.dev  ## run the tests of paper/
	@TDLG_LIGHT=1 $(PY) -m pytest tests/paper -n auto --maxprocesses 4 --dist worksteal $(PYTEST_ARGS)

doctest: $(VENV)/.dev  ## run the examples in docstrings, README.md and docs/
	@$(PY) -m pytest src paper README.md docs -n auto --maxprocesses 4 --dist worksteal $(PYTEST_ARGS)

# A version is looked for on the path, in pyenv's and uv's folders and where systems put it; each candidate is tried, as a
# shim of pyenv fails for versions that are not activated.
test-pythons:  ## run the tests on every supported Python that this machine has
	@summary=; failed=; found=; \
	for version in $(PYTHONS); do \
	  python=; \
	  for candidate in python$$version python3 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python3 \
	      "$$HOME"/.local/share/uv/python/cpython-$$version.*/bin/python3 \
	      /usr/bin/python$$version /usr/local/bin/python$$version /opt/homebrew/bin/python$$version; do \
	    if "$$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$$version')" >/dev/null 2>&1; \
	    then python=$$candidate; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then summary="$${summary}Python $$version: not found\n"; continue; fi; \
	  found=yes; echo "== Python $$version"; \
	  if $(MAKE) --no-print-directory VENV=.venv-$$version$(LOWEST) PYTHON="$$python" test; \
	  then summary="$${summary}Python $$version: passed\n"; \
	  else summary="$${summary}Python $$version: failed\n"; failed=yes; fi; \
	done; \
	printf "== summary\n$$summary"; \
	if [ -z "$$found" ]; then echo "No tests were run: install one of these versions."; exit 1; fi; \
	[ -z "$$failed" ]

# What the oldest versions themselves call deprecated by now is no error.
test-lowest:  ## run the tests on Python 3.11 with the lowest versions that pyproject.toml allows
	@$(MAKE) --no-print-directory test-pythons PYTHONS=3.11 LOWEST=-lowest PYTEST_ARGS='-W ignore::DeprecationWarning $(PYTEST_ARGS)'

test-heavy: $(VENV)/.heavy chromium  ## install PyTorch and Chromium, run the tests that need them or real data
	@TDLG_NO_SKIPS=1 $(PY) -m pytest -n auto --maxprocesses 2 --dist worksteal -m heavy $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(VENV)/.dev  ## let ruff sort the imports and lay out the code
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .

bench: $(VENV)/.dev  ## check every claim in benchmarks/
	@failed=; not_run=; \
	for claim in $(sort $(wildcard benchmarks/bench_*.py)); do \
	  echo "== $$claim"; $(PY) $$claim; code=$$?; \
	  if [ $$code = 77 ]; then not_run="$$not_run $$claim"; elif [ $$code != 0 ]; then failed="$$failed $$claim"; fi; \
	done; \
	if [ -n "$$not_run" ]; then echo "not all run, for want of data or packages:$$not_run"; fi; \
	if [ -n "$$failed" ]; then echo "with claims that do not hold:$$failed"; exit 1; fi

reproduce: $(VENV)/.compare  ## measure the paper's tables and figures into results/ and docs/results.md
	@$(PY) -m tdlg_paper $(NAME)
	@if [ -z "$(NAME)" ]; then $(PY) -m tdlg_paper --protocol notebook; fi

leakage: $(VENV)/.compare  ## measure the table of docs/evaluate.md
	@$(PY) -m tdlg_paper leakage

payments: $(VENV)/.dev  ## measure payments, attacks and bans into results/payments.csv and docs/results.md
	@$(PY) -m tdlg_paper payments

ranking: $(VENV)/.dev  ## measure the ranking of the next partner into results/ranking.csv and docs/results.md
	@$(PY) -m tdlg_paper ranking

docs: $(VENV)/.docs  ## build the pages of docs/ into site/; a warning fails
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict  # its --quiet would not count warnings

clean:  ## remove .venv, .venv-* and whatever the tools left
	@rm -rf $(VENV) .venv-* build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A python3.13 on the path may be a mere shim that fails, or a Python without venv: so each is tried.
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

$(VENV)/.made:
	@for python in $(PYTHON) python3 $(addprefix python,$(PYTHONS)); do \
	  if "$$python" -c '$(FITS)' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV) && touch $@; exit; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with venv found (on Debian: the package python3-venv)."; \
	echo "Hint: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1

$(VENV)/lowest.txt: $(PROJECTS) | $(VENV)/.made
	@$(PY) -c 'import re; print(*(f"{name}=={low}" for path in "$(PROJECTS)".split() \
	  for name, low in re.findall(r"\"([\w-]+)(?:\[\w+\])?>=([\d.]+)", open(path).read())), sep="\n")' > $@

$(VENV)/.core: $(SETTINGS) | $(VENV)/.made
	@echo "installing tdlg"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.compare: $(SETTINGS) | $(VENV)/.made
	@echo "installing tdlg, tdlg-paper and what the compared methods need; PyTorch is large"
	@$(INSTALL) -e . -e "./paper[deep]"
	@touch $@ $(VENV)/.core

$(VENV)/.docs: $(SETTINGS) | $(VENV)/.made
	@echo "installing tdlg and mkdocs"
	@$(INSTALL) -e ".[docs]" -e ./paper
	@touch $@ $(VENV)/.core

$(VENV)/.dev: $(SETTINGS) | $(VENV)/.made
	@echo "installing tdlg, the light extras and the tools for tests"
	@$(INSTALL) -e ".[dev]" -e ./paper
	@touch $@ $(VENV)/.core

$(VENV)/.heavy: $(SETTINGS) | $(VENV)/.made
	@echo "installing tdlg with all its extras; PyTorch is large"
	@$(INSTALL) -e ".[dev,pyg,docs,notebooks]" -e "./paper[deep]"
	@$(INSTALL) --no-deps axe-playwright-python  # of which the script of axe-core is used
	@touch $@ $(VENV)/.core $(VENV)/.dev $(VENV)/.docs

chromium:
	@for name in chromium chromium-browser google-chrome; do \
	  if command -v $$name >/dev/null; then exit 0; fi; \
	done; \
	if ! command -v apt-get >/dev/null; then echo "Chromium is missing, and no apt-get to install it: please install it."; exit 1; fi; \
	if [ "$$(id -u)" = 0 ]; then as_root=; \
	elif command -v sudo >/dev/null; then as_root=sudo; \
	else echo "Chromium is missing, and only root may install it: apt-get install chromium"; exit 1; fi; \
	echo "installing Chromium"; \
	$$as_root apt-get update -qq && $$as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null
