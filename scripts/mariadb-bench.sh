#!/usr/bin/env bash
# MariaDB under sysbench's OLTP script in wall time, as root: with its double-write buffer on the kernel's ext4 and on a
# mount that orders, without it on mounts that log content, where no page can tear.
# Usage: scripts/mariadb-bench.sh ONEWRITE. SECONDS_EACH (30), ROUNDS (2), TABLE_ROWS (100000: twice what the pool of
# 32 MiB holds). Needs mariadb-server, sysbench and a loop device. Prints transactions in a second, all rounds.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") load=$(realpath "$(dirname "$0")/../crates/onewrite/tests/mount/databases/mariadb.sh")
export LOAD_SECONDS=${SECONDS_EACH:-30} TABLE_ROWS=${TABLE_ROWS:-100000} DOUBLEWRITE
PATH="$PATH:/usr/sbin:/sbin"
room=$(mktemp -d)
chmod 755 "$room"
mkdir "$room/mnt"
leave() {
  cd /
  if [ "$1" = kernel ]; then umount "$room/mnt"; else "$onewrite" umount "$room/mnt"; fi
}
trap 'cd /; leave kernel 2> /dev/null || true; rm -rf "$room"' EXIT

# The load on a new image. $1: kernel, or a mode; $2: 1 with double-write.
run() {
  rm -rf "$room/image" "$room/run"
  if [ "$1" = kernel ]; then
    truncate -s 1G "$room/image"
    mkfs.ext4 -q "$room/image"
    mount -o loop "$room/image" "$room/mnt"
  else
    "$onewrite" mkfs "$room/image" --size 1GiB > "$room/made"
    "$onewrite" mount "$room/image" "$room/mnt" --log "$room/log" -o "data=$1,cache=256M,allow_other"
  fi
  cd "$room"
  DOUBLEWRITE=$2 sh "$load" make > "$room/said" 2>&1 || { cat "$room/said" >&2; exit 1; }
  DOUBLEWRITE=$2 sh "$load" load 2> "$room/problems" | sed -n 's/ *transactions:.*(\(.*\) per sec.)/\1/p'
  leave "$1"
}

declare -A found
cases=("kernel 1" "ordered 1" "data+async 1" "data+async 0" "data 0")
for _ in $(seq "${ROUNDS:-2}"); do
  for case in "${cases[@]}"; do
    # shellcheck disable=SC2086 # two words
    found[$case]="${found[$case]:-} $(run $case)"
  done
done
for case in "${cases[@]}"; do
  printf '%-12s double-write %s: %s transactions/s\n' $case "${found[$case]}"
done
