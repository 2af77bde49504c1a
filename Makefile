# Two commands do all the set-up:  make roundtrip   and   make test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: roundtrip test lint types imports unit bench clean

roundtrip: $(VENV)/.installed
	$(BIN)/ecbench roundtrip

test: lint types imports unit

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

imports: $(VENV)/.installed-test
	$(BIN)/lint-imports

unit: $(VENV)/.installed-test
	$(BIN)/pytest

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/overhead.py

$(VENV)/.installed: pyproject.toml constraints.txt tools/make_env.py
	$(PYTHON) tools/make_env.py $(VENV)
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt tools/make_env.py
	$(PYTHON) tools/make_env.py $(VENV) --extras test
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
