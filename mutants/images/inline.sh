#!/bin/sh
# Makes an F2FS in image $1 with two files whose content lies in their inodes, as Linux and sload.f2fs keep small ones.
set -e
tree=$(mktemp -d)
head -c 300 /dev/zero | tr '\0' s > "$tree/small"
head -c 2000 /dev/zero | tr '\0' o > "$tree/other"
mkfs.f2fs -q -f "$1" > /dev/null
sload.f2fs -f "$tree" "$1" > /dev/null
rm -r "$tree"
