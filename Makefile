# Onewrite: `make demo` and `make test` do all the set-up.

CARGO ?= cargo
OUT ?= out
ONEWRITE = $(CARGO) run --quiet --release --package onewrite --

.PHONY: demo test check bench doc deps clean

## demo: compare three journal modes on varmail on an emulated SATA SSD; table, HTML report, e2fsck on each image
demo: deps
	@mkdir -p $(OUT)
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) compare varmail --modes ordered,data,data+async --device sata-850pro --seed 1 \
	  --runtime 10s --images $(OUT)/demo --html $(OUT)/demo.html
	@for image in $(OUT)/demo/*.img; do echo "e2fsck -fn $$image"; PATH="$$PATH:/usr/sbin:/sbin" e2fsck -fn $$image || exit 1; done
	@echo "report: $(OUT)/demo.html"

## test: all tests; those that need loop devices say loudly when they are skipped
test: deps
	PATH="$$PATH:/usr/sbin:/sbin" $(CARGO) test --workspace --no-fail-fast

## check: formatting, lints and documentation, warnings as errors
check: deps
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

## bench: benchmarks, each beside its rival where there is one
bench: deps
	$(CARGO) bench --workspace

## doc: the API documentation
doc: deps
	$(CARGO) doc --workspace --no-deps --document-private-items

## deps: what the system has to have; installs it as root on Debian, else names it
deps:
	@scripts/deps.sh

clean:
	$(CARGO) clean
	rm -rf $(OUT)
