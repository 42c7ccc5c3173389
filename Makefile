# The verbs of this repository. CI runs the same ones.
#
#   make demo       install the package, use a released model, train one on synthetic words and measure it
#   make test       lint, types and the short tests (installs everything it needs)
#   make test-all   the same and the long tests: QEMU, sanitizers, fuzzers, mutants, wheel, ten-hour recordings
#   make mcu        run the engine on microcontrollers in QEMU: instructions, RAM, flash (needs their compiler)
#   make fuzz       look for files and inputs that break the readers or the engine: make fuzz SECONDS=600 (needs clang)
#   make faults     let every write, rename, flush and large buffer of a command fail, and kill a training 200 times
#   make mutants    change terms of the backward pass and conditions elsewhere, one by one; tests must notice each
#   make web        compile the engine to WebAssembly, join the browser page and write it to build/circlematch.html
#   make table      train the missing runs of the paper's tables: make table JOBS=2 DATA=../data (needs the recordings)
#   make report     write README's tables, docs/tables.md, the figures and the model cards from results/
#   make docs       the pages and an API reference as a static site, with all links checked
#   make generated  write the generated headers of the engine, after a change of an interface or a shared number
#   make lint       ruff, and whether generated files are up to date; make types: mypy
#   make format     format the Python sources
#   make clean      remove .venv and everything that was built

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   ?= demo
SITE   ?= build/site
JOBS   ?= 1
SECONDS ?= 60
DATA   ?= $(or $(CIRCLEMATCH_DATA),../data)
ENGINE := $(wildcard engine/*.[ch] engine/*/*.[ch] engine/*/*.py)

export OMP_NUM_THREADS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)

.PHONY: help demo test test-all mcu fuzz faults mutants lint format types generated web table report docs clean
.DEFAULT_GOAL := help

help:
	@sed -n '3,/^$$/s/^# *//p' Makefile

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "CircleMatch needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)

# Both are editable installs: the engine is compiled in place, and again when its sources change.
$(VENV)/.demo: $(BIN)/python pyproject.toml setup.py constraints.txt $(ENGINE)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,plot]"
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml setup.py constraints.txt $(ENGINE)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

# What the page and its tests need beside: the compiler for WebAssembly and, if npm is there, drivers for browsers.
$(VENV)/.web: $(VENV)/.dev tests/web/package.json
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check "ziglang>=0.13"
	if command -v npm >/dev/null; then npm install --prefix tests/web --no-package-lock --no-fund --no-audit --silent; fi
	@touch $@

# What the tests of clusters and of object stores need beside: Ray, and an S3 server with its client, which needs an older
# python-dateutil than constraints.txt has.
$(VENV)/.cluster: $(VENV)/.dev
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check "ray[tune]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check s3fs==2026.9.0 aiobotocore==3.10.0 boto3==1.43.117 botocore==1.43.117 "moto[s3]==5.2.5" flask flask-cors
	@touch $@

demo: $(VENV)/.demo
	@VENV=$(VENV) DEMO=$(DEMO) bash examples/demo.sh

test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not long"

test-all: lint types $(VENV)/.web $(VENV)/.cluster
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

mcu: $(VENV)/.dev
	$(BIN)/python experiments/measure/mcu.py
	$(BIN)/python experiments/report/pages.py

fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/fuzz_files.py --seconds $(SECONDS)
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS)

faults: $(VENV)/.dev
	$(BIN)/python tests/faults/faults.py
	$(BIN)/python tests/faults/faults.py train --kills 200
	$(BIN)/python tests/faults/faults.py train cache --limits 50

mutants: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto tests/test_backward_terms.py
	$(BIN)/python tests/mutants/mutants.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python engine/shared/generate.py --check
	$(BIN)/python engine/python/interface.py --check

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generated: $(VENV)/.dev
	$(BIN)/python engine/shared/generate.py
	$(BIN)/python engine/python/interface.py

web: $(VENV)/.web
	$(BIN)/python web/build.py
	$(BIN)/python web/join.py circlematch/page.html
	@mkdir -p build
	$(BIN)/circlematch demo --out build/circlematch.html

table: $(VENV)/.dev
	$(BIN)/python experiments/grid.py table1 table2 table1-composite table2-composite --data $(DATA) --jobs $(JOBS)
	$(MAKE) report

report: $(VENV)/.dev
	$(BIN)/python experiments/report/pages.py
	$(BIN)/python experiments/report/figures.py
	$(BIN)/python experiments/report/cards.py

docs: $(VENV)/.dev
	$(BIN)/python docs/site.py $(SITE)

clean:
	rm -rf $(VENV) $(DEMO) build *.egg-info circlematch/_engine.c circlematch/_engine*.so circlematch/c circlematch/page.html tests/*/node_modules
