# Everything needs only make and Python 3.11 or newer: `make test PY=python3.13` uses another interpreter.
PY ?= python3
VENV := .venv$(if $(filter-out python3,$(PY)),-$(notdir $(PY)))
BIN := $(VENV)/bin

.PHONY: demo test test-numpy check bench clean

demo: $(VENV)/.demo
	$(BIN)/sapwood demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest

# The suite once more without native code.
test-numpy: $(VENV)/.dev
	SAPWOOD_JIT=0 $(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/mypy

# Sapwood beside its peers, in an environment of their own; what cannot be installed here is left out of the table.
bench:
	test -x .venv-bench/bin/python || $(PY) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[viz]" torch==2.13.0
	while read peer; do .venv-bench/bin/python -m pip install --quiet "$$peer" || echo "left out: $$peer"; done < benchmarks/peers.txt
	.venv-bench/bin/python benchmarks/run.py --out docs/benchmarks.md

clean:
	rm -rf .venv* out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.%: pyproject.toml
	@$(PY) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'sapwood needs Python 3.11 or newer, $(PY) is ' + sys.version.split()[0])"
	test -x $(BIN)/python || $(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@
