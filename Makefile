# Highball's commands, the same for a person and for CI. Needs Rust, make and, for what is missing, apt.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The binary finds gem/lib from where it stands, so it is built in the repository, whatever the surroundings say.
export CARGO_TARGET_DIR := $(CURDIR)/target
HIGHBALL := $(CARGO_TARGET_DIR)/release/highball
DEMO := target/demo/redmine
DEMO_LISTEN ?= 127.0.0.1:3000
# CI builds exactly what Cargo.lock says; a person's edit of a Cargo.toml may still change it.
CARGO := cargo$(if $(CI), --locked)

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

.PHONY: build
build: ## Build the server, its Ruby extension and the lab in release mode
	scripts/install demo
	$(CARGO) build --release -p highball -p highball-extension -p highball-lab
	scripts/strip $(HIGHBALL)
	scripts/strip $(HIGHBALL)-lab
	scripts/extension

.PHONY: demo
demo: build ## Serve Redmine on SQLite at http://127.0.0.1:3000
	scripts/redmine $(DEMO)
	@printf '%s\n' '' \
	  'Redmine (Debian'"'"'s package) is in $(DEMO), with its own database, log and files.' \
	  'Starting: $(HIGHBALL) serve $(DEMO) --environment production --listen $(DEMO_LISTEN)' \
	  'Look at:  http://$(DEMO_LISTEN)   login admin, password admin' \
	  'Beside:   $(HIGHBALL) status $(DEMO)   (in another terminal)' \
	  'Stop:     Ctrl-C, or $(HIGHBALL) stop $(DEMO)' ''
	@exec $(HIGHBALL) serve $(DEMO) --environment production --listen $(DEMO_LISTEN)

PARTS := install-test lint build test-rust test-loom test-gem fuzz deny
.PHONY: test
test: ## Install what is missing, run every test, and say how long each part took
	@took=; for part in $(PARTS); do \
	  begun=$$SECONDS; $(MAKE) --no-print-directory $$part; \
	  took+=$$(printf '%6d s  %s' $$((SECONDS - begun)) $$part)$$'\n'; \
	done; printf '%s%6d s  in all\n' "$$took" $$SECONDS

.PHONY: install-test
install-test:
	scripts/install test
	scripts/rack-3
	scripts/pebble
	scripts/h2spec
	scripts/otel-collector
	scripts/sslyze
	scripts/http-cache-tests

.PHONY: lint
lint: ## Format, Clippy, documentation and RuboCop, warnings refused
	cargo fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --exclude highball-extension --no-deps --document-private-items
	rubocop gem

# What runs here: every test in the `src` of a crate, the table of bounds, and the checks of xtask/tests/tidy.rs. A test
# gets in by standing in `src`, in a `#[cfg(test)] mod tests`. It may open sockets and start a shell; it needs neither Ruby
# nor a server nor a quiet machine, and takes less than a second of CPU time. One in `src` that does need Ruby stands in
# a `mod needs_ruby` and runs with test-rust only. The packages are those of test-rust, so nothing is built twice.
.PHONY: test-fast
test-fast: ## Pure tests and the checks of the source tree: no Ruby, no server, under a minute once built
	$(CARGO) test --workspace --exclude highball-extension --lib --bins --test bounds --test tidy -- --skip needs_ruby

# cargo runs one test program after the other, and many of them mostly wait: in 21 minutes on two cores they use 19
# minutes of CPU time. With TEST_JOBS=2 two run side by side, the longest first, and alone what measures speeds: 14 minutes,
# but tests that hold much of the machine may then fail for lack of time.
TEST_JOBS ?= 1
.PHONY: test-rust
test-rust: ## The tests of every crate but the extension (test-gem), against the release build (TEST_JOBS=2: side by side)
	$(CARGO) build --quiet --workspace --exclude highball-extension --bin xtask
	HIGHBALL_BIN=$(HIGHBALL) $(CARGO_TARGET_DIR)/debug/xtask test $(TEST_JOBS)

.PHONY: test-loom
test-loom: ## The exchange under the model checker
	RUSTFLAGS='--cfg loom' $(CARGO) test -p highball-exchange --release --test loom --target-dir $(CARGO_TARGET_DIR)/loom

