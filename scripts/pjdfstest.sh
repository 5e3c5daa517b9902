#!/usr/bin/env bash
# Runs pjdfstest (about 8,800 checks of what POSIX and Linux say of names, owners and modes) on a mount, as root.
# Usage: scripts/pjdfstest.sh ONEWRITE CHECKOUT. CHECKOUT is a copy of github.com/pjd/pjdfstest; it is built
# there (autoconf, automake, a C compiler). MODE names the journal mode (ordered). Ends with prove's own summary; exit
# status 1 if a check failed.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") suite=$(realpath "$2") mode=${MODE:-ordered}
[ -x "$suite/pjdfstest" ] ||
  (cd "$suite" && autoreconf -ifs && ./configure && make pjdfstest) > "$suite/build.log" 2>&1 ||
  { tail "$suite/build.log" >&2; exit 1; }

room=$(mktemp -d)
chmod 755 "$room"
mkdir "$room/mnt"
trap 'cd /; "$onewrite" umount "$room/mnt" 2> /dev/null || true; rm -rf "$room"' EXIT
"$onewrite" mkfs "$room/image" --size 512MiB
"$onewrite" mount "$room/image" "$room/mnt" --log "$room/log" -o "data=$mode,allow_other,suid,dev"
failed=0
(cd "$room/mnt" && prove -r "$suite/tests") || failed=1
"$onewrite" umount "$room/mnt"
PATH="$PATH:/usr/sbin:/sbin" e2fsck -fn "$room/image"
exit $failed
