# Holdfast. `make help` lists the targets. SERVER=valkey9 runs tests on that server.
GO      ?= go
MODULES := . redishold/goredisconn redishold/rueidisconn redishold/importconf promhold otelhold cmd/holdfast bench internal/e2e
FLAGS   ?=
# Packages that keep a machine busy, and whose bounds of time suffer from others.
ALONE   := internal/e2e/(matrix|soak)$$
# Packages that take longest, and so begin first.
LONG    := internal/e2e/(locktest|conntest|dashtest)$$
# Packages that need programs in other languages, and where those are kept.
FOREIGN := internal/e2e/interop/(redisson/.*|plaintest)$$
INTEROP ?= $(or $(HOLDFAST_INTEROP),$(HOME)/.cache/holdfast-interop)
# The server that tests run on, where it is not the redis-server that is installed:
# redis6, redis8, valkey8 or valkey9.
SERVER  ?=
SERVERS ?= $(or $(HOLDFAST_SERVERS),$(HOME)/.cache/holdfast-servers)
ifneq ($(SERVER),)
export HOLDFAST_REDIS_SERVER := $(SERVERS)/$(SERVER)/server
endif

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## race buyers for the last items, without and with a lock; needs only Go
	$(GO) run ./cmd/holdfast demo

.PHONY: test
test: redis databases ## all tests but the random histories of make e2e, with the race detector, against real servers
	@set -e; for m in $(MODULES); do echo "== $$m"; \
		all=$$($(GO) list ./$$m/... | grep -vE '$(ALONE)|$(FOREIGN)'); \
		$(GO) test -race $(FLAGS) $$(echo "$$all" | grep -E '$(LONG)') $$(echo "$$all" | grep -vE '$(LONG)'); done
	$(GO) test -race $(FLAGS) ./internal/e2e/matrix

.PHONY: race
race: FLAGS += -count=3
race: redis ## the tests of the library three times over, to provoke races
	@set -e; for m in . redishold/goredisconn redishold/rueidisconn redishold/importconf cmd/holdfast; do echo "== $$m"; $(GO) test -race $(FLAGS) ./$$m/...; done

.PHONY: e2e
e2e: redis ## locks under faults: histories of processes, every deployment, the fault matrix, a random soak
	$(GO) test -race -count=1 $(FLAGS) -run History -skip SharesHistory ./internal/e2e/locktest
	HOLDFAST_SHARES=all $(GO) test -count=1 -timeout 30m $(FLAGS) -run SharesHistory ./internal/e2e/locktest
	$(GO) test -race -count=1 $(FLAGS) ./internal/e2e/deploytest
	$(GO) test -race -count=1 -p 1 $(FLAGS) ./internal/e2e/matrix ./internal/e2e/soak

# Tests of what differs between servers: scripts, answers, and clients of a cluster.
SMOKE   := Test(Acquire|Renew|Release|Abandon|Break|Explain|Several|Fair|ReadWrite|Semaphore|Latch|Plain|Timestamp|Probe|Missing|Redishold|SlowAnswer|Open|WhatCannotWork|Database)

.PHONY: smoke
smoke: redis ## what differs between servers: the scripts, every kind of lock, clients of a cluster; two minutes
	$(GO) test -race -count=1 $(FLAGS) -run '^$(SMOKE)' ./internal/e2e ./internal/e2e/conntest ./internal/e2e/deploytest

.PHONY: interop
interop: redis ## share locks with Redisson, redis-py, node-redlock, redsync and redislock; needs a JDK 17, Maven, Python 3 and Node
	@HOLDFAST_INTEROP="$(INTEROP)" sh .ci/interop
	HOLDFAST_INTEROP="$(INTEROP)" $(GO) test -race -count=1 ./internal/e2e/interop/plaintest
	HOLDFAST_INTEROP="$(INTEROP)" HOLDFAST_STRESS=$(or $(HOLDFAST_STRESS),10000) $(GO) test -json -race -count=1 -p 1 -timeout 20m ./internal/e2e/interop/redisson/... | \
		$(GO) run ./internal/e2e/interop/report -doc docs/redisson.md $(REPORT)

.PHONY: soak
soak: redis ## faults for DURATION=10m; DEPLOYMENT=cluster for one, SEED=… to replay
	$(GO) run ./internal/e2e/soak -duration $(or $(DURATION),10m) -deployment $(or $(DEPLOYMENT),all) -seed $(or $(SEED),0) $(FLAGS)

.PHONY: bench
bench: redis ## measure locks and their peers side by side, on one server; a few minutes
	$(GO) run ./bench -set short $(FLAGS)

.PHONY: bench-full
bench-full: redis ## all of it
	$(GO) run ./bench -set full $(FLAGS)

.PHONY: bench-check
bench-check: redis ## compare what a pair of Lock and Unlock costs with bench/guard.json
	$(GO) run ./bench -check

.PHONY: fuzz
fuzz: redis ## every fuzz target in turn, each for FUZZTIME=30s
	@GO="$(GO)" FUZZTIME="$(FUZZTIME)" sh .ci/fuzz $(MODULES)

.PHONY: lint
lint: ## formatting, vet, golangci-lint and known vulnerabilities
	@sh .ci/lint $(MODULES)

.PHONY: tidy
tidy: ## go mod tidy in every module, with the workspace's own modules
	@sh .ci/tidy $(MODULES)

.PHONY: redis
redis:
	@HOLDFAST_SERVERS="$(SERVERS)" sh .ci/$(if $(SERVER),server $(SERVER),redis)

.PHONY: databases
databases:
	@sh .ci/servers