.PHONY: test-gem
test-gem: ## The Ruby side and the extension, inside a Ruby, with Debian 12's Rack 2 and with Rack 3
	HIGHBALL_BIN=$(HIGHBALL) ruby gem/test/all.rb
	for rack in rack-3 rack-3.2; do for test in env response worker; do \
	  RUBYLIB=$(CURDIR)/target/$$rack/lib ruby -Igem/test gem/test/$${test}_test.rb; done; done

# Built here, run there. The root gets what scripts/install installs on that release.
ROOT_13 := target/roots/13-test
IN_13 := scripts/in-root --with $(CURDIR) $(ROOT_13)
.PHONY: test-debian-13
test-debian-13: build ## The tests with a Ruby in them, on Debian 13 with Ruby 3.3 and Rack 3.1, in a root (needs root)
	scripts/extension 3.3
	RUBY=$(CURDIR)/target/ruby-3.3/ruby $(CARGO) build --release -p highball-extension --example test_front --target-dir target/rubies
	scripts/rack-3
	scripts/debian-root 13 $(ROOT_13) make
	scripts/in-root --keep --with $(CURDIR) $(ROOT_13) $(CURDIR)/scripts/install test
	$(IN_13) env HIGHBALL_BIN=$(HIGHBALL) \
	  TEST_FRONT=$(CURDIR)/target/rubies/release/examples/libtest_front.so ruby $(CURDIR)/gem/test/all.rb
	$(CARGO) build --quiet --workspace --exclude highball-extension --bin xtask
	for word in 'tests ' 'supervisor processes'; do \
	  HIGHBALL_BIN=$(HIGHBALL) $(CARGO_TARGET_DIR)/debug/xtask test $(TEST_JOBS) "$$word" $(ROOT_13); done

PLACES ?=
.PHONY: test-matrix
test-matrix: build ## The tests that touch Ruby with Ruby 3.1, 3.3 and 3.4, in roots of Debian 12, 13 and testing (needs root; PLACES="13 testing-3.4": only there)
	scripts/rack-3
	scripts/test-matrix $(PLACES)

FUZZ_SECONDS ?= 20
.PHONY: fuzz
fuzz: ## Random bytes for the screen, for frames, for control messages, for counts of applications and for contexts of traces (FUZZ_SECONDS=60: a minute each)
	scripts/fuzz $(FUZZ_SECONDS)

.PHONY: deny
deny: ## Licences, sources and duplicates of the dependencies, and advisories where the network allows it
	scripts/cargo-deny

# The Ruby of this machine is always in the gem. Others are compiled here, against their headers from Debian's packages.
RUBIES ?=
.PHONY: gem
gem: build ## Build the gem, with both programs and the extension in it, into target/gem (RUBIES="3.1 3.3 3.4": for these too)
	$(if $(RUBIES),scripts/extension $(RUBIES))
	mkdir -p gem/libexec target/gem
	install -m 755 $(HIGHBALL) $(HIGHBALL)-lab gem/libexec/
	rm -rf gem/lab
	mkdir gem/lab
	cp -R lab/apps lab/stacks lab/studies gem/lab/
	cd gem && gem build --strict highball.gemspec --output $(CURDIR)/target/gem/highball.gem

.PHONY: deb
deb: ## Build the gem for all Rubies and the packages of Debian 12 and 13 into target/deb, and try them in fresh roots (needs root)
	$(MAKE) gem RUBIES="3.1 3.3 3.4"
	scripts/deb 12
	scripts/deb 13
	scripts/try-packages

.PHONY: image
image: gem ## Try the steps of contrib/docker/Dockerfile in a root of Debian 12 (needs root)
	scripts/try-dockerfile

.PHONY: bench
bench: ## Measure against Puma, Unicorn and Passenger; writes docs/performance.md (BENCH=--quick: a short look, into target/bench)
	scripts/install bench
	$(MAKE) build
	$(HIGHBALL)-lab bench lab/bench/performance.toml $(BENCH)

