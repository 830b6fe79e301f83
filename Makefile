# Two commands: `make demo` trains for real, `make test` passes every test that this machine can run.
# Both do all set-up, take over what is already there, and can be run again.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
CONFIG ?= configs/demo.toml
say = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: libtorch release ## Set up, then train Fashion-MNIST with one server, three workers and an evaluator
	$(call say,data: Fashion-MNIST - 31 MB unless it is there)
	@scripts/fashion-mnist; case $$? in \
	  0) data=() ;; \
	  3) echo "data: cannot be had here; training on procedural images instead"; \
	     data=(--set workload.dataset=procedural) ;; \
	  *) exit 1 ;; \
	esac; \
	printf '\n== training: 3,000 updates - one to four minutes on two cores; Ctrl-C drains\n'; \
	target/release/asgc local $(CONFIG) "$${data[@]}"

.PHONY: test
test: libtorch ## Set up, then run all tests
	$(call say,data: Fashion-MNIST - tests on real images are skipped without it)
	@scripts/fashion-mnist || [ $$? -eq 3 ]
	$(call say,programs: debug build - about five minutes on two cores the first time)
	$(CARGO) build --locked --workspace
	$(call say,tests)
	$(CARGO) test --locked --workspace --features asgc-tests/torch

.PHONY: test-long
test-long: test release pytorch ## The tests, and those that take long: a whole run, and PyTorch reads its model
	$(call say,a whole run: one to four minutes)
	@scripts/fashion-mnist
	target/release/asgc local $(CONFIG)
	$(call say,PyTorch reads the model that asgc wrote)
	.venv/bin/python scripts/check-model-in-pytorch results/demo
	$(call say,the same run simulated - and a report of both opened in Chromium where there is one)
	target/release/asgc run $(CONFIG) --set run.name=demo_simulated
	target/release/asgc report results/demo results/demo_simulated --out results/report-check
	scripts/check-report results/report-check

.PHONY: pytorch
pytorch: ## Install PyTorch into .venv, some GB, for test-long only
	$(call say,PyTorch: found or downloaded - some GB)
	@.venv/bin/python -c 'import torch, safetensors, numpy' 2>/dev/null || \
	  { python3 -m venv .venv && .venv/bin/pip install -q torch==2.13.0 safetensors numpy; }

.PHONY: release
release: libtorch ## Build the programs into target/release
	$(call say,programs: release build - about eight minutes on two cores the first time)
	$(CARGO) build --locked --release --bins -p asgc -p asgc-server -p asgc-worker -p asgc-simulator

.PHONY: libtorch
libtorch: ## Make .libtorch, from what is there or by a download of 530 MB
	$(call say,libtorch: found or downloaded - about a minute at 10 MB/s)
	@scripts/libtorch

.PHONY: libtorch-cuda
libtorch-cuda: ## Make .libtorch the CUDA build, several GB, for GPU nodes
	@scripts/libtorch cuda

.PHONY: lint
lint: libtorch ## Formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features asgc-tests/torch -- -D warnings

fuzz_targets = payload round_trip messages delta config events
# How long each target runs.
FUZZ_SECONDS ?= 600
fuzz_root = target/tools

.PHONY: fuzz
fuzz: ## All fuzz targets, FUZZ_SECONDS=600 each; needs rustup, whose nightly compiler it asks for
	$(call say,fuzzing: $(fuzz_targets) - $(FUZZ_SECONDS) seconds each)
	@rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
	@[[ -x $(fuzz_root)/bin/cargo-fuzz ]] || $(CARGO) install cargo-fuzz --locked --root $(fuzz_root)
	for target in $(fuzz_targets); do \
	  PATH="$$PWD/$(fuzz_root)/bin:$$PATH" $(CARGO) +nightly fuzz run $$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 -rss_limit_mb=2048 || exit; \
	done

.PHONY: programs
programs: ## Build the programs that need no libtorch into target/release
	$(CARGO) build --locked --release --bins -p asgc -p asgc-server

bench = target/release/asgc bench

