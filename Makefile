# Thin names for what .ci/bootstrap and the tools do; `make` alone lists them.
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup run test test-long lint format docs nccl-matrix bench-parity bench-first-result bench-start-up bench-shaped bench-compare bench-quick \
	bench-agent bench-agent-scale bench-estimates bench-memory bench-planted fuzz bench-hogs bench-preflight bench-scan bench-verdicts collection readmes gpu-proof gpu-proof-dry gpu-paths gpu-pack site pictures clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

setup: ## install everything into .venv
	sh .ci/bootstrap

run: ## two emulated nodes on this machine: raybench run --nodes 2
	sh .ci/bootstrap run --nodes 2

test: ## the tests that this machine can run, but for the long ones
	sh .ci/bootstrap test

test-long: ## those of half a minute and more each: real clusters, trainings and studies
	RAYBENCH_LONG_TESTS=1 sh .ci/bootstrap test -m long

nccl-matrix: ## faults in every release of NCCL in RAYBENCH_NCCL_SOURCE over an emulated GPU, and what is said of the logs (root; an hour)
	$(BIN)/python -m tests.lab.nccl

lint: ## style and types, as CI checks them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture
	$(BIN)/mypy
	$(BIN)/mypy tests/lab
	$(BIN)/mypy tests/measurements

format: ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-parity: ## the same loop under torchrun and under raybench, alternating, as a ratio (minutes; a quiet machine)
	$(BIN)/python -m tests.measurements.steady

bench-first-result: ## seconds to the first all_reduce against torchrun
	$(BIN)/python -m tests.measurements.first_result

bench-start-up: ## raybench --help against torchrun --help, and where the start of a run goes
	$(BIN)/python -m tests.measurements.start_up

bench-shaped: ## measured against true bandwidth on shaped links (root)
	$(BIN)/python -m tests.measurements.shaped

bench-compare: ## what compare says of real runs over one shaped link, the same twice and 5 % slower (root; 18 minutes; a quiet machine)
	$(BIN)/python -m tests.comparison.live_pairs

bench-quick: ## bench-parity and bench-first-result in brief
	$(BIN)/python -m tests.measurements.steady --quick
	$(BIN)/python -m tests.measurements.first_result --quick --scenes attached,embedded

bench-estimates: ## estimates of each source's published trainings, fitted to the other sources, beside other tools' formulas (a minute)
	$(BIN)/python -m tests.performance_model.leave_one_out
	$(BIN)/python -m tests.performance_model.random_halves
	$(BIN)/python -m tests.performance_model.asked.judge

bench-memory: ## estimated memory of known config.json files beside all tensors that transformers makes of them (minutes)
	$(BIN)/python -m tests.performance_model.configs.counted_config

bench-verdicts: ## expected bandwidths on published healthy systems and injected faults, other suites' limits beside them
	$(BIN)/python -m tests.measurements.expected_bandwidths

bench-scan: ## seconds of raybench diagnose on logs of 512 MiB against grep (minutes; a quiet machine)
	$(BIN)/python -m tests.diagnostics.bench_scan

bench-agent: ## what the agent costs a training, stopped and going on by turns, with a control (a quiet machine; seven minutes)
	$(BIN)/python -m tests.measurements.agent_steps
	$(BIN)/python -m tests.measurements.agent_cost --seconds 30

bench-agent-scale: ## the samples of 1000 nodes: kept, loaded, joined, judged and shown
	$(BIN)/python -m tests.measurements.agent_scale

bench-planted: ## every planted fault: who is named, and when; and twenty clean runs without a warning (a quiet machine; root; half an hour)
	$(BIN)/python -m tests.faults.planted --clean 20

fuzz: ## every reader of what others write, with 10,000 damaged inputs each, documents and logs (some minutes)
	$(BIN)/python -m tests.security.readers --count 10000
	$(BIN)/python -m tests.documents.mutation --count 10000
	$(BIN)/python tests/diagnostics/fuzz.py --inputs 100000

bench-hogs: ## bench-parity at 16M beside four busy processes
	$(BIN)/python -m tests.measurements.steady --hogs 4 --sizes 16M --sides torchrun,attached,control

bench-preflight: ## the probe of 10, 50 and 100 hosts against ansible -m ping, and 1000 hosts' reports (root)
	$(BIN)/python -m tests.measurements.preflight

collection: ## the playbooks as the Ansible collection raybench.cluster, in dist/
	$(BIN)/python .ci/collection.py dist

readmes: ## READMEs of the roles, from their argument specifications
	$(BIN)/python -m tests.playbooks.role_readme

gpu-proof: ## prove on this machine's GPU what is claimed of one; again: the steps that are left (PROOF="--seconds 570 --only ID,...")
	$(BIN)/python -m tests.gpu $(if $(DRY),--dry-run) $(PROOF)

gpu-proof-dry: ## the same steps in the same order on a CPU, over gloo
	$(BIN)/python -m tests.gpu --dry-run --again $(PROOF)

site: ## the documentation as pages, into build/site
	$(BIN)/python -m sphinx -q -W -b html docs build/site
	$(BIN)/python -m sphinx -q -b man docs build/man

pictures: ## the pictures of the documentation, from stored results
	$(BIN)/python -m tests.site.pictures

gpu-paths: ## write docs/gpu.md: every path that only a GPU reaches, and whether a record proves it
	$(BIN)/python -m tests.gpu.paths --write

gpu-pack: ## wheels that a GPU machine without internet lacks, in pieces (PACK="--python 3.12 --present FILE --piece-mib 48")
	$(BIN)/python -m tests.gpu.pack $(PACK)

clean: ## remove caches and run folders, not .venv
	rm -rf runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
