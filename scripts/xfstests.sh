#!/usr/bin/env bash
# Runs xfstests' tests for any file system on two mounts, as root. Changes /mnt/test, /mnt/scratch and
# /sbin/mount.fuse.onewrite while it runs.
# Usage: scripts/xfstests.sh ONEWRITE CHECKOUT [ARGUMENTS OF CHECK]; the default is -g generic/quick. CHECKOUT is a copy
# of github.com/kdave/xfstests, built with make. MODE names the journal mode (ordered). Ends with xfstests' own summary.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") suite=$(realpath "$2") mode=${MODE:-ordered}
shift 2
[ $# -gt 0 ] || set -- -g quick
[ -x "$suite/src/lstat64" ] || { echo "$suite: not built; run make there" >&2; exit 2; }

room=$(mktemp -d)
mkdir -p /mnt/test /mnt/scratch
helper=/sbin/mount.fuse.onewrite
[ -e $helper ] && { echo "$helper exists already; remove it first" >&2; exit 2; }
end() {
  for place in /mnt/test /mnt/scratch; do "$onewrite" umount $place 2> /dev/null || true; done
  for disk in test scratch; do PATH="$PATH:/usr/sbin:/sbin" e2fsck -fn "$room/$disk" || true; done
  rm -rf "$room" $helper
}
trap end EXIT
ln -s "$onewrite" $helper
for disk in test scratch; do "$onewrite" mkfs "$room/$disk" --size 1GiB; done
# xfstests knows `fuse` only, df says `fuse.onewrite`.
grep -q fuse.onewrite "$suite/common/rc" ||
  sed -i "s#-e 's/fuse.ceph-fuse/ceph-fuse/'#& -e 's/fuse.onewrite/fuse/'#" "$suite/common/rc"
cat > "$suite/local.config" << EOF
export TEST_DEV=$room/test TEST_DIR=/mnt/test SCRATCH_DEV=$room/scratch SCRATCH_MNT=/mnt/scratch
export FSTYP=fuse FUSE_SUBTYP=.onewrite
export MOUNT_OPTIONS="-oallow_other,suid,dev,data=$mode" TEST_FS_MOUNT_OPTS="-oallow_other,suid,dev,data=$mode"
EOF
cd "$suite" && ./check "$@"
