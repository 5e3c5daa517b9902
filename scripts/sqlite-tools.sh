#!/usr/bin/env bash
# Runs SQLite's own tools on a mount, through our VFS and on the host's file system, as root: speedtest1 (its
# verification hash must be the same everywhere), kvtest and mptester, then integrity_check and e2fsck.
# Usage: scripts/sqlite-tools.sh ONEWRITE EXTENSION CHECKOUT. EXTENSION is libonewrite_sqlite.so; CHECKOUT is SQLite's
# source tree (Debian: apt-get source sqlite3); the tools are built there (tclsh, a C compiler). SIZE is that of
# speedtest1 (25), MODE the journal mode of the image (data+async). Exit status 1 if something failed.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") extension=$(realpath "$2") suite=$(realpath "$3") size=${SIZE:-25} mode=${MODE:-data+async}
PATH="$PATH:/usr/sbin:/sbin"

build() {
  cd "$suite"
  [ -e sqlite3.c ] || { ./configure --disable-readline && make sqlite3.c; }
  mkdir -p onewrite-tools
  # Each program of it loads our VFS when SQLite starts.
  cat > onewrite-tools/load.c <<'C'
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
int load_onewrite(const char *unused) {
    const char *extension = getenv("ONEWRITE_EXTENSION");
    char *problem = 0;
    sqlite3 *db = 0;
    (void)unused;
    if (!extension) return SQLITE_OK;
    sqlite3_open(":memory:", &db);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, (int *)0);
    int result = sqlite3_load_extension(db, extension, 0, &problem);
    if (problem) fprintf(stderr, "%s: %s\n", extension, problem);
    sqlite3_close(db);
    return result;
}
C
  options="-O2 -w -I. -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE -DSQLITE_USE_URI=1 -DSQLITE_EXTRA_INIT=load_onewrite"
  # shellcheck disable=SC2086 # words
  cc $options -c sqlite3.c -o onewrite-tools/sqlite3.o && cc $options -c onewrite-tools/load.c -o onewrite-tools/load.o
  for tool in test/speedtest1 test/kvtest mptest/mptest src/shell; do
    source=$tool.c
    [ $tool != src/shell ] || source=shell.c
    [ -e "$source" ] || make shell.c
    # shellcheck disable=SC2086
    cc $options "$source" onewrite-tools/sqlite3.o onewrite-tools/load.o -o "onewrite-tools/$(basename $tool)" \
      -lm -lpthread -ldl
  done
  touch onewrite-tools/ready
}
[ -e "$suite/onewrite-tools/ready" ] || (build) > "$suite/onewrite-build.log" 2>&1 ||
  { tail "$suite/onewrite-build.log" >&2; exit 1; }
tools=$suite/onewrite-tools

room=$(mktemp -d)
mkdir "$room/mnt" "$room/host"
trap 'cd /; "$onewrite" umount "$room/mnt" 2> /dev/null || true; rm -rf "$room"' EXIT
failed=0 hash=""
wrong() { echo "  FAILED: $*"; failed=1; }

# speedtest1 on a database ($3, a URI or path) with a journal mode ($2), under a name ($1).
speed() {
  local found seconds own
  if ! found=$("$tools/speedtest1" --size "$size" --verify --journal "$2" "$3" 2>&1); then
    wrong "speedtest1 $1: $(tail -2 <<< "$found")"
    return
  fi
  seconds=$(sed -n 's/^ *TOTAL\.* *//p' <<< "$found")
  own=$(sed -n 's/^Verification Hash: //p' <<< "$found")
  [ -n "$own" ] || wrong "speedtest1 $1: no hash: $found"
  [ -z "$hash" ] || [ "$own" = "$hash" ] || wrong "speedtest1 $1: its hash is $own, the host's $hash"
  hash=${hash:-$own}
  printf '  speedtest1 --size %s, %-34s %s\n' "$size" "$1, $2:" "$seconds"
  sound "$3"
}

sound() {
  local found
  found=$("$tools/shell" "$1" "PRAGMA integrity_check" 2>&1) && [ "$found" = ok ] || wrong "integrity_check $1: $found"
}

clean() { e2fsck -fn "$room/image" > "$room/found" 2>&1 || wrong "e2fsck: $(cat "$room/found")"; }

mounted() { # mode
  rm -f "$room/image"
  "$onewrite" mkfs "$room/image" --size 1GiB
  "$onewrite" mount "$room/image" "$room/mnt" --log "$room/log" -o "data=$1,cache=256M"
}

echo "on the host's file system"
speed host delete "$room/host/speed.db"
rm "$room/host/speed.db"
speed host wal "$room/host/speed.db"

echo "on a mount"
for pair in "$mode/delete" ordered/wal; do
  mounted "${pair%/*}"
  speed "mount, ${pair%/*}" "${pair#*/}" "$room/mnt/speed.db"
  "$onewrite" umount "$room/mnt"
  clean
done

echo "through the VFS"
export ONEWRITE_EXTENSION=$extension
for pair in "$mode/memory" "$mode/delete" ordered/wal; do
  rm -f "$room/image"
  "$onewrite" mkfs "$room/image" --size 1GiB
  kind=${pair%/*}
  speed "VFS, $kind" "${pair#*/}" "file:$room/image:/speed.db?vfs=onewrite&data=${kind/+/%2B}&page-cache=256M"
  clean
done
unset ONEWRITE_EXTENSION

echo "kvtest on a mount, $mode"
mounted "$mode"
cd "$room/mnt"
"$tools/kvtest" init kv.db --count 2000 --size 12000 > "$room/found" 2>&1 || wrong "kvtest init: $(cat "$room/found")"
for jmode in delete wal; do
  for manner in "--random" "--blob-api --desc" "--update --multitrans --random" "--update --blob-api"; do
    # shellcheck disable=SC2086 # words
    "$tools/kvtest" run kv.db --count 2000 --jmode $jmode --integrity-check $manner > "$room/found" 2>&1 ||
      wrong "kvtest $jmode $manner: $(tail -3 "$room/found")"
    printf '  kvtest run --jmode %s %-32s %s\n' $jmode "$manner:" \
      "$(sed -n 's/.*Total elapsed time: *//p' "$room/found")"
  done
done
sound kv.db
cd /
"$onewrite" umount "$room/mnt"
clean

# mptester on a mount in mode $1, journal mode of SQLite / script of the rest: several processes on one database.
processes() {
  local kind=$1 pair
  shift
  echo "mptester on a mount, $kind"
  mounted "$kind"
  cd "$room/mnt"
  for pair in "$@"; do
    rm -f mp.db*
    "$tools/mptest" mp.db --quiet --sync --journalmode "${pair%/*}" "$suite/mptest/${pair#*/}.test" \
      > "$room/found" 2>&1 || wrong "mptester $pair: $(head -5 "$room/found")"
    printf '  mptester %-24s %s\n' "$pair:" "$(sed -n 's/^Summary: //p' "$room/found")"
    sound mp.db
  done
  cd /
  "$onewrite" umount "$room/mnt"
  clean
}
# config01 gives each process another journal mode, which SQLite refuses where the database is in WAL; and it maps the
# database, which files with drafts refuse (ENODEV; docs/mount.md): SQLite goes on, mptester complains.
processes ordered delete/config01 wal/multiwrite01 truncate/multiwrite01 persist/crash01
processes "$mode" delete/multiwrite01 delete/crash01 persist/multiwrite01 wal/multiwrite01
[ $failed = 0 ] && echo "all passed" || exit 1
