# Everything lives in .venv: no root, no service, no manual step. `make demo` needs Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
READY_TO_TEST := .venv/.ready-to-test
BASE := not (ray or s3 or hdfs or spark or hosts or torch or root or long)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: setup demo test test-all soak bench bench-infer lint clean
setup: $(READY_TO_TEST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@$(BIN)/python -m compileall -q src  # Each command would do it again where Python may not keep what it compiled.
	@touch $@

$(READY_TO_TEST): $(READY)
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(READY)
	cd examples/next-cell && ../../$(BIN)/shoal run sweep.yaml
	@echo
	@echo "That was examples/next-cell/sweep.yaml. What to do next:"
	@echo "  . $(BIN)/activate                    so that the shell finds shoal"
	@echo "  cd examples/next-cell                   where the run is kept"
	@echo "  shoal results last --best 3             look at it again"
	@echo "  shoal plan sweep.yaml --nodes 1..8      how long on more machines?"
	@echo "  mkdir mine; cd mine; shoal init sweep   start one of your own"

test: $(READY_TO_TEST)
	$(BIN)/pytest -n 2 --dist loadfile -m "$(BASE) and not serial" $(OPTIONS)
	$(BIN)/pytest -m "$(BASE) and serial" $(OPTIONS) $$(grep -rl --include='test_*.py' mark.serial tests)
	@echo "Left out: tests marked long (they take more than ten seconds), root (they mount disks), ray (they start Ray"
	@echo "clusters), hosts (they start hosts in network namespaces, which needs root, openssh-server and iproute2), s3,"
	@echo "hdfs and spark (they start servers, which are hundreds of megabytes to download), torch (a large download, too)."
	@echo "make test-all installs what they need, and runs them."

test-all: $(READY_TO_TEST)
	$(PIP) --editable '.[test-all]'
	$(BIN)/pytest

soak: $(READY_TO_TEST)
	SHOAL_SOAK_SEEDS=10000 $(BIN)/pytest -o timeout=0 tests/shape/test_pool_simulated.py

bench: $(READY_TO_TEST)
	$(BIN)/python bench/sweep.py
	$(BIN)/python bench/nodes.py
	@if $(BIN)/python -c 'import ray' 2> /dev/null; then $(BIN)/python bench/ray.py; \
	    else echo "Left out: bench/ray.py. It needs: $(BIN)/pip install --editable '.[bench]'"; fi

bench-infer: $(READY_TO_TEST)
	$(PIP) --editable '.[test-all]'
	$(BIN)/python bench/infer.py --point-seconds 2

lint: $(READY_TO_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv
