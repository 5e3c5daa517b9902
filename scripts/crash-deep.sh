#!/bin/sh
# Deep crash runs: twice 126,000 distinct states in each mode, a seed for each run, so many runs at a time as there are cores (JOBS).
# Usage: crash-deep.sh ONEWRITE DIRECTORY [MODE...]   What each run said is left in DIRECTORY/MODE-DEVICE-SEED.txt.
set -eu
binary=$1 directory=$2
shift 2
mkdir -p "$directory"

# Modes without SHARE on two devices, those with SHARE and those that pad twice on the one device that suits them.
runs() {
    seed=$1
    for mode in writeback ordered data data+async data+lazy data+cmp ldj; do
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
    done
    for mode in soj sdj sdj+async; do
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
        seed=$((seed + 1)) && echo "$mode nvme-share $seed"
    done
    for mode in zp zp-data; do
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
        seed=$((seed + 1)) && echo "$mode sata-850pro $seed"
    done
}

for mode in "$@"; do
    runs 0 | grep -q "^$mode " || { echo "crash-deep: no mode $mode; there are: $(runs 0 | cut -d' ' -f1 | uniq | xargs)" >&2; exit 1; }
done

wanted() {
    while read -r mode device seed; do
        [ $# = 0 ] || case " $* " in *" $mode "*) ;; *) continue ;; esac
        echo "$mode $device $seed"
    done
}

# shellcheck disable=SC2016
runs 300 | wanted "$@" | xargs -r -P "${JOBS:-$(nproc)}" -L 1 sh -c '
    said="$1/$2-$3-$4.txt"
    "$0" crash random:80 --mode "$2" --device "$3" --states 126000 --seed "$4" 2> "$said" || { cat "$said"; exit 255; }
    echo "$2 on $3, seed $4: $(grep -h "distinct states" "$said")"
' "$binary" "$directory"
