# `make` lists the targets. They need Python 3.11 or newer, pip, git and make.

PYTHON ?= python3
WORK ?= overhead

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where Debian's package dataset-fashion-mnist puts its files.
DEBIAN_FASHION_MNIST := /usr/share/datasets/fashion-mnist

# The user's folder, else Debian's if it exists, else nothing: then the example downloads the files.
# Expanded when a recipe runs, so after `dataset` could install the package.
DATA = $(or $(FASHION_MNIST),$(shell test -d $(DEBIAN_FASHION_MNIST) && echo $(DEBIAN_FASHION_MNIST)))

# The tests start hundreds of interpreters, and each would compile the package again: a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo dataset test test-slow test-browser test-clients test-lowest databases test-databases test-gpu test-python soak check format docs docs-test chromium release-check bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/make \1\t/p' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with feedpipe (editable) and all development tools

# pip installs from outside, so that Pythons without ensurepip (Debian's) work too.
# The link is for mypy and pyright, which cannot follow an editable install whose folder has another name.
define NEW_VENV
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "the pins need Python 3.11 or newer: make PYTHON=...")'
$(PYTHON) -m venv --without-pip $(VENV)
$(PYTHON) -m pip --python $(BIN)/python install -q -c constraints.txt pip setuptools
endef

$(READY): pyproject.toml constraints.txt
	$(NEW_VENV)
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[torch]' \
		--group dev --group servers --group test
	mkdir -p $(VENV)/src
	ln -sfn ../../pipes $(VENV)/src/feedpipe
	touch $(VENV)/.user $@

# What the demo needs: feedpipe and its dependencies, without the tools of development.
$(VENV)/.user: pyproject.toml constraints.txt
	$(NEW_VENV)
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[torch]'
	touch $@

# Two ranks share the cores. Without this, torchrun prints a long warning about it.
demo: export OMP_NUM_THREADS ?= 1
demo: $(VENV)/.user dataset  ## train a network on Fashion-MNIST with 2 ranks, stop, resume, compare
	$(BIN)/torchrun --standalone --nproc-per-node=2 examples/fashion_mnist.py $(if $(DATA),--data $(DATA))

dataset:
	@if [ -z "$(DATA)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -q && apt-get install -q -y --no-install-recommends dataset-fashion-mnist; } \
		|| echo "dataset-fashion-mnist could not be installed; the example will try to download it"; \
	fi

# A test that takes longer than a minute ends its process, with the stacks of all threads; pytest-xdist starts another.
test test-browser docs-test test-gpu test-lowest test-python: export PYTEST_ADDOPTS += -o faulthandler_timeout=60 -o faulthandler_exit_on_timeout=true
# A job of several processes that import a trainer takes longer than that on a busy machine, and so does a hostile file.
test-slow test-clients test-databases: export PYTEST_ADDOPTS += -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true

# Tests wait for servers and for other processes much of the time, so there is one process more than cores.
PARALLEL = -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)') --dist worksteal

test: $(READY)  ## run the tests that are not slow, with a quarter of the random examples: four minutes on two cores
	$(BIN)/pytest $(PARALLEL) -m "not slow and not hdfs"

test-slow: $(READY)  ## run the tests that `make test` leaves out; those of HDFS need a JDK, gcc and apt-get
	case "$$PYTEST_ADDOPTS" in *"--without servers"*) ;; *) $(BIN)/python -m tests.servers.hadoop ;; esac
	$(BIN)/pytest $(PARALLEL) -m "slow or hdfs" --durations=30

test-clients: $(READY)  ## run the tests in real trainers, in an environment of their own
	.ci/test_clients

test-databases: $(READY) databases  ## run the tests with real databases, in an environment of their own
	.ci/test_databases

databases:
	@if ! { ls /usr/lib/postgresql/*/bin/postgres && command -v mariadbd && ls /usr/lib/galera/libgalera_smm.so; } >/dev/null 2>&1 \
		&& [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
			postgresql mariadb-server galera-4 rsync; } \
		|| echo "PostgreSQL or MariaDB could not be installed; the tests that need them will say so"; \
	fi

test-browser: $(READY) docs chromium  ## look at pages in a real browser, with its driver in an environment of its own
	.ci/test_browser

docs-test: $(READY) docs chromium  ## look at the documentation site alone
	.ci/test_browser tests/browser/test_site.py

chromium:
	@if ! { [ -n "$$CHROMIUM" ] || command -v chromium || command -v chromium-headless-shell; } >/dev/null \
		&& [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
			chromium-headless-shell; } \
		|| echo "chromium-headless-shell could not be installed; the tests that need it will say so"; \
	fi

test-gpu: $(READY)  ## run the tests that need a CUDA GPU, and a build of torch for it
	FEEDPIPE_TEST_GPU=1 $(BIN)/pytest tests/gpu

test-lowest: $(READY)  ## run the tests at the lowest versions of other packages, without torch, pandas and servers
	.ci/test_lowest

test-python: $(READY)  ## run the tests on other Pythons of this machine, without torch and servers
	.ci/test_python 3.14 3.13 3.12

soak: $(READY)  ## run the random tests for hours: make soak PART="chains states ranks resumes edits failures mutants kills interrupts seeing exponents exits ray"
	$(BIN)/python -m tests.soak $(PART)

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(READY)  ## rewrite the files to pass check, as far as ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## build the documentation site into .site; any warning is an error
	.ci/docs

bench: $(READY)  ## measure feedpipe and its peers: make bench WORK=overhead
	$(BIN)/python -m benchmarks $(WORK)

release-check: $(READY)  ## say whether the last commit can be released: archives, metadata, lowest and highest dependencies
	$(BIN)/python .ci/release_check.py

clean:  ## remove everything that make has made, .venv too
	rm -rf $(VENV) $(VENV)-* .bench .site build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
