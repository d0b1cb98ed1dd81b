# What a newcomer needs, in four words. Everything lands in .venv and runs/; nothing else on the machine is touched.
#   PYTHON=python3.12       which interpreter makes .venv (otherwise the first suitable one is taken)
#   TORCH_INDEX=<address>   a package index with another build of PyTorch, for instance one without CUDA
SHELL := /bin/sh
BIN := .venv/bin
export PYTHON TORCH_INDEX
unexport PYTHONDONTWRITEBYTECODE # containers set it; each process would compile all of torch and transformers anew

.PHONY: help demo test test-slow test-all test-cpus lint docs bench faults llm-server llm-smoke mcp-servers openenv trackers verifiers verl tinker newest
help:
	@echo "make demo   train a small policy with the daemon beside it; ends with a report (needs Python 3.11-3.14)"
	@echo "make test   run the fast tests, in minutes; says how many it leaves out"
	@echo "make test-slow  run the slow tests"
	@echo "make test-all   run all tests, sweeps too; hours (WHOLE=1: and what else is tested by a part of it, all of it)"
	@echo "make test-cpus  run what compares numbers as on CPUs with fewer instructions than this one has"
	@echo "make lint   style, types and the one-way imports"
	@echo "make docs   build the guides as a site, docs/_site"
	@echo "make bench  measure what the project claims"
	@echo "make faults sweep kills, full disks, power cuts and damage over everything that is written; about an hour"
	@echo "make llm-server  serve a small language model on this machine's CPU (about 4 GB, once)"
	@echo "make llm-smoke   test against that server (12 GB of memory; WHOLE=1: an hour)"
	@echo "make mcp-servers  fetch MCP servers that others wrote (800 MB, needs npm) and test against them"
	@echo "make openenv  fetch OpenEnv's package (475 MB) and test against it"
	@echo "make trackers  fetch wandb, trackio, mlflow and tensorboard and read back what a killed run told them"
	@echo "make verifiers  set up verifiers in an environment of its own (800 MB) and test its adapter there"
	@echo "make verl    the same for verl (2 GB)"
	@echo "make tinker  the same for the Tinker cookbook (2 GB) and a server for its API (2 GB): thirty steps of a policy, too"
	@echo "make newest  every dependency in its newest version, in an environment of its own (1 GB): the fast tests there"

demo:
	@sh console/setup.sh demo
	@$(BIN)/rods up runs/demo --config console/demo.toml
	@$(BIN)/rods trainer score runs/demo
	@$(BIN)/rods dash runs/demo --export runs/demo/report
	@echo "Next: . .venv/bin/activate, then rods dash, rods inspect runs/demo TASK, rods verify runs/demo, README.md"

test: TESTS := -m "not slow and not sweep"
test-slow: TESTS := -m "slow and not sweep"
test test-slow test-all:
	@sh console/setup.sh dev
	@$(BIN)/rods data bfcl
	@$(BIN)/rods data tau2
	@$(BIN)/rods data acebench
	@RODS_WHOLE=$(WHOLE) OMP_NUM_THREADS=1 $(BIN)/python -m tests.rerun $(TESTS)

# PyTorch and MKL each choose by the CPU in which order they add; here they are told to choose as on a lesser one.
test-cpus:
	@sh console/setup.sh dev
	@ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 $(BIN)/python -m tests.rerun -m "numeric and not sweep" tests/trainer tests/family/seal tests/family/supervised
	@if grep -qw avx512f /proc/cpuinfo; then \
	  ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 OMP_NUM_THREADS=1 $(BIN)/python -m tests.rerun -m "numeric and not sweep" tests/trainer tests/family/seal tests/family/supervised; fi

lint:
	@sh console/setup.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs:
	@sh console/setup.sh dev
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs . docs/_site
	@echo "open docs/_site/docs/index.html"

bench:
	@sh console/setup.sh dev
	@$(BIN)/rods data bfcl
	@$(BIN)/rods data tau2
	@$(BIN)/rods data acebench
	@$(BIN)/python -m bench --quick

