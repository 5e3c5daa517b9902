#!/bin/sh
# Deep crash runs: twice 126,000 distinct states in each mode, a seed for each run, so many runs at a time as there are
# cores (JOBS); and 20,000 states of workloads of every operation in each mode, of shared pages in each mode, and of
# drafts of atomic files in each mode that logs content.
# Usage: crash-deep.sh ONEWRITE DIRECTORY [MODE...]   What each run said is left in DIRECTORY/MODE-DEVICE-SEED.txt.
set -eu
binary=$1 directory=$2
shift 2
mkdir -p "$directory"

# The names of the modes whose blocks come home so.
modes() { "$binary" names modes | sed -n "s/ $1\$//p"; }

# Modes without SHARE on two devices, those with SHARE and those that pad twice on the one device that suits them.
runs() {
    seed=$1
    for mode in $(modes copies); do
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
    done
    for mode in $(modes shares); do
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
    done
    for mode in $(modes pads); do
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
    done
}

for mode in "$@"; do
    runs 0 | grep -q "^$mode " && continue
    echo "crash-deep: no mode $mode; there are: $(runs 0 | cut -d' ' -f1 | uniq | xargs)" >&2
    exit 1
done

wanted() {
    while read -r mode device seed; do
        [ $# = 0 ] || case " $* " in *" $mode "*) ;; *) continue ;; esac
        echo "$mode $device $seed"
    done
}

# Workload, states and what follows the seed in the name of the output, then the runs on standard input; all cores are
# busy with a run each.
explore() {
    # shellcheck disable=SC2016
    xargs -r -P "${JOBS:-$(nproc)}" -L 1 sh -c '
        said="$1/$5-$6-$7$4.txt"
        "$0" crash "$2" --jobs 1 --mode "$5" --device "$6" --states "$3" --seed "$7" 2> "$said" ||
            { cat "$said"; exit 255; }
        echo "$2, $5 on $6, seed $7: $(grep -h "distinct states" "$said")"
    ' "$binary" "$directory" "$@"
}

runs 300 | wanted "$@" > "$directory/runs"
explore random:80 126000 "" < "$directory/runs"
explore random-all:80 20000 -all < "$directory/runs"

# Modes that write content in place refuse drafts of atomic files, as a wrong use: exit code 2.
while read -r mode device seed; do
    status=0
    "$binary" crash atomic:2 --jobs 1 --mode "$mode" --device "$device" --states 1 > "$directory/refused" 2>&1 ||
        status=$?
    [ $status = 2 ] || echo "$mode $device $seed"
done < "$directory/runs" > "$directory/atomic"
explore atomic:80 20000 -atomic < "$directory/atomic"
explore shares:80 20000 -shares < "$directory/runs"
