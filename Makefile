# Onewrite: `make demo` and `make test` do all the set-up.

CARGO ?= cargo
OUT ?= out
ONEWRITE = $(CARGO) run --quiet --release --package onewrite --

.PHONY: demo test python-wheel check deny bench results mechanisms kernel-parity group-commit vm doc deps clean \
  device-deep fuzz-deep names-deep crash-deep crash-ace crash-faults crash-sqlite crash-policies crash-padding \
  crash-canaries crash-marks mutants mutants-sample kill-deep kills databases pjdfstest xfstests ltp install install-c \
  install-test sqlite-tools sqlite-tcl paper-ts-clock scoreboard

## demo: compare three journal modes on varmail on an emulated SATA SSD; table, HTML report, e2fsck on each image
demo: deps
	@mkdir -p $(OUT)
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) compare varmail --modes ordered,data,data+async --device sata-850pro --seed 1 \
	  --runtime 10s --images $(OUT)/demo --force --html $(OUT)/demo.html
	@PATH="$$PATH:/usr/sbin:/sbin"; for image in $(OUT)/demo/*.img; do \
	  echo "e2fsck -fn $$image"; e2fsck -fn $$image || exit 1; done
	@echo "report: $(OUT)/demo.html"

## test: all tests, of the Python package too; those that need loop devices, FUSE or pip say loudly when they are skipped (ARGS=--show-output for what they found)
test: deps
	PATH="$$PATH:/usr/sbin:/sbin" $(CARGO) test --workspace --no-fail-fast -- $(ARGS)
	scripts/python-test.sh

## python-wheel: the Python package as its users install it, compiled for release, and its tests (minutes)
python-wheel: deps
	scripts/python-test.sh --wheel

## check: formatting, lints and documentation, warnings as errors
check: deps
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --profile test
	scripts/mutants.py --check
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --profile test

## deny: licences, duplicate crates and sources of what we depend on, offline once all crates are fetched; says loudly when cargo-deny is not installed
deny:
	@if $(CARGO) deny --version > /dev/null 2>&1; then \
		$(CARGO) fetch --locked && $(CARGO) deny --offline check licenses bans sources; \
	else echo "WARNING: cargo-deny is not installed: licences and duplicate crates were NOT checked" >&2; fi

## bench: benchmarks, each beside its rival where there is one; fails at its end if an aim was missed
bench: deps
	$(CARGO) bench --workspace --no-fail-fast

## device-deep: ten million requests to the emulated SSD with cuts everywhere, FAST, BAST and DFTL too, against models (minutes)
device-deep: deps
	$(CARGO) test --release --package onewrite-device --test model --test ftl_model -- --ignored --nocapture

## fuzz-deep: a million mutated images and logs mounted, walked, written and unmounted, overflow checked (about an hour)
fuzz-deep: deps
	$(CARGO) test --package onewrite-fs --test fuzz_mount -- --ignored --nocapture

## names-deep: 1.6 million names of 255 bytes in one directory, until its hash tree has no room (a minute)
names-deep: deps
	$(CARGO) test --package onewrite-fs --test ext4 -- --ignored --exact --nocapture \
	  posix::a_hash_tree_without_room_refuses_a_name_and_keeps_the_others

## results: every journal mode on four devices, with the papers' rows beside them, into docs/results.md (25 minutes of processor time)
results: deps
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) paper results > $(OUT).results && mv $(OUT).results docs/results.md

## mechanisms: every mechanism beside the others on four devices, into docs/mechanisms.md and out/mechanisms.html (a quarter of an hour)
mechanisms: deps
	@mkdir -p $(OUT)
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) paper mechanisms --html $(OUT)/mechanisms.html > $(OUT).mechanisms
	mv $(OUT).mechanisms docs/mechanisms.md

## scoreboard: every row of the papers, into docs/scoreboard.md (half an hour of processor time; rows that differ are no error)
scoreboard: deps
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) paper --markdown docs/scoreboard.md || [ $$? -eq 1 ]

## crash-deep: at least 500,000 distinct crash states in each mode, of every kind of workload, into docs/marks.md and out/crash-deep (hours; ARGS='--only sdj')
crash-deep: deps
	$(CARGO) build --release --package onewrite
	scripts/marks.py "$${CARGO_TARGET_DIR:-target}/release/onewrite" --states 100000 --docs docs/marks.md \
	  --out $(OUT)/crash-deep $(ARGS)

## crash-ace: every pair of ACE's core operations, one mode (MODE=ordered)
crash-ace: deps
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) crash ace:2 --mode $(or $(MODE),ordered) --states 100000000

## crash-sqlite: databases of SQLite after power cuts, every journal mode on every mode and F2FS (MODES=...; minutes)
crash-sqlite: deps
	$(CARGO) build --release --package onewrite
	@for mode in $(or $(MODES),$$($(ONEWRITE) names modes | cut -d ' ' -f 1) f2fs); do \
	  case $$mode in f2fs) fs='--fs f2fs';; *) fs="--mode $$mode";; esac; \
	  for name in delete:extra delete truncate persist wal:extra wal wal:normal memory off; do \
	    echo "== $$mode sqlite:$$name"; \
	    $(ONEWRITE) -q crash sqlite:$$name $$fs --states 4000 --seed 11 || exit 1; \
	  done; \
	done

## crash-faults: each of ACE's core operations while each of its requests fails, in every mode (MODES=...; minutes)
crash-faults: deps
	$(CARGO) build --release --package onewrite
	@for mode in $(or $(MODES),$$($(ONEWRITE) names modes | cut -d ' ' -f 1)); do echo "== $$mode"; \
	  $(ONEWRITE) crash ace:1 --mode $$mode --faults --states 100000 || exit 1; done

## crash-policies: 20,000 distinct crash states under each cache policy, in ordered and in data, with little memory (ten minutes)
crash-policies: deps
	@mkdir -p $(OUT)/crash-policies
	$(CARGO) build --release --package onewrite
	@seed=100; online=$$($(ONEWRITE) names policies); \
	for run in $$(printf 'ordered/%s ' $$online) $$(printf 'data/%s ' $$online); do \
	  seed=$$((seed + 1)); mode=$${run%%/*}; policy=$${run##*/}; \
	  $(ONEWRITE) crash random:80 --mode $$mode --cache-policy $$policy --states 20000 --seed $$seed \
	    2> $(OUT)/crash-policies/$$mode-$$policy.txt || { cat $(OUT)/crash-policies/$$mode-$$policy.txt; exit 1; }; \
	  echo "$$mode $$policy: $$(grep -h distinct $(OUT)/crash-policies/$$mode-$$policy.txt)"; \
	done

