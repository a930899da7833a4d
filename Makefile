# Each target installs what it needs into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Milvus tests are skipped where no server can be started; `make test MILVUS=` fails instead.
MILVUS ?= --if-possible

# Time of `make fuzz`, for all targets together: make fuzz SECONDS=36000
SECONDS ?= 3600

# Tests often wait for servers and for other processes, so one more worker than cores pays.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: help demo test lint format types durability corruption fuzz bench docs wheel clean

help:
	@echo "make demo        train CHN-plus on generated images, evaluate it, build a collection"
	@echo "make test        run linters, type checks and tests"
	@echo "make lint        check style, spelling, line lengths and file sizes"
	@echo "make format      format the code with ruff"
	@echo "make types       check types with mypy"
	@echo "make bench       measure speed against faiss, usearch, NumPy and PyTorch"
	@echo "make durability  kill writers and servers, cut the power, and count lost items"
	@echo "make corruption  damage files of collections and models, and count wrong answers"
	@echo "make fuzz        try random files and filters for SECONDS (3600), and print crashes"
	@echo "make docs        build the documentation in site/"
	@echo "make wheel       build the package in dist/"
	@echo "make clean       remove everything the other targets create"

demo: .venv/.run
	$(BIN)/corrhash demo

test: lint types
	@[ -z "$(MILVUS)" ] || $(MAKE) -s .venv-milvus/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python tools/milvus_server.py $(MILVUS) $(BIN)/pytest -n $(WORKERS) -q

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	git ls-files | xargs $(BIN)/codespell
	@! git ls-files '*.py' '*.md' '*.toml' Makefile .ci | xargs grep -nE '^[^|].{100,}' \
		|| (echo "Lines wider than 100 columns."; exit 1)
	@! git ls-files -z ':!benchmarks/results' | xargs -0 du -k | awk '$$1 > 1024' | grep . \
		|| (echo "Files larger than 1 MB."; exit 1)

format: .venv/.dev
	$(BIN)/ruff check --fix -q .
	$(BIN)/ruff format -q .

types: .venv/.dev
	$(BIN)/mypy

durability: .venv/.dev
	@$(MAKE) -s .venv-milvus/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python tools/durability.py

corruption: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/corruption.py

fuzz: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz.py --seconds $(SECONDS)

bench: .venv/.bench
	$(BIN)/python -m benchmarks

docs: .venv/.docs
	$(BIN)/sphinx-build -q -W -b html -C docs site \
		-D project=corrhash -D html_title=corrhash -D html_theme=furo \
		-D extensions=myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon \
		-D exclude_patterns= -D myst_heading_anchors=3 -D autodoc_typehints=none \
		-D suppress_warnings=ref.python -D smartquotes=0
	@echo "Open site/index.html"

wheel: .venv/.dev
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean:
	rm -rf .venv .venv-milvus site dist build demo fuzz-crashes

# The Milvus server for tests needs older packages than corrhash, hence its own environment.
.venv-milvus/.ready: Makefile
	$(PYTHON) -m venv .venv-milvus
	.venv-milvus/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		milvus==2.3.5 pymilvus==2.3.7 'marshmallow<4' 'setuptools<80'
	@touch $@

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e ".[train,study,serve]"
	@touch $@

.venv/.%: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e ".[$*]"
	@touch $@
