# Every target makes what it needs in .venv; nothing has to be installed by hand.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests that need a Milvus server run where one can be started; `make test MILVUS=` insists.
MILVUS ?= --if-possible

.PHONY: help demo test lint format types durability bench docs wheel clean

help:
	@echo "make demo    draw pictures, learn codes, measure both directions"
	@echo "make test    lint, types and tests"
	@echo "make bench   speed against other programs and targets, and how methods scale"
	@echo "make durability   kill writers and servers, count what is lost"
	@echo "make lint    ruff, codespell, line lengths, file sizes"
	@echo "make format  let ruff format the code"
	@echo "make types   mypy"
	@echo "make docs    the documentation, in site/"
	@echo "make wheel   build the package, in dist/"
	@echo "make clean   remove what the other targets made"

demo: .venv/.run
	$(BIN)/corrhash demo

test: lint types
	@[ -z "$(MILVUS)" ] || $(MAKE) -s .venv-milvus/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python tools/milvus_server.py $(MILVUS) $(BIN)/pytest -n auto -q

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	git ls-files | xargs $(BIN)/codespell
	@! git ls-files '*.py' '*.md' '*.toml' Makefile .ci | xargs grep -nE '^.{101,}' \
		|| (echo "Lines wider than 100 columns."; exit 1)
	@! git ls-files -z | xargs -0 du -k | awk '$$1 > 1024' | grep . \
		|| (echo "Files larger than 1 MB."; exit 1)

format: .venv/.dev
	$(BIN)/ruff check --fix -q .
	$(BIN)/ruff format -q .

types: .venv/.dev
	$(BIN)/mypy

durability: .venv/.dev
	@$(MAKE) -s .venv-milvus/.ready || true
	OMP_NUM_THREADS=1 $(BIN)/python tools/durability.py

bench: .venv/.bench
	$(BIN)/python -m benchmarks

docs: .venv/.docs
	$(BIN)/sphinx-build -q -W -b html -C docs site \
		-D project=corrhash -D html_title=corrhash -D html_theme=furo \
		-D extensions=myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon \
		-D exclude_patterns= -D myst_heading_anchors=3 -D autodoc_typehints=none \
		-D suppress_warnings=ref.python
	@echo "Open site/index.html"

wheel: .venv/.dev
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean:
	rm -rf .venv .venv-milvus site dist build demo

# The server of Milvus and the library that unpacks it, which want packages of their own age.
.venv-milvus/.ready: Makefile
	$(PYTHON) -m venv .venv-milvus
	.venv-milvus/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		milvus==2.3.5 pymilvus==2.3.7 'marshmallow<4' 'setuptools<80'
	@touch $@

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e ".[serve]"
	@touch $@

.venv/.%: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e ".[$*]"
	@touch $@