.PHONY: bench-front
bench-front: ## Measure TLS, HTTP/2, files, bodies, cache and compression beside nginx, Caddy and Puma; twelve minutes
	scripts/install bench
	$(MAKE) build
	$(HIGHBALL)-lab bench lab/bench/front.toml $(BENCH)

.PHONY: bench-before
bench-before: ## Measure this server beside the one from before TLS, which it builds first; writes docs/performance/before.md; five minutes
	scripts/install bench
	$(MAKE) build
	scripts/bench-before $(BENCH)

# The first run builds Ruby 3.3 and 3.4.
.PHONY: bench-runtime
bench-runtime: build ## Measure Redmine on Ruby 3.1, 3.3 and 3.4 with YJIT beside Puma 8.0 and Passenger 6.2, in roots; writes docs/performance/debian-* (needs root; PLACES="12 testing": only there)
	scripts/bench-runtime $(PLACES) $(BENCH)

COLLECTIONS ?= 1500
.PHONY: collections
collections: build ## Count major collections of garbage inside of requests on Ruby 3.4, in a root of Debian testing (needs root; COLLECTIONS=9000: of so many)
	scripts/extension 3.4
	scripts/debian-root testing target/roots/testing-ruby3.4 ruby3.4 ruby-rack
	scripts/in-root --with $(CURDIR) target/roots/testing-ruby3.4 ruby3.4 $(CURDIR)/scripts/major-collections $(COLLECTIONS)

.PHONY: bench-insight
bench-insight: ## Measure what measures, metrics, traces and StatsD cost; writes docs/insight; eight minutes
	scripts/install bench
	$(MAKE) build
	$(HIGHBALL)-lab bench lab/bench/insight.toml $(BENCH)

.PHONY: bench-restart
bench-restart: ## Measure what restarts of Redmine at 60 % load do to its latency; writes docs/reliability/restart.md
	scripts/install bench
	$(MAKE) build
	$(HIGHBALL)-lab bench lab/bench/restart.toml $(BENCH)

.PHONY: bench-memory
bench-memory: ## Measure the memory of Redmine with six workers beside Puma, re-forked and not; writes docs/memory; 20 minutes
	scripts/install bench
	$(MAKE) build
	$(HIGHBALL)-lab bench lab/bench/memory.toml $(BENCH)

BENCH_LOAD ?= 5 5
.PHONY: bench-load
bench-load: ## Measure the load generator beside wrk, four minutes; writes docs/load/runs.csv (BENCH_LOAD="2 2": 2 rounds of 2 s)
	scripts/install bench
	$(MAKE) build
	scripts/load-bench $(BENCH_LOAD)

.PHONY: honesty
honesty: install-test build ## 20 comparisons of equal servers and of one a tenth slower, half an hour; writes docs/internals/method/honesty.csv
	HONESTY=full HIGHBALL_BIN=$(HIGHBALL) $(CARGO) test -p highball-lab --test honesty -- --nocapture --test-threads=1 \
	  the_rate_of_equal_servers a_server_that_stalls

CHAOS ?= 3
CHAOS_KILLS ?= 500
.PHONY: chaos
chaos: install-test build ## The counted zero, three times as much as in the tests: restarts, upgrades, killed processes (CHAOS_KILLS=500), under load
	CHAOS=$(CHAOS) CHAOS_KILLS=$(CHAOS_KILLS) HIGHBALL_BIN=$(HIGHBALL) $(CARGO) test -p highball-tests --test chaos the_counted_zero -- --nocapture --test-threads=1

SOAK_SECONDS ?= 1800
SOAK_RESTART_EVERY ?= 60
.PHONY: soak
soak: install-test build ## Half an hour of load with a restart each minute: does the server hold what it held at the start?
	SOAK_SECONDS=$(SOAK_SECONDS) SOAK_RESTART_EVERY=$(SOAK_RESTART_EVERY) HIGHBALL_BIN=$(HIGHBALL) \
	  $(CARGO) test -p highball-tests --test chaos after_a_soak -- --nocapture

.PHONY: clean
clean: ## Remove everything that was built, the demo's data too
	cargo clean
	rm -rf target gem/lab gem/libexec gem/lib/highball/[0-9]*
