# Holdfast. `make help` lists the targets. SERVER=valkey9 runs tests on that server.
GO      ?= go
# The folders of the modules. go.work has the only list; internal/hosts is outside of it.
MODULES := $(patsubst ./%,%,$(shell sed -n '/^use (/,/^)/s/^\t//p' go.work))
# The modules that get versions, those of them that users import, and those that users copy.
RELEASED  := $(filter-out bench examples/% internal/%,$(MODULES))
LIBRARIES := $(filter-out cmd/%,$(RELEASED))
EXAMPLES  := $(filter examples/%,$(MODULES))
FLAGS   ?=
# All packages, and those that begin first as they take longest. Several run at the same
# time (-p): they wait for servers and for leases more than they compute.
LIST    := $(GO) list $(MODULES:%=./%/...)
LONG    := /holdfast$$|internal/e2e/(clitest|scripttest|locktest|conntest|dashtest|deploytest)$$
# Packages for make e2e alone: deployments under faults, databases, and pages in a browser.
E2E     := internal/e2e/(deploytest|dashtest|webdemotest|matrix|soak|fencetest|shoptest|sqltest)$$
# Packages of make test with tests that ask testing.Short: make e2e runs them again, whole.
SHORTER := internal/e2e/(clitest|conntest|faqtest|locktest|resources|simoverlay)$$
# Those that keep a machine busy, and whose bounds of time suffer from others.
ALONE   := internal/e2e/(matrix|soak)$$
# Packages that need programs in other languages, and where those are kept.
FOREIGN := internal/e2e/interop/(redisson/.*|plaintest)$$
# Packages that need other stores: make stores and make stores-sql.
STORES  := internal/e2e/(etcdholdtest|zkholdtest|interop/zkpeertest|interop/shedlocktest|pgtest|mysqltest|storestest|jobtest)$$
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
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# Packages that make test leaves out, also as the name of a list: CI has run SHORTER whole.
SKIP    ?=

.PHONY: demo
demo: ## race buyers for the last items, without and with a lock; needs only Go
	@case $$($(GO) list -m 2>&1) in *"requires go >="*) \
		echo "The command holdfast needs $$(sed -n 's/^go /Go /p' go.work) or newer: this is $$($(GO) env GOVERSION), and GOTOOLCHAIN=local keeps it from fetching a newer one." >&2; exit 1 ;; esac
	@echo "The first run compiles for a minute or so."
	$(GO) run ./cmd/holdfast demo --timeout 1m

# Checks of the repository's files. They read and compute, for which the race detector
# needs ten times as long, as it does for a simulation. In CI a seed gives the same run
# again; where nothing is compiled yet that costs half a minute more.
REPO    := /internal/repo(/report)?$$

.PHONY: test
test: compiler redis ## the tests that need only Go, a C compiler and Redis, with the race detector; at most eight minutes on two cores
	$(GO) test $(FLAGS) ./internal/repo/...
	GOGC=400 HOLDFAST_SIM_SEEDS=200 $(GO) test $(if $(CI),$$($(GO) run ./internal/e2e/simoverlay)) -run '^TestSimulation$$' $(FLAGS) ./memhold ./internal/versioned ./internal/rows ./internal/ordered
	HOLDFAST_SIM_SEEDS=20 $(GO) test -run '^Test(Simulation|Model)$$' $(FLAGS) ./internal/e2e/simtest
	@all=$$($(LIST)) && all=$$(echo "$$all" | grep -vE '$(E2E)|$(FOREIGN)|$(STORES)|$(REPO)|/simtest$$$(SKIP:%=|%)') && \
		bin=$$(mktemp -d) && trap 'rm -r "$$bin"' EXIT && \
		$(GO) build -race -o "$$bin/holdfast" ./cmd/holdfast && \
		HOLDFAST_BINARY=$$bin/holdfast GORACE=atexit_sleep_ms=0 $(GO) test -race -short -p 3 $(FLAGS) $$(echo "$$all" | grep -E '$(LONG)') $$(echo "$$all" | grep -vE '$(LONG)')

.PHONY: race
race: FLAGS += -count=3
race: redis ## the tests of the library three times over, to provoke races
	@set -e; for m in $(RELEASED); do echo "== $$m"; $(GO) test -race $(FLAGS) ./$$m/...; done

# The cells of TestSharesHistory: a few, or all of them, for ten seconds each.
SHARES  ?=

