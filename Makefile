# `make help` tells what there is.

# Where rustup puts cargo, for shells that have not read its profile.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help run demo test test-etcd-matrix lint bench

help:
	@echo "make run    build, then run a sidecar for development on 127.0.0.1:7411, with machines/ in force (ARGS=… adds flags)"
	@echo "make demo   build, then play the scenes that go wrong without a sidecar"
	@echo "make lint   format, clippy, docs, the interface"
	@echo "make test   lint, then every test; installs what is missing on Debian"
	@echo "make test-etcd-matrix  the tests that depend on etcd, on several versions of it; builds those with Go, once (ARGS=\"path 3.6.16\" for some)"
	@echo "make bench  measure a release build beside etcd, Redis and PostgreSQL (ARGS=\"--only ROW --quick\" for a part)"

run:
	@scripts/need.sh build
	FENCEPOST_MACHINES=$${FENCEPOST_MACHINES-machines} cargo run --locked -- dev $(ARGS)

demo:
	@scripts/need.sh build
	cargo run --locked -- demo $(ARGS)

lint:
	@scripts/need.sh lint
	scripts/lint.sh

test:
	@scripts/need.sh test
	scripts/lint.sh
	scripts/test.sh

test-etcd-matrix:
	@scripts/need.sh matrix
	scripts/etcd-matrix.sh $(ARGS)

bench:
	@scripts/need.sh bench
	cargo build --locked --release -p fencepost -p fencepost-bench
	cargo run --locked --release -p fencepost-bench -- $(ARGS)
