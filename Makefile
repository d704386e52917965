# Tracefleet. "make help" lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# What the targets take from the command line or the environment.
IMAGE ?= tracefleet/sandbox:latest
BASE ?= debian:trixie-slim
PYTHON_PACKAGES ?=
FUZZTIME ?= 10000x
TESTFLAGS ?=
TESTCOUNTFLAGS ?=
SCALE ?= worker=1
JOBS ?= 400
SEED ?= 0
ROUNDS ?= 1
export IMAGE BASE PYTHON_PACKAGES FUZZTIME

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Prepare this machine: binaries, Docker engine, Redis, sandbox image
	@deploy/setup/setup.sh

.PHONY: build
build: ## Build bin/worker and bin/enqueuer
	@deploy/setup/binaries.sh

.PHONY: viewer
viewer: ## Build the trace viewer's page anew after a change in its web/ (needs Node 20 and npm)
	@cd internal/api/viewer/web && npm ci --no-fund --no-audit --loglevel=error && npm run --silent check && npm run --silent build

.PHONY: image
image: ## Build the sandbox image; PYTHON_PACKAGES="python3-numpy" adds packages
	@deploy/setup/engine.sh
	@deploy/setup/base.sh
	@deploy/setup/image.sh

.PHONY: demo
demo: setup ## Trace the example programs with a throw-away fleet
	@examples/demo.sh

.PHONY: test
test: setup lint fuzz ## Set up, lint, fuzz shortly, run all tests with the race detector
	@# 1 says that tests have failed: testcount has seen them, and may try them again.
	@{ CGO_ENABLED=1 go test -json -race -count=1 -timeout 20m $(TESTFLAGS) ./... || [ $$? -eq 1 ]; } | go run ./deploy/setup/testcount $(TESTCOUNTFLAGS)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, import rules
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w: $$unformatted"; exit 1; fi
	@go vet ./...
	@go tool staticcheck ./...
	@go test -count=1 ./internal/archtest >/dev/null || go test -count=1 ./internal/archtest
	@echo "lint: clean"

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (a count like 10000x, or a time like 30s)
	@deploy/setup/fuzz.sh

.PHONY: chaos
chaos: setup ## Break a fleet while it works, as root; JOBS=400 SEED=7 ROUNDS=1, a seed of 0 picks one
	@go test ./internal/chaos -count=1 -v -timeout 60m -args -jobs $(JOBS) -seed $(SEED) -rounds $(ROUNDS) -worker-stop 40s -engine-stop 20s

.PHONY: bench
bench: setup ## Measure a fleet beside bare Python, Docker and asynq; the last line is JSON. Needs root and a quiet machine
	@go run ./deploy/bench -image $(IMAGE)

.PHONY: bench-quick
bench-quick: build ## The same with fewer repetitions, in about 50 s
	@go run ./deploy/bench -quick -image $(IMAGE)

.PHONY: attack
attack: setup ## Every attack under runc, gVisor and crun; table in docs/security-report.md
	@deploy/setup/gvisor.sh || true
	@deploy/setup/crun.sh || true
	@deploy/setup/attack.sh

.PHONY: gvisor
gvisor: ## Build gVisor's runsc and make it known to the engine, for --runtime runsc
	@deploy/setup/gvisor.sh

.PHONY: bench-tracer
bench-tracer: setup ## Measure what the tracer costs a program; the last line but one is JSON
	@go test -run '^$$' -bench BenchmarkTracer -benchtime 1x -timeout 60m ./sandbox-image/tracer

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what we use (needs vuln.go.dev)
	@go tool govulncheck ./...

# An image that is asked for is built and run; otherwise one named in .env is.
ifneq ($(origin IMAGE),file)
up: export TRACEFLEET_IMAGE ?= $(IMAGE)
endif

.PHONY: up
up: build image ## Start the whole fleet with Compose; SCALE=worker=3 for more workers
	@deploy/compose/up.sh --scale $(SCALE)

.PHONY: down
down: ## Stop the Compose fleet; its data is kept
	@deploy/compose/down.sh

.PHONY: clean
clean: ## Remove what was built here; images and the engine stay
	@rm -rf bin build