# The last of LONG by name, locktest, takes longest, so it begins first. What the pages say
# is typed by make pages: it compiles all the time, beside which others are late.
.PHONY: e2e
e2e: redis databases ## the others: shares of processes, deployments, faults, databases, a browser; SHARES=all for all shares
	HOLDFAST_SHARES=$(SHARES) $(GO) test -count=1 -timeout 30m $(FLAGS) -run SharesHistory ./internal/e2e/locktest
	@all=$$($(LIST)) && all=$$(echo "$$all" | grep -E '$(E2E)|$(SHORTER)' | grep -vE '$(ALONE)') && \
		bin=$$(mktemp -d) && trap 'rm -r "$$bin"' EXIT && \
		$(GO) build -trimpath -o "$$bin/holdfast" ./cmd/holdfast && \
		HOLDFAST_BINARY=$$bin/holdfast $(GO) test -race -count=1 -timeout 20m -p 2 $(FLAGS) -skip 'SharesHistory|^TestPages$$' $$(echo "$$all" | grep -E '$(LONG)' | sort -r) $$(echo "$$all" | grep -vE '$(LONG)')
	$(GO) test -race -count=1 -p 1 $(FLAGS) -skip OfStores ./internal/e2e/matrix ./internal/e2e/soak

.PHONY: pages
pages: redis databases ## type every line of README and quickstart, with the oldest Go and with the one that is installed, and those of the example
	$(GO) test -count=1 $(FLAGS) -run '^TestPages$$' ./internal/e2e/clitest ./internal/e2e/shoptest

# Tests of what differs between servers: scripts, answers, and clients of a cluster.
SMOKE   := Test(Acquire|Renew|Release|Abandon|Break|Explain|Several|Fair|ReadWrite|Semaphore|Latch|Plain|Timestamp|Probe|Missing|Redishold|SlowAnswer|Open|WhatCannotWork|Database)

.PHONY: smoke
smoke: redis ## what differs between servers: the scripts, every kind of lock, clients of a cluster; two minutes
	$(GO) test -count=1 $(FLAGS) -run '^$(SMOKE)' ./internal/e2e/scripttest ./internal/e2e/opentest ./internal/e2e/conntest ./internal/e2e/deploytest

.PHONY: interop
interop: redis ## share locks with Redisson, redis-py, node-redlock, redsync and redislock; needs a JDK 17, Maven, Python 3 and Node
	@HOLDFAST_INTEROP="$(INTEROP)" sh .ci/interop
	HOLDFAST_INTEROP="$(INTEROP)" $(GO) test -race -count=1 ./internal/e2e/interop/plaintest
	HOLDFAST_INTEROP="$(INTEROP)" HOLDFAST_STRESS=$(or $(HOLDFAST_STRESS),10000) $(GO) test -json -race -count=1 -p 2 -timeout 20m ./internal/e2e/interop/redisson/... | \
		$(GO) run ./internal/e2e/interop/report -file docs/evidence/redisson.csv $(REPORT)

.PHONY: stores
stores: ## locks in etcd, which is found or built, and ZooKeeper, which is fetched; the same program on every store; ONLY=zookeeper for one, ETCD=v3.5.35 for that version
	@HOLDFAST_SERVERS="$(SERVERS)" HOLDFAST_INTEROP="$(INTEROP)" ONLY="$(ONLY)" GO="$(GO)" sh .ci/stores $(FLAGS)

.PHONY: stores-sql
stores-sql: ## locks in databases, over real servers: PostgreSQL, also behind PgBouncer, MariaDB and MySQL, and beside ShedLock
	@HOLDFAST_SERVERS="$(SERVERS)" HOLDFAST_INTEROP="$(INTEROP)" GO="$(GO)" sh .ci/stores-sql $(FLAGS)

.PHONY: hosts
hosts: redis ## locks in the programs that they are made for: gocron, cron, goose, golang-migrate, certmagic, asynq, fiber
	cd internal/hosts && GOWORK=off $(GO) test -race -count=1 -parallel 8 $(FLAGS) ./...

.PHONY: soak
soak: redis ## faults for DURATION=10m; DEPLOYMENT=cluster, etcd, zookeeper, postgresql, mariadb, mysql, … for one, SEED=… to replay
	@export HOLDFAST_SERVERS="$(SERVERS)"; \
	case "$(DEPLOYMENT)" in *etcd*|stores) HOLDFAST_ETCD=$$(sh .ci/etcd) && export HOLDFAST_ETCD || exit 1 ;; esac; \
	case "$(DEPLOYMENT)" in *zookeeper*|stores) HOLDFAST_ZOOKEEPER=$$(sh .ci/zookeeper) && export HOLDFAST_ZOOKEEPER || exit 1 ;; esac; \
	case "$(DEPLOYMENT)" in *mysql*|stores) sh .ci/server mysql9 && export HOLDFAST_MYSQL="$(SERVERS)/mysql9/server" || exit 1 ;; esac; \
	$(GO) run ./internal/e2e/soak -duration $(or $(DURATION),10m) -deployment $(or $(DEPLOYMENT),all) -seed $(or $(SEED),0) $(FLAGS)

