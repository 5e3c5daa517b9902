#!/usr/bin/env bash
# Runs fixed-seed commands with two builds of onewrite and compares every byte that they write.
# For changes that must not change any result. Usage: scripts/same-output.sh OLD_BINARY NEW_BINARY [SCRATCH_DIRECTORY]
#
# Compared: results of run, compare, cache and crash, images (by digest), and a short `paper results`. FULL=1 adds the
# papers' rows afs-*, ldj-*, zp-*, ts-waf-* and `paper results` at full length: 5 GB and 20 minutes on a free core for
# each build. A line for each command; exit status 1 if any differs or did not run.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
old=$(realpath "$1") new=$(realpath "$2")
scratch=${3:-$(mktemp -d)}
mkdir -p "$scratch/old" "$scratch/new"
failed=0

# Runs one command with one binary; its output, exit status and images' digests go to a file.
run_one() {
  local side=$1 binary=$2 name=$3
  shift 3
  rm -rf "$scratch/$side/images" && mkdir -p "$scratch/$side/images"
  (cd "$scratch/$side" && status=0 && "$binary" "$@" > "$name.out" 2> "$name.err" || status=$?
    echo "exit ${status:-0}" >> "$name.out"
    find images -type f | sort | xargs -r sha256sum >> "$name.out")
}

# What may differ between two runs of one build: how long the command took on this machine.
plain() { sed -E 's/[0-9.]+ (ns|µs|ms|s|min) (of wall time|elapsed)//g; s/"wall_[a-z_]+": *[0-9.]+//g' "$1"; }

same() {
  local name=$1
  shift
  run_one old "$old" "$name" "$@" & local other=$!
  run_one new "$new" "$name" "$@"
  wait $other
  # A build that fails to run is no comparison: 0 is done, 1 a row that differs or a promise broken.
  if ! grep -q '^exit [01]$' "$scratch/old/$name.out" || [ "$(wc -l < "$scratch/old/$name.out")" -lt 2 ]; then
    echo "NOT RUN    $name: $scratch/old/$name.err"
    failed=1
  elif cmp -s <(plain "$scratch/old/$name.out") <(plain "$scratch/new/$name.out"); then
    echo "same       $name"
  else
    echo "DIFFERENT  $name: diff $scratch/{old,new}/$name.out"
    failed=1
  fi
}

for mode in $({ "$new" names modes; "$new" names padded; } | cut -d ' ' -f 1 | sort -u); do
  same "run-varmail-$mode" run varmail --mode "$mode" --device nvme-share --seed 7 --runtime 2s \
    --image images/disk.img --page-trace images/pages.trace --json -
done
compared="--modes ordered,data,data+async,sdj+async --device nvme-share --seed 3 --json -"
# shellcheck disable=SC2086
{
  same compare-fileserver compare fileserver $compared --runtime 500ms --threads 8
  same compare-webserver compare webserver $compared --runtime 2s
  same compare-postmark compare postmark $compared --operations 3000
}
"$old" run fileserver --mode ordered --seed 4 --runtime 2s --page-trace "$scratch/pages.trace" \
  > "$scratch/trace.log" 2>&1
same cache cache "$scratch/pages.trace" --size 10% --json -
same crash-ordered crash random:40 --mode ordered --states 600 --seed 5 --json -
same crash-data crash random:40 --mode data --states 600 --seed 6 --json -
same crash-sdj crash random:40 --mode sdj+async --states 600 --seed 7 --json -
same crash-device crash random:30 --mode zp --device sata-850pro --states 300 --seed 8 --json -
same paper-results-short paper results --short
if [ -n "${FULL:-}" ]; then
  rows=$("$new" paper --list | grep -oE '^  runs (afs|ldj|zp|ts-waf)-[a-z0-9-]+' | cut -c 8- | sort -u)
  # shellcheck disable=SC2086
  same paper-rows paper $rows
  same paper-results paper results
fi
exit $failed
