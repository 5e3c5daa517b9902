#!/usr/bin/env bash
# Runs a part of SQLite's TCL tests, those about files, locks, journals and crashes, on the host's file system and on a
# mount, as root. A case may fail on the mount only if it fails on the host.
# Usage: scripts/sqlite-tcl.sh ONEWRITE CHECKOUT [TEST ...]. CHECKOUT is SQLite's source tree (Debian: apt-get source
# sqlite3); testfixture is built there, with batch atomic writes (tcl-dev, a C compiler). MODES are the journal modes
# of the image: data+async, in which SQLite commits by batch atomic writes, and ordered, where its journals work. Exit
# status 1 if a test fails or an image is damaged.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") suite=$(realpath "$2") modes=${MODES:-data+async ordered}
shift 2
PATH="$PATH:/usr/sbin:/sbin"
tests=("$@")
[ $# -gt 0 ] || tests=(
  atomic atomic2 attach2 attach3 autovacuum backup backup2 backup4 bigfile2 crash crash2 crash3 crash5 crash8
  delete_db exclusive exclusive2 incrvacuum incrvacuum2 io journal1 journal2 journal3 jrnlmode jrnlmode2 jrnlmode3 lock
  lock2 lock3 lock4 lock5 lock6 lock7 multiplex nolock pager1 pager2 pager3 pager4 quota rdonly rollback rollback2
  savepoint savepoint2 savepoint5 savepoint6 savepoint7 shared shared2 shared3 shared6 sharedlock snapshot snapshot2
  superlock symlink symlink2 sync sync2 syscall tempdb tempdb2 trans trans2 trans3 unixexcl vacuum vacuum2 vacuum3
  vacuum5 wal wal2 wal3 wal4 wal5 wal6 wal7 wal8 wal9 walbak walcksum walcrash2 walmode walnoshm waloverwrite
  walpersist walprotocol walro walro2 walshared writecrash)

if [ ! -x "$suite/testfixture" ]; then
  echo "building testfixture (minutes)"
  (cd "$suite" && ./configure --disable-readline && make testfixture OPTS=-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE) \
    > "$suite/testfixture-build.log" 2>&1 || { tail "$suite/testfixture-build.log" >&2; exit 1; }
fi

room=$(mktemp -d)
mkdir "$room/mnt" "$room/host"
trap 'cd /; "$onewrite" umount "$room/mnt" 2> /dev/null || true; rm -rf "$room"' EXIT

# Runs test $2 in directory $1: `ERRORS CASES`, then the names of the failed cases.
run() {
  mkdir -p "$1/$2"
  (cd "$1/$2" && timeout 600 "$suite/testfixture" "$suite/test/$2.test") > "$room/$2.log" 2>&1 || true
  grep -a "errors out of" "$room/$2.log" | tail -1 | sed 's/^\([0-9]*\) errors out of \([0-9]*\) .*/\1 \2/' | grep . ||
    echo "- - no result: $(tail -1 "$room/$2.log")"
  sed -n 's/^!*Failures on these tests: //p' "$room/$2.log"
  rm -rf "${1:?}/$2"
}

declare -A host
failed=0
for mode in $modes; do
  rm -f "$room/image"
  "$onewrite" mkfs "$room/image" --size 2GiB > "$room/made"
  "$onewrite" mount "$room/image" "$room/mnt" --log "$room/log" -o "data=$mode,cache=256M"
  passed=0 idle=0 as_host=0 cases=0
  for test in "${tests[@]}"; do
    [ -n "${host[$test]:-}" ] || host[$test]=$(run "$room/host" "$test")
    mount=$(run "$room/mnt" "$test")
    read -r errors count _ <<< "$mount"
    if [ "$errors" = 0 ] && [ "$count" -le 1 ]; then
      # It found nothing to test here, for example no journal.
      idle=$((idle + 1))
    elif [ "$errors" = 0 ]; then
      passed=$((passed + 1)) cases=$((cases + count))
    elif [ "$errors" != - ] && [ "$(tail -n +2 <<< "$mount")" = "$(tail -n +2 <<< "${host[$test]}")" ]; then
      as_host=$((as_host + 1)) cases=$((cases + count))
      echo "  $test: fails as on the host: ${mount//$'\n'/; }"
    else
      failed=$((failed + 1))
      echo "  $test: FAILED: on the mount ${mount//$'\n'/; }, on the host ${host[$test]//$'\n'/; }"
    fi
  done
  "$onewrite" umount "$room/mnt"
  e2fsck -fn "$room/image" > "$room/found" 2>&1 ||
    { echo "FAILED: e2fsck:"; cat "$room/found"; failed=$((failed + 1)); }
  echo "$mode: of ${#tests[@]} tests $passed passed, $idle have nothing to do, $as_host fail as on the host;" \
    "$cases cases"
done
[ $failed = 0 ] && echo "all passed" || exit 1
