#!/bin/sh
# Tests of the Python package, against the library that `cargo test --workspace` has compiled nearly all of.
#
#   scripts/python-test.sh [--wheel] [ARGUMENT OF PYTEST]...
#
# Takes what it needs from pip into a virtual environment in the target directory, once. --wheel installs the package as
# its users do, by `pip install .`, which compiles all of it for release (minutes).
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
target=${CARGO_TARGET_DIR:-target}
needed="maturin>=1.9,<2 fsspec pytest"
wanted="pandas pyarrow mypy nbclient ipykernel"

skip() {
    echo "SKIPPED: the Python package was NOT tested: $1" >&2
    exit 0
}

key=$(python3 --version && echo "$needed $wanted" && pwd)
room=$target/python-$(echo "$key" | cksum | cut -d' ' -f1)
if [ ! -e "$room/ready" ]; then
    rm -rf "$room"
    python3 -m venv "$room" || skip "python3 makes no virtual environment (Debian: python3-venv)"
    # shellcheck disable=SC2086 # a list of words
    "$room/bin/pip" install --quiet --disable-pip-version-check --retries 1 $needed || skip "pip cannot fetch $needed"
    for package in $wanted; do
        "$room/bin/pip" install --quiet --disable-pip-version-check --retries 1 "$package" ||
            echo "SKIPPED: what needs $package is NOT tested: pip cannot fetch it" >&2
    done
    touch "$room/ready"
fi
room=$(cd "$room" && pwd)

if [ "${1:-}" = --wheel ]; then
    shift
    "$room/bin/pip" install --quiet --no-deps --no-build-isolation --force-reinstall .
    "${CARGO:-cargo}" build --quiet --release --package onewrite
    program=$target/release/onewrite
else
    # The same units as those of `cargo test --workspace`, and the module.
    "${CARGO:-cargo}" build --quiet --workspace --lib --bins --test tidy --profile test
    site=$("$room/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$site"/onewrite "$site"/onewrite-*.dist-info
    cp -r crates/onewrite-python/python/onewrite "$site/"
    cp "$target/debug/libonewrite_native.so" "$site/onewrite/_native.abi3.so"
    PATH="$room/bin:$PATH" maturin pep517 write-dist-info --metadata-directory "$site" \
        --interpreter "$room/bin/python" > /dev/null
    program=$target/debug/onewrite
fi
ONEWRITE=$(realpath "$program") "$room/bin/python" -m pytest "$@"
