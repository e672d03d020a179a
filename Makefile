# Holdfast. `make help` lists the targets.
GO      ?= go
MODULES := . redishold/goredisconn redishold/rueidisconn cmd/holdfast internal/e2e
FLAGS   ?=
# Packages that keep a machine busy, and whose bounds of time suffer from others.
ALONE   := internal/e2e/(matrix|soak)$$

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## race buyers for the last items, without and with a lock; needs only Go
	$(GO) run ./cmd/holdfast demo

.PHONY: test
test: redis databases ## all tests but the random histories of make e2e, with the race detector, against real servers
	@set -e; for m in $(MODULES); do echo "== $$m"; $(GO) test -race $(FLAGS) $$($(GO) list ./$$m/... | grep -vE '$(ALONE)'); done
	$(GO) test -race $(FLAGS) ./internal/e2e/matrix

.PHONY: race
race: FLAGS += -count=3
race: redis ## the tests of the library three times over, to provoke races
	@set -e; for m in . redishold/goredisconn redishold/rueidisconn cmd/holdfast; do echo "== $$m"; $(GO) test -race $(FLAGS) ./$$m/...; done

.PHONY: e2e
e2e: redis databases ## the tests with real servers, several processes and faults, random ones too
	$(GO) test -race -count=1 $(FLAGS) $$($(GO) list ./internal/e2e/... | grep -vE '$(ALONE)')
	$(GO) test -race -count=1 -p 1 $(FLAGS) ./internal/e2e/matrix ./internal/e2e/soak

.PHONY: soak
soak: redis ## faults for DURATION=10m; DEPLOYMENT=cluster for one, SEED=… to replay
	$(GO) run ./internal/e2e/soak -duration $(or $(DURATION),10m) -deployment $(or $(DEPLOYMENT),all) -seed $(or $(SEED),0) $(FLAGS)

.PHONY: bench
bench: redis ## measure Lock and Unlock on both adapters
	$(GO) test -run '^$$' -bench . -benchmem $(FLAGS) ./internal/e2e/...

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
	@sh .ci/redis

.PHONY: databases
databases:
	@sh .ci/servers
