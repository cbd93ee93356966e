# Commands of the project. `make` alone prints this list.
#
# Nothing here installs anything on the system: binaries of tools go to ./bin,
# broker jars to the user's cache folder, and every server that a target starts
# listens on 127.0.0.1 and is stopped by it. `.ci/run` is what installs packages.

# Some images pin the local toolchain; the language version of go.mod decides here.
export GOTOOLCHAIN := go1.27.3+auto

SHELL := /bin/bash
GO    ?= go
BIN   := $(CURDIR)/bin

SEEDS    ?= 1000
SEED     ?=
MUTATE   ?=
DURATION ?= 600s
BREAK    ?=
MODE     ?= barrier
GUARANTEE ?= exactly-once
FAULT    ?=
KEYS     ?= 1000000
ARGS     ?=

# Packages whose goroutines meet: these run a second time under the race detector.
RACE_DIRS := barrier changelog checkpoint internal/kafka rebalance runtime state tasks transactions
RACE_PKGS := $(foreach d,$(RACE_DIRS),$(if $(wildcard $(d)/*.go),./$(d)/...))

# All tests of real servers of one module share the machine: a few minutes when
# everything is warm, more when the broker or versitygw must first be built.
INTEGRATION_TIMEOUT ?= 20m

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-race test-integration faults lint vet sim metamorphic crash elastic bench compare compare-full image tools fmt clean

help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  sim:   SEEDS=$(SEEDS) SEED=one seed to replay MUTATE=all|R2|R3|…'
	@echo '  metamorphic: SEEDS=$(SEEDS) SEED=one seed to replay'
	@echo '  crash: DURATION=$(DURATION) SEED=7 STANDBYS=1 BREAK=commit-early|no-lineage|offsets-ahead'
	@echo '         MODE=changelog BREAK=offsets-ahead|store-early; GUARANTEE=at-least-once'
	@echo '  faults: FAULT=Network, or the beginning of another test behind TestFault'
	@echo '  elastic: KEYS=$(KEYS) of the state that is taken over'
	@echo '  bench: ARGS="flags of integration/bench"'
	@echo '  real servers: TIDEGATE_KAFKA_BROKERS, TIDEGATE_S3_ENDPOINT use running ones (loopback only);'
	@echo '                TIDEGATE_KAFKA=docker|java takes one way of starting a broker only'

demo: ## flights through three instances on an in-process broker, one of them killed
	$(GO) run ./examples/flights

test: test-unit test-race test-integration ## all tests: unit, race, in-process broker, real servers

test-unit: ## unit tests and tests on the in-process broker
	$(GO) test ./...
	cd compare && $(GO) test ./...

test-race: ## the packages whose goroutines meet, under the race detector
	$(GO) test -race $(RACE_PKGS)

test-integration: ## tests on a real Kafka and a real S3 server, found or started
	cd integration && $(GO) run ./servers/probe && $(GO) test -timeout $(INTEGRATION_TIMEOUT) ./...

faults: ## what docs/failures.md promises, the long tests too, on real servers; prints how long output stood still
	cd integration && set -o pipefail && TIDEGATE_FAULTS=1 $(GO) test -count=1 -timeout 40m -v -run 'TestFault$(FAULT)' . | grep -v '^=== '

lint: vet $(BIN)/golangci-lint ## go vet and golangci-lint of every module, and formatting
	@out="$$($(GO) fmt ./... && (cd integration && $(GO) fmt ./...) && cd compare && $(GO) fmt ./...)" || exit 1; \
	  if [ -n "$$out" ]; then echo "not formatted (now they are):"; echo "$$out"; exit 1; fi
	$(BIN)/golangci-lint run ./...
	cd integration && $(BIN)/golangci-lint run --config ../.golangci.yml ./...
	cd compare && $(BIN)/golangci-lint run --config ../.golangci.yml ./...

vet: ## go vet of every module
	$(GO) vet ./...
	cd integration && $(GO) vet ./...
	cd compare && $(GO) vet ./...

sim: ## seeded simulation of the protocol's state machines
	$(GO) run ./internal/sim/simrun -seeds $(SEEDS) $(if $(MUTATE),-mutate "$(MUTATE)") $(if $(SEED),-seed $(SEED))

metamorphic: ## random topologies, input, partitions and restarts against a reference
	$(GO) test -count=1 -timeout 60m -parallel 8 ./internal/dsltest/metamorphic $(if $(SEED),-seed=$(SEED),-seeds=$(SEEDS))

crash: ## real processes on real servers, killed at random, every output record checked
	cd integration && $(GO) run ./crash -mode $(MODE) -guarantee $(GUARANTEE) -duration $(DURATION) $(if $(SEED),-seed $(SEED)) $(if $(STANDBYS),-standbys $(STANDBYS)) $(if $(BREAK),-break $(BREAK))

elastic: ## instances come, go and are restarted under load on a real broker; one is killed, with and without a standby; 200 are assigned 10,000 tasks
	cd integration && $(GO) run ./elastic $(ARGS)
	$(GO) test -count=1 -v -run TestTenInstances ./internal/dsltest/ten -measure
	cd integration && $(GO) run ./takeover -keys $(KEYS)
	$(GO) test -count=1 -v -run TestLargeGroupMovesFewest ./rebalance

bench: ## the count workload against the floor, on a real broker
	cd integration && $(GO) run ./bench $(ARGS)

compare: ## barrier and changelog mode against Kafka Streams, Flink and the floor (needs a JDK 17 and Maven)
	cd compare && $(GO) run . $(ARGS)

compare-full: ## all systems and workloads, three sizes of state, restores, sizes of checkpoints, sweeps; hours
	cd compare && $(GO) run . -systems floor,barrier,barrier-s3,changelog,at-least-once,unprotected,kafka-streams,kafka-streams-cache,kafka-streams-transactional,kafka-streams-streams-protocol,flink \
	  -workloads count,q5,q8,passthrough,q3,q7,q11,bigstate -window 20s -records 24000000 -latency q5,q8 -latency-rounds 3 -latency-window 60s \
	  -recovery 100000,1000000,10000000 -recovery-rounds 3 -restore 100000,1000000,10000000 -checkpoints 40 \
	  -intervals 25ms,100ms,1s,10s -skews 0.5,1,1.5 $(ARGS)

image: ## docker image of the broker, built here where none can be pulled
	scripts/kafka-image.sh

tools: $(BIN)/golangci-lint $(BIN)/versitygw ## pinned tools of tools/go.mod, built into ./bin

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/versitygw: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ github.com/versity/versitygw/cmd/versitygw

fmt: ## format every module (the gofmt of older releases rejects generic methods)
	$(GO) fmt ./...
	cd integration && $(GO) fmt ./...
	cd compare && $(GO) fmt ./...

clean: ## remove what was built here; caches of Go and Maven stay
	rm -rf bin .cache
