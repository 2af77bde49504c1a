# Two commands do all the set-up:  make roundtrip   and   make test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VLLM_VENV ?= .venv-vllm
VLLM_REQUIREMENTS := tests/vllm/requirements.txt

.PHONY: roundtrip test lint types imports unit test-vllm test-device test-torch scan-quality bench clean

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

# The real vLLM 0.32 (2.2 GB, no GPU needed) in an environment of its own: the connectors' conformance and our plan
# against its scheduler. Any other vLLM: run this line with the interpreter that has it.
test-vllm: $(VLLM_VENV)/.installed
	$(VLLM_VENV)/bin/python -m pytest -m vllm tests/vllm

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

$(VLLM_VENV)/.installed: pyproject.toml $(VLLM_REQUIREMENTS) tools/make_env.py
	$(PYTHON) tools/make_env.py $(VLLM_VENV) --pinned $(VLLM_REQUIREMENTS)
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
