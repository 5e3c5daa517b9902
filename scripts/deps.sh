#!/bin/sh
# What Onewrite needs from the system. Installs missing Debian packages where it can, else names them.
set -u
PATH="$PATH:/usr/sbin:/sbin"

missing=""
need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need cc gcc
need e2fsck e2fsprogs
need losetup util-linux
need mount mount
need fio fio
need dbench dbench
[ -d /usr/share/doc/fio/examples ] || missing="$missing fio-examples"
need setfattr attr
need setfacl acl
need perl perl
need git git
need python3 python3
python3 -c "import ensurepip" 2>/dev/null || missing="$missing python3-venv"
need sqlite3 sqlite3
need setpriv util-linux
need fusermount3 fuse3
need rsync rsync
need mkfs.xfs xfsprogs
need mkfs.btrfs btrfs-progs
need mkfs.f2fs f2fs-tools

if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null && missing=""
fi
if [ -n "$missing" ]; then
    echo "missing packages (Debian names):$missing" >&2
    echo "cure: sudo apt-get install$missing" >&2
    exit 1
fi
if ! command -v "${CARGO:-cargo}" >/dev/null 2>&1; then
    echo "missing: cargo, the Rust toolchain of version 1.95 or later (Debian 12's is older)" >&2
    echo "cure: install rustup (package rustup on newer Debian, else from rustup.rs)," \
        "then: rustup toolchain install stable" >&2
    exit 1
fi
