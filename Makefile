# Two commands do all the set-up:  make roundtrip   and   make test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: roundtrip test lint types imports unit test-device test-torch scan-quality bench clean

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

# On a machine with a GPU; with a torch of its own, run the module with that interpreter instead.
test-device: $(VENV)/.installed-test
	$(BIN)/python -m tests.device

# Installs torch 2.13.0 and 2.14.1 in environments of their own (several GB) and compares what they do to addresses.
test-torch: $(VENV)/.installed-test
	$(BIN)/pytest -m network tests/cli/test_probe_ptr_overflow.py

# Precision and recall of scan-ptrs on labelled sites; downloads a wheel (340 MB) unless WHEEL names it.
scan-quality: $(VENV)/.installed-test
	$(BIN)/python benchmarks/scan_quality.py $(WHEEL)

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
