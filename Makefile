# Two commands do the set-up and the work: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS ?= dev
WORKERS ?= 2

.PHONY: demo test test-slow test-lesser lint bench results clean

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[$(EXTRAS)]"
	touch $@

demo: .venv/.installed
	$(BIN)/equilibria report --out demo
	@echo "Open demo/report.html"

test: .venv/.installed
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile

test-slow: .venv/.installed
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile -m slow

# As a processor without AVX-512 would run them.
test-lesser: .venv/.installed
	$(BIN)/python tests/lesser.py --numprocesses=$(WORKERS) --dist=loadfile

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.installed
	$(BIN)/python -m benchmarks

# The table of the results in docs/results: what held, and what is stale.
results: .venv/.installed
	$(BIN)/python -m equilibria.app.results docs/results

clean:
	rm -rf .venv demo
