# Everything lives in .venv; no root, no service, no manual step.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all soak bench lint docs clean setup
setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	cd examples/next-cell && ../../$(BIN)/shoal run sweep.yaml

test: $(READY)
	$(BIN)/pytest -m "not slow and not root"

test-all: $(READY)
	$(BIN)/pytest

soak: $(READY)
	SHOAL_SOAK_SEEDS=10000 $(BIN)/pytest -m "not root" tests/shape/test_pool_simulated.py

bench: $(READY)
	$(BIN)/python bench/sweep.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv
