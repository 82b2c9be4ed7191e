# Two commands do the set-up and the work: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS ?= dev
WORKERS ?= 2

.PHONY: demo test test-slow test-lesser test-faults test-lowest test-wheel lint bench results docs docs-open dist clean

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
	XLA_FLAGS="$$XLA_FLAGS" $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile -m slow

# As a processor without AVX-512 would run them.
test-lesser: .venv/.installed
	$(BIN)/python tests/lesser.py --numprocesses=$(WORKERS) --dist=loadfile

# Kills, full disks, changed files, two at once, wrong input, extreme numbers: all of it, counted in docs/reliability.md.
test-faults: .venv/.installed
	cd tests && ../$(BIN)/python -m faults.suite

# The lowest version of every dependency that pyproject.toml allows, in an environment of its own: what is public is imported,
# a machine is trained, resumed and looked at by the command line, and the tests that touch other packages most are run.
.venv-lowest/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable ".[dev]"
	touch $@

test-lowest: .venv-lowest/.installed
	EQUILIBRIA_TEST_CACHE=tests/.compiled-lowest .venv-lowest/bin/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile \
	  tests/test_public.py tests/app tests/files tests/grids/test_grid.py tests/learn/test_devices.py tests/learn/test_loop.py \
	  tests/estimators tests/model tests/papers/test_frame.py tests/theory/test_saddle.py tests/data

# The code, and by the schemas that check-jsonschema carries the workflows, the forms for issues and CITATION.cff.
lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

# The site, into docs/_build/html. Executed pages are kept, so that a second build only runs what has changed.
docs: .venv/.installed
	$(BIN)/pip install --quiet --editable ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -j 2 -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html, or run make docs-open"

docs-open:
	@echo "http://127.0.0.1:8000"
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

# The source archive and the wheel, into dist/; test-wheel installs the wheel where nothing else of the project is.
dist: .venv/.installed
	$(BIN)/pip install --quiet build
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

# `make test-wheel PYTHON=python3.13` tries another Python, `RESOLUTION=lowest-direct` the lowest version of every dependency,
# `DOCTESTS=no` leaves it at a smoke test of estimators and commands.
RESOLUTION ?= highest
DOCTESTS ?= yes
# Dependencies are read off pyproject.toml first: what a wheel asks for is not direct for uv, and would be the newest.
INTO_WHEEL = .venv-wheel/bin/uv pip install --quiet --python .venv-wheel/bin/python
test-wheel:
	rm -rf .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --upgrade pip uv
	$(INTO_WHEEL) --resolution $(RESOLUTION) -r pyproject.toml
	$(INTO_WHEEL) dist/*.whl pytest
ifeq ($(DOCTESTS),no)
	.venv-wheel/bin/python tests/wheel.py --smoke
else
	.venv-wheel/bin/python tests/wheel.py
	$(INTO_WHEEL) --resolution $(RESOLUTION) -r pyproject.toml --extra lab
	.venv-wheel/bin/python tests/wheel.py app/lab
endif

bench: .venv/.installed
	$(BIN)/python -m benchmarks

# The tables of the results in docs/results and in the README: what held, and what is stale.
results: .venv/.installed
	$(BIN)/python -m equilibria.app.results docs/results README.md

clean:
	rm -rf .venv .venv-* demo dist docs/_build docs/api docs/gallery