.PHONY: bench
bench: programs ## Codecs, wire and clusters beside what this machine carries; about five minutes, needs no libtorch
	$(call say,codecs: encode and apply beside passes over memory - two minutes)
	$(bench) codec
	$(call say,wire: dense pushes and snapshots beside raw TCP - a minute)
	$(bench) wire
	$(call say,cluster: ResNet-18 and eight workers - half a minute)
	$(bench) cluster --workers 8 --codec 'topk(rho=0.01)' --codec identity
	$(call say,cluster: a thousand workers - a minute and a half)
	$(bench) cluster --workers 1000 --parameters 55000 --codec 'topk(rho=0.05)' --seconds 60
	$(call say,cluster: a worker beside a slow one - a minute)
	$(bench) cluster --slow 100 --parameters 55000 --codec 'topk(rho=0.05)'

.PHONY: bench-train
bench-train: release ## Updates/s beside what forward and backward alone reach
	@scripts/fashion-mnist
	target/release/asgc bench train configs/bench.toml

link = $(patsubst %,configs/link/link_%.toml,$(1))
bench_link = target/release/asgc bench link $(BENCH_LINK)
# More flags for all of them, such as BENCH_LINK='--repeat 3'.
BENCH_LINK ?=

.PHONY: bench-link
bench-link: root-and-tc release ## Strategies on shaped links: needs root, ip and tc; about 25 minutes
	@scripts/fashion-mnist
	$(call say,a thin link: sending all of a gradient takes ten times as long as computing it)
	$(bench_link) $(call link,plain threshold rho_25 rho_10 rho_05 rho_01 budget)
	$(call say,a link that becomes eight times thinner in mid-run)
	$(bench_link) $(call link,plain rho_25 rho_10 rho_05 rho_01 budget) --uplink 32mbit --change-at 12=4mbit \
	  --set run.results_dir=results/changing
	$(call say,two unequal links)
	$(bench_link) $(call link,plain threshold budget) --uplink 8mbit,2mbit --set run.results_dir=results/unequal
	$(call say,no shaping: budget beside plain)
	$(bench_link) $(call link,plain budget) --uplink none --set run.results_dir=results/unshaped

.PHONY: root-and-tc
root-and-tc:
	@[[ $$(id -u) -eq 0 ]] || { echo 'bench-link sets up network namespaces and shapes links, which needs root: sudo make bench-link' >&2; exit 1; }
	@type ip tc >/dev/null || { echo 'bench-link needs ip and tc: apt-get install iproute2' >&2; exit 1; }

.PHONY: headline
headline: release ## The reference's headline strategies, one after the other; about 20 minutes
	@scripts/fashion-mnist
	for config in configs/fmnist_headline/*.toml; do target/release/asgc local $$config || exit; done
	target/release/asgc summary results/{sync_sgd,async_plain,async_fixed_staleness,async_fixed_topk,async_topk_ef,adaptive}

asgc = target/release/asgc
# Runs that are there already, of the same settings, are not made again.
matrix = $(asgc) matrix configs/findings/$(1).toml --resume

.PHONY: findings
findings: release ## The reference's findings measured again, into docs/findings.md; about two hours on two cores
	@scripts/fashion-mnist
	$(call say,real runs: four minutes in which nothing else should run)
	$(call matrix,real) --mode processes
	$(call say,the same runs simulated)
	$(call matrix,simulated) $$($(asgc) calibrate --flags results/findings/compare_real_s0)
	$(call say,Fashion-MNIST: seven strategies and three seeds - half an hour)
	$(call matrix,fmnist)
	$(call say,steps of different length - ten minutes)
	$(call matrix,steps)
	$(call say,CIFAR-10: four strategies with and without thin links - an hour; left out without the data set)
	@if [ -d data/cifar-10-batches-bin ]; then $(call matrix,cifar); \
	else echo 'no data/cifar-10-batches-bin: F5 to F10 are not measured' >&2; fi
	$(asgc) findings

.PHONY: clean
clean: ## Remove what was built; libtorch and data stay
	$(CARGO) clean
