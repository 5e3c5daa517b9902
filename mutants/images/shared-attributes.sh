#!/bin/sh
# Makes an ext4 in image $1 with two files that share a block of extended attributes. mke2fs has one for each.
set -e
tree=$(mktemp -d)
for name in one two; do
    echo "$name" > "$tree/$name"
done
head -c 2000 /dev/zero | tr '\0' w > "$tree/value"
mke2fs -q -F -t ext4 -b 4096 "$1"
for command in "write $tree/one one" "write $tree/two two" "ea_set -f $tree/value one user.x"; do
    debugfs -w -R "$command" "$1" > /dev/null 2>&1
done
block=$(debugfs -R 'stat one' "$1" 2> /dev/null | sed -n 's/.*File ACL: \([0-9]*\).*/\1/p')
debugfs -w -R "sif two file_acl $block" "$1" > /dev/null 2>&1
debugfs -w -R 'sif two blocks 16' "$1" > /dev/null 2>&1
rm -r "$tree"
# It counts who refers to the block; 1 stands for "errors corrected".
e2fsck -fy "$1" > /dev/null 2>&1 || test $? -eq 1
