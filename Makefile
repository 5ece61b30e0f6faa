# Everything a developer and CI run. `make help` lists it.

PYTHON ?= python3
GPUS ?= H100-80GB:2
N ?= 200000
NODES ?= 20
CLAIMS ?= 2000
SEED ?= $(shell date +%s)
MINUTES ?= 10
FAULTS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Without what only development needs, so that it is there soon.
DEMO := .venv-demo
# Of a namespace: the simulated driver lets only root change settings, as NVIDIA's does.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),unshare --map-root-user --mount)
export PYTHONPATH := tests
# Modules are compiled once, not each time that a test starts a program.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

.PHONY: setup
setup: $(READY) ## Make the virtual environment in .venv with everything that is needed, pinned and hashed

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

.PHONY: check
check: setup ## Check style, types, layers and that generated files are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy operator/gpusharing tests tools
	$(BIN)/lint-imports
	$(BIN)/python tools/generate.py --check
	$(BIN)/python tools/make_site.py --check

.PHONY: test
test: check ## Run the checks and every test, on a real Kubernetes that is built on first use (ten minutes, then cached)
	$(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: test-fast
test-fast: setup ## Run the tests that need neither a build of Kubernetes nor an image nor minutes
	$(AS_ROOT) $(BIN)/pytest --numprocesses 4 -m 'not cluster and not node and not image and not slow'

.PHONY: hammer
hammer: setup ## Have claims of all modes come and go on nodes with agents (NODES=20 CLAIMS=2000 SEED=7)
	GPUSHARING_HAMMER_NODES=$(NODES) GPUSHARING_HAMMER_CLAIMS=$(CLAIMS) GPUSHARING_HAMMER_SEED=$(SEED) \
		GPUSHARING_HAMMER_PLACED_WITHIN=5 $(BIN)/pytest -s tests/cluster/narrowing/test_hammer.py

.PHONY: fuzz-cel
fuzz-cel: setup ## Compare our CEL with kube-scheduler's on random selectors, and tell what the next Kubernetes changes (N=200000 SEED=7)
	$(BIN)/python -m cel.fuzz --count $(N) --seed $(SEED)

.PHONY: fuzz-allocate
fuzz-allocate: N = 2000
fuzz-allocate: setup ## Compare what we allocate with kube-scheduler's allocator in random clusters (N=2000 SEED=3)
	$(BIN)/python -m allocating.fuzz --count $(N) --seed $(SEED)

.PHONY: fuzz-scheduler
fuzz-scheduler: N = 2000
fuzz-scheduler: setup ## Compare what we allocate with kube-scheduler itself, pod after pod (N=20000 SEED=3; MINOR=36 emulates 1.36)
	$(BIN)/python -m allocating.on_scheduler --count $(N) --seed $(SEED) $(if $(MINOR),--minor $(MINOR))

.PHONY: fuzz-config
fuzz-config: N = 100000
fuzz-config: setup ## Compare what we make of random opaque configs with NVIDIA's driver (N=100000 SEED=7)
	$(BIN)/python -m nvidia_configs.fuzz --count $(N) --seed $(SEED)

.PHONY: histories
histories: N = 2000
histories: setup ## Live through random histories of claims, faults and restarts on one node (N=2000 SEED=7)
	$(BIN)/python -m agent.histories.histories --count $(N) --seed $(SEED)

.PHONY: chaos
chaos: setup ## Break things at random on a real node while pods come and go (MINUTES=10 SEED=7 FAULTS='power cut,reboot'; root)
	$(BIN)/python -m chaos.run --minutes $(MINUTES) --seed $(SEED) --faults '$(FAULTS)'

.PHONY: generate
generate: setup ## Write the CRDs and the gRPC messages anew
	$(BIN)/python tools/generate.py

.PHONY: docs
docs: setup ## Build the site of the pages into dist/site; broken links and unknown anchors fail
	$(BIN)/python tools/make_site.py

.PHONY: lock
lock: setup ## Resolve the requirement files anew (for an upgrade: UPGRADE=--upgrade)
	tools/lock.sh $(UPGRADE)

.PHONY: bench
bench: setup ## Measure, and write the table into docs/performance.md
	$(BIN)/python -m bench

.PHONY: bench-scheduler
bench-scheduler: setup ## Measure kube-scheduler with our slices, and write that table (five minutes on a quiet machine)
	$(BIN)/python -m bench.scheduler

.PHONY: bench-operator
bench-operator: setup ## Measure the operator before a thousand nodes, and write that table (ten minutes on a quiet machine)
	$(BIN)/python -m bench.operating

.PHONY: bench-commands
bench-commands: setup ## Measure commands on their own and before a thousand nodes, and write that table (five minutes on a quiet machine)
	$(BIN)/python -m bench.commands

.PHONY: image
image: setup ## Build the images into dist/image, without a registry of images (ARCH=arm64; buildah and mmdebstrap, root)
	$(BIN)/python tools/image/build.py $(if $(ARCH),--arch $(ARCH))
	$(BIN)/python tools/image/sbom.py dist/image/*.tar

.PHONY: release-prepare
release-prepare: setup ## Write the next version and its changelog (VERSION=0.2.0)
	$(BIN)/python tools/release.py --prepare '$(VERSION)'

.PHONY: release
release: setup ## Make dist/VERSION: images, manifests, chart, commands for krew, checksums (PREFIX=registry/team/ URI=https://host/dir/; root)
	$(BIN)/python tools/release.py --check
	$(MAKE) image ARCH=amd64
	$(MAKE) image ARCH=arm64
	$(BIN)/python tools/release.py --prefix '$(PREFIX)' --uri '$(URI)'

$(DEMO)/.ready: requirements/operator.txt requirements/agent.txt requirements/cli.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	@echo 'Installing what the demo needs into $(DEMO), once: about half a minute'
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/pip install --quiet --disable-pip-version-check --require-hashes $(addprefix --requirement ,$^)
	@touch $@

.PHONY: demo
demo: $(DEMO)/.ready ## See GPU sharing happen, without Kubernetes, GPU and root (ARGS='--pause'; a C compiler)
	@PYTHONPATH=$(CURDIR)/operator $(DEMO)/bin/python -m gpusharing demo $(ARGS)

.PHONY: cluster
cluster: setup ## Start a cluster with a simulated GPU node and leave it running (GPUS=H100-80GB:2,A100-40GB:1; root)
	$(BIN)/python -m harness.up --dir .cluster --gpus $(GPUS)

.PHONY: cluster-down
cluster-down: setup ## End that cluster
	$(BIN)/python -m harness.down --dir .cluster