## crash-padding: 20,000 distinct crash states inside sata-850pro in each of the twelve modes that pad (three quarters of an hour)
crash-padding: deps
	@mkdir -p $(OUT)/crash-padding
	$(CARGO) build --release --package onewrite
	@seed=200; for mode in $$($(ONEWRITE) names padded); do \
	  seed=$$((seed + 1)); \
	  $(ONEWRITE) crash random:80 --mode $$mode --device sata-850pro --states 20000 --seed $$seed \
	    2> $(OUT)/crash-padding/$$mode.txt || { cat $(OUT)/crash-padding/$$mode.txt; exit 1; }; \
	done
	@grep distinct $(OUT)/crash-padding/*.txt

## crash-marks: which rare situations the crash explorer reaches in every mode, into docs/marks.md and out/crash-marks (minutes; ARGS='--states 500 --only f2fs')
crash-marks: deps
	$(CARGO) build --release --package onewrite
	scripts/marks.py "$${CARGO_TARGET_DIR:-target}/release/onewrite" --docs docs/marks.md --out $(OUT)/crash-marks $(ARGS)

## paper-ts-clock: the figures of the dissertation's chapter 2, then the rows with what is uncertain changed (SCALE=1), in out/ (half an hour)
paper-ts-clock: deps
	@mkdir -p $(OUT)
	$(CARGO) build --release --package onewrite
	$(ONEWRITE) paper ts-clock --scale $(or $(SCALE),1) --html $(OUT)/ts-clock.html --json $(OUT)/ts-clock.json
	$(ONEWRITE) paper ts-clock --scale $(or $(SCALE),1) --sensitivity --json $(OUT)/ts-clock-sensitivity.json

## crash-canaries: broken strategies of ext4 that the crash explorer has to catch, as a table at the end
crash-canaries: deps
	$(CARGO) test --release --package onewrite-crash --test explorer ext4_canaries -- --nocapture

## mutants: every plausible bug of mutants/*.toml against the crash explorer, then the tests; the table in docs/mutants.md (hours; ARGS='--no-tests --states 3000', NAME...)
mutants: deps
	scripts/mutants.py --room "$${CARGO_TARGET_DIR:-target}/mutants" --out docs/mutants.md $(ARGS)

## mutants-sample: ten that docs/mutants.md says the explorer caught within 1,000 states, drawn by SEED=...: nine of them at least have to be caught within 3,000
mutants-sample: deps
	scripts/mutants.py --room "$${CARGO_TARGET_DIR:-target}/mutants" --dependencies "$${CARGO_TARGET_DIR:-target}" \
	  --soon docs/mutants.md --sample 10 --draw $(or $(SEED),1) --states 3000 --timeout 100 --no-tests --least 90

## kill-deep: modes that share on images on XFS and Btrfs, as root: killed, or the host stopped, 1,260 times (half an hour on a busy machine)
kill-deep: deps
	$(CARGO) test --release --package onewrite --test reflink -- --ignored --exact deep --nocapture

## kills: the process of a mount killed a hundred times at random moments in each mode, as root (an hour)
kills: deps
	ONEWRITE_KILLS=$(or $(KILLS),100) \
	  $(CARGO) test --release --package onewrite --test mount -- --nocapture what_was_synced

## databases: MariaDB and PostgreSQL on the mount, a minute of load and twenty kills each, as root (ten minutes; mariadb-server, sysbench, postgresql)
databases: deps
	ONEWRITE_LOAD_SECONDS=$(or $(LOAD_SECONDS),60) ONEWRITE_KILLS=$(or $(KILLS),20) \
	  $(CARGO) test --release --package onewrite --test mount -- --nocapture --test-threads=1 databases

## pjdfstest, xfstests, ltp: suites of others on the mount, as root (SUITE=their checkout, MODE=ordered; minutes, an hour, half an hour)
pjdfstest xfstests ltp: deps
	$(CARGO) build --release --package onewrite
	MODE=$(or $(MODE),ordered) scripts/$@.sh "$${CARGO_TARGET_DIR:-target}/release/onewrite" "$(SUITE)" $(ARGS)

## sqlite-tools: SQLite's speedtest1, kvtest and mptester on the mount and over the VFS, as root (SUITE=its source, SIZE=25, MODE=data+async; minutes)
sqlite-tools: deps
	$(CARGO) build --release --package onewrite
	$(CARGO) build --release --package onewrite-sqlite
	SIZE=$(or $(SIZE),25) MODE=$(or $(MODE),data+async) scripts/sqlite-tools.sh \
	  "$${CARGO_TARGET_DIR:-target}/release/onewrite" "$${CARGO_TARGET_DIR:-target}/release/libonewrite_sqlite.so" \
	  "$(SUITE)"

## sqlite-tcl: 92 of SQLite's TCL tests, files, locks, journals and crashes, on the mount, as root (SUITE=its source; twenty minutes; tcl-dev)
sqlite-tcl: deps
	$(CARGO) build --release --package onewrite
	scripts/sqlite-tcl.sh "$${CARGO_TARGET_DIR:-target}/release/onewrite" \
	  $(or $(SUITE),$(error SUITE= is missing: SQLite's source; Debian: apt-get source sqlite3))

## install: the program, the helpers of mount(8) and umount(8), and the library for C, as root (PREFIX=/usr/local)
install: install-c
	$(CARGO) build --release --package onewrite
	install -D -m 755 "$${CARGO_TARGET_DIR:-target}/release/onewrite" $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/onewrite
	mkdir -p $(DESTDIR)/sbin
	ln -sf $(or $(PREFIX),/usr/local)/bin/onewrite $(DESTDIR)/sbin/mount.fuse.onewrite
	ln -sf $(or $(PREFIX),/usr/local)/bin/onewrite $(DESTDIR)/sbin/umount.fuse.onewrite

## install-c: the library for C alone: libonewrite.so, libonewrite.a, onewrite.h, onewrite.pc (PREFIX=/usr/local)
install-c: PLACE = $(or $(PREFIX),/usr/local)
install-c:
	$(CARGO) build --release --package onewrite-c
	install -D -m 755 "$${CARGO_TARGET_DIR:-target}/release/libonewrite.so" $(DESTDIR)$(PLACE)/lib/libonewrite.so.0
	ln -sf libonewrite.so.0 $(DESTDIR)$(PLACE)/lib/libonewrite.so
	install -D -m 644 "$${CARGO_TARGET_DIR:-target}/release/libonewrite.a" $(DESTDIR)$(PLACE)/lib/libonewrite.a
	install -D -m 644 crates/onewrite-c/include/onewrite.h $(DESTDIR)$(PLACE)/include/onewrite.h
	mkdir -p $(DESTDIR)$(PLACE)/lib/pkgconfig
	version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml); sed "s|@PREFIX@|$(PLACE)|;s|@VERSION@|$$version|" \
	  crates/onewrite-c/onewrite.pc.in > $(DESTDIR)$(PLACE)/lib/pkgconfig/onewrite.pc
	@[ -n "$(DESTDIR)" ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig || \
	  echo "WARNING: ldconfig did not run: programs find libonewrite.so.0 by LD_LIBRARY_PATH alone" >&2

## install-test: make install, twice, and all that it installs in use, as root; in a mount namespace, so nothing stays (the release build)
install-test: deps
	scripts/install-test.sh

## kernel-parity: bytes and flushes beside the kernel's ext4, as root; the table of docs/kernel-parity.md
kernel-parity: deps
	$(CARGO) bench --package onewrite-fs --bench kernel_parity

## group-commit: fsyncs per commit beside the kernel's where FLUSH is slow, as root (ARGS=ours: without the kernel)
group-commit: deps
	PATH="$$PATH:/usr/sbin:/sbin" $(CARGO) bench --package onewrite --bench group_commit -- $(ARGS)

## vm: Linux's F2FS and ext4 judge our images in a virtual machine, and we judge Linux's, as root (five minutes; qemu-system-x86, busybox-static; docs/vm.md)
vm: deps
	kernel=$$(scripts/vm-kernel.sh) && PATH="$$PATH:/usr/sbin:/sbin" ONEWRITE_VM_KERNEL=$$kernel \
	  $(CARGO) test --package onewrite --test vm -- --nocapture --test-threads=2 $(ARGS)

## doc: the API documentation
doc: deps
	$(CARGO) doc --workspace --no-deps --document-private-items --profile test

## deps: what the system has to have; installs it as root on Debian, else names it
deps:
	@scripts/deps.sh

clean:
	$(CARGO) clean
	rm -rf $(OUT)