.PHONY: sim
sim: ## simulate SEEDS=20000 of processes, network, faults and store, FROM=1; STORE=memory for one, STORE='rows.*' for several
	HOLDFAST_SIM_SEEDS=$(or $(SEEDS),20000) HOLDFAST_SIM_FROM=$(or $(FROM),1) $(GO) test -p 1 -exec 'sh $(CURDIR)/.ci/sim' $$($(GO) run ./internal/e2e/simoverlay) -count=1 -timeout 0 -v -run 'TestSimulation/^$(or $(STORE),.*)$$' ./memhold ./internal/versioned ./internal/rows ./internal/ordered ./internal/e2e/simtest

.PHONY: nightly
nightly: ## what takes hours: all shares of processes, soaks, load, interop, all mutants; writes docs/evidence/nightly.csv; STEPS="soak interop" for some
	.ci/nightly $(STEPS)

.PHONY: mutants
mutants: redis databases ## change one place of the library at a time, which a test must notice; ONLY=lease for names that begin so, PART=3/10 for each tenth
	@export HOLDFAST_SERVERS="$(SERVERS)"; \
	HOLDFAST_ETCD=$$(sh .ci/etcd) && HOLDFAST_ZOOKEEPER=$$(sh .ci/zookeeper) && export HOLDFAST_ETCD HOLDFAST_ZOOKEEPER && \
	$(GO) run -trimpath ./internal/e2e/mutants -only "$(ONLY)" -part "$(PART)" $(FLAGS)

.PHONY: bench
bench: redis ## measure locks and their peers side by side, on one server; a few minutes
	$(GO) run ./bench -set short $(FLAGS)

.PHONY: bench-full
bench-full: redis ## all of it
	$(GO) run ./bench -set full $(FLAGS)

.PHONY: bench-stores
bench-stores: ## measure locks in etcd, ZooKeeper, PostgreSQL and MariaDB beside what their users use; some three minutes each; ONLY=etcd for one, ONLY=mysql9 for MySQL
	@HOLDFAST_SERVERS="$(SERVERS)" ONLY="$(ONLY)" GO="$(GO)" sh .ci/bench-stores $(FLAGS)

.PHONY: bench-check
bench-check: redis ## compare what a pair of Lock and Unlock costs with bench/guard.json
	$(GO) run -trimpath ./bench -check

.PHONY: pictures
pictures: redis ## make the pictures of the documents anew; needs Chromium
	HOLDFAST_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -count=1 -timeout 5m -run TestPictures ./internal/e2e/dashtest

.PHONY: fuzz
fuzz: redis ## every fuzz target in turn, each for FUZZTIME=30s
	@GO="$(GO)" FUZZTIME="$(FUZZTIME)" sh .ci/fuzz

.PHONY: release
release: ## commit VERSION=v0.1.0 and tag all modules, in this clone; prints what to push
	@$(GO) run -trimpath ./internal/e2e/release -version "$(VERSION)"

# -trimpath, as in the check itself: both compile the same packages.
.PHONY: release-check
release-check: redis databases ## release into a temporary folder, and use that as users do, beside the version before
	@HOLDFAST_ETCD=$$(sh .ci/etcd) && export HOLDFAST_ETCD && $(GO) run -trimpath ./internal/e2e/release -check

.PHONY: lint
lint: ## formatting, vet, golangci-lint and known vulnerabilities
	@sh .ci/lint $(MODULES) internal/hosts

.PHONY: report
report: ## words that are hard to read, lengths of pages, pages in Chinese that are behind, real time in tests; never fails
	@$(GO) run ./internal/repo/report

.PHONY: tidy
tidy: ## go mod tidy in every module, with the workspace's own modules
	@sh .ci/tidy $(MODULES)
	@cd internal/hosts && GOWORK=off $(GO) mod tidy

.PHONY: dist
dist: ## the command for six systems, with man pages, completions, licences and checksums, in dist/; the image where a builder works
	@GO="$(GO)" sh .ci/dist

.PHONY: image
image: ## the image of Containerfile, by docker, podman or buildah; IMAGE=name:tag names it
	@GO="$(GO)" IMAGE="$(IMAGE)" sh .ci/image

.PHONY: dist-check
dist-check: ## the archive of one system, built in two clones of this commit, is the same
	@GO="$(GO)" sh .ci/dist-check

.PHONY: oldest
oldest: ## each library and example with the Go and the dependencies that its go.mod names, and with the Go that is installed
	@GO="$(GO)" sh .ci/oldest $(LIBRARIES) $(EXAMPLES)

.PHONY: compiler
compiler:
	@GO="$(GO)" sh .ci/compiler

.PHONY: redis
redis:
	@HOLDFAST_SERVERS="$(SERVERS)" sh .ci/$(if $(SERVER),server $(SERVER),redis)

.PHONY: databases
databases:
	@sh .ci/servers