# The figures of docs/durability.md. SHARE=20 tries every twentieth point only.
faults:
	@sh console/setup.sh dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --share $(or $(SHARE),1)

llm-server:
	@sh console/setup.sh dev
	@sh bench/fixtures/llm_server/setup.sh
	@$(BIN)/python -m bench.fixtures.llm_server

mcp-servers:
	@sh console/setup.sh dev
	@PATH="$$(sh bench/fixtures/mcp_servers.sh):$$PATH" RODS_MCP=$(or $(RODS_MCP),1000) OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest --timeout=3600 tests/worlds/mcp/test_foreign.py tests/worlds/test_abroad.py
	@PATH="$$(sh bench/fixtures/mcp_servers.sh):$$PATH" OMP_NUM_THREADS=1 $(BIN)/python -m bench.mcp_table --run

openenv:
	@sh console/setup.sh dev
	@PYTHONPATH="$$(sh bench/fixtures/fetched.sh $(BIN)/python openenv openenv-core)" RODS_OPENENV=1 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest --timeout=3600 tests/worlds/openenv/test_real.py

trackers:
	@sh console/setup.sh dev
	@PYTHONPATH="$$(sh bench/fixtures/fetched.sh $(BIN)/python trackers \
	  wandb trackio mlflow-skinny sqlalchemy alembic tensorboard)" RODS_TRACKERS=1 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest --timeout=3600 tests/trainer/test_reporters.py

# Adapters, each held to the contract in an environment with the library that it is for.
ENVIRONMENT = sh bench/fixtures/environment.sh $(BIN)/python
ADAPTER_TESTS = -m pytest --timeout=3600 tests/trainer/adapters/test_one_truth.py tests/trainer/adapters/test_
RECIPE_TESTS = tests/family/schedule/test_recipes.py

verifiers:
	@sh console/setup.sh dev
	@OMP_NUM_THREADS=1 "$$($(ENVIRONMENT) verifiers -e . verifiers==0.4.0 uv)" \
	  $(ADAPTER_TESTS)verifiers_stream.py tests/trainer/adapters/test_verifiers_world.py \
	  $(RECIPE_TESTS)

verl:
	@sh console/setup.sh dev
	@OMP_NUM_THREADS=1 "$$($(ENVIRONMENT) verl -e . torch verl==0.9.1)" $(ADAPTER_TESTS)verl_dataset.py $(RECIPE_TESTS)

tinker:
	@sh console/setup.sh dev
	@OMP_NUM_THREADS=1 PYTHON=$(BIN)/python \
	  "$$($(ENVIRONMENT) cookbook -e . torch tinker-cookbook==0.5.0 tinker==0.24.1)" \
	  $(ADAPTER_TESTS)tinker_dataset.py tests/trainer/adapters/test_tinker_run.py $(RECIPE_TESTS)

newest:
	@sh console/setup.sh dev
	@$(BIN)/python bench/fixtures/newest.py

llm-smoke:
	@sh console/setup.sh dev
	@$(BIN)/rods data bfcl
	@$(BIN)/rods data tau2
	@sh bench/fixtures/llm_server/setup.sh
# Files side by side, since one server answers all of them (a single reply keeps it waiting for memory), but what asks
# how fast it answers goes first. Then what trains: it takes all cores itself, and serves what it trains.
	@RODS_LLM_SMOKE=1 OMP_NUM_THREADS=1 $(BIN)/python -m bench.fixtures.llm_server --threads $$(nproc) sh -c "\
	  $(BIN)/python -m pytest tests/rods/llm/test_real_server.py && \
	  $(BIN)/python -m pytest --dist loadfile $(if $(WHOLE),-n 4,-n 2 -m not\ slow) tests/family/benchmarks/test_real_server.py \
	  tests/family/simulation/test_real_model.py tests/daemon/test_real_model.py \
	  tests/family/environments/written/test_real_model.py"
	@RODS_LLM_SMOKE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(if $(WHOLE),,-m not\ slow) \
	  tests/trainer/test_smollm2.py tests/trainer/test_real_server.py tests/trainer/test_native_training.py
