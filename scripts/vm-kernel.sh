#!/bin/sh
# Prints the directory with the kernel for `make vm`: Debian's linux-image, as its package has it, downloaded and
# unpacked once into a cache directory. Nothing is installed.
set -eu

cache="${ONEWRITE_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/onewrite-vm}"
missing=""
command -v qemu-system-x86_64 >/dev/null 2>&1 || missing="$missing qemu-system-x86"
[ -x /bin/busybox ] || missing="$missing busybox-static"
command -v strip >/dev/null 2>&1 || missing="$missing binutils"
command -v mkfs.f2fs >/dev/null 2>&1 || [ -x /usr/sbin/mkfs.f2fs ] || missing="$missing f2fs-tools"
if [ -n "$missing" ]; then
    echo "missing packages (Debian names):$missing" >&2
    echo "cure: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
if ! ls "$cache"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package="$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)"
    if [ -z "$package" ]; then
        echo "no package linux-image-amd64 (not Debian, or no lists of packages)" >&2
        echo "cure: unpack a kernel with F2FS and its modules into $cache/kernel (boot/vmlinuz-*, lib/modules)" >&2
        exit 1
    fi
    mkdir -p "$cache"
    (cd "$cache" && apt-get download "$package" >&2)
    rm -rf "$cache/unpacked"
    dpkg-deb -x "$cache/$package"_*.deb "$cache/unpacked"
    rm -rf "$cache/kernel"
    mv "$cache/unpacked" "$cache/kernel"
fi
echo "$cache/kernel"
