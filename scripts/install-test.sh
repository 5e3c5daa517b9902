#!/bin/sh
# Runs `make install` and uses what it installed, as root. /usr and /etc are overlays in a mount namespace of its own,
# so nothing stays on the machine. Skips loudly where there are no overlays.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

say() { echo "install-test: $*"; }
fail() { say "FAILED: $*" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
    if [ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ] || ! grep -qw overlay /proc/filesystems; then
        echo "SKIPPED: the installation was NOT tested: it needs root, /dev/fuse and overlays" >&2
        exit 0
    fi
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    unshare --mount --propagation private "$0" inside "$room"
    exit
fi

room=$2
for place in usr etc; do
    mkdir -p "$room/$place/upper" "$room/$place/work"
    mount -t overlay overlay -o "lowerdir=/$place,upperdir=$room/$place/upper,workdir=$room/$place/work" "/$place"
done
changed() { find "$room/usr/upper" "$room/etc/upper" ! -type d; }

say "into a directory of its own"
make --silent install DESTDIR="$room/dest" PREFIX=/usr
(cd "$room/dest" && find . ! -type d) | sort > "$room/list"
diff "$room/list" - <<'LIST' || fail "other files than expected"
./sbin/mount.fuse.onewrite
./sbin/umount.fuse.onewrite
./usr/bin/onewrite
./usr/include/onewrite.h
./usr/lib/libonewrite.a
./usr/lib/libonewrite.so
./usr/lib/libonewrite.so.0
./usr/lib/pkgconfig/onewrite.pc
LIST
[ -z "$(changed)" ] || fail "with DESTDIR it changed $(changed)"
[ "$(readlink "$room/dest/sbin/mount.fuse.onewrite")" = /usr/bin/onewrite ] || fail "the helper's link"
# shellcheck disable=SC2046 # words
PKG_CONFIG_PATH="$room/dest/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$room/dest" cc examples/c/log.c \
    $(PKG_CONFIG_PATH="$room/dest/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$room/dest" \
        pkg-config --cflags --libs onewrite) -o "$room/staged"
rm -r "$room/dest"

say "for real"
make --silent install
[ "$(command -v onewrite)" = /usr/local/bin/onewrite ] || fail "onewrite is $(command -v onewrite)"
image=$room/disk.img mnt=$room/mnt
mkdir "$mnt"
onewrite mkfs "$image" --size 64MiB

say "mount -t fuse.onewrite, umount"
mount -t fuse.onewrite -o data=data+async "$image" "$mnt"
grep -q " $mnt fuse.onewrite rw" /proc/self/mounts || fail "$(cat /proc/self/mounts)"
echo kept > "$mnt/file"
umount "$mnt"
e2fsck -fn "$image" > "$room/found" 2>&1 || fail "umount returned before the image was clean: $(cat "$room/found")"
echo "$image $mnt fuse.onewrite data=data,noauto,ro 0 0" >> /etc/fstab
mount "$mnt"
[ "$(cat "$mnt/file")" = kept ] || fail "the file is gone"
! touch "$mnt/file" 2> "$room/found" || fail "fstab's ro is ignored"
umount "$mnt"

say "a C program by pkg-config"
# shellcheck disable=SC2046 # words
cc examples/c/log.c $(pkg-config --cflags --libs onewrite) -o "$room/log"
"$room/log" "$image" first > /dev/null
[ "$("$room/log" "$image" second)" = "$(printf 'acknowledged\nfirst\nsecond')" ] || fail "the program"
"$room/staged" "$image" third > /dev/null
[ "$(onewrite cat "$image:/log")" = "$(printf 'first\nsecond\nthird')" ] || fail "the program linked in DESTDIR"
e2fsck -fn "$image" > "$room/found" 2>&1 || fail "$(cat "$room/found")"

say "ow_acked under onewrite crash --run"
cat > "$room/acked.c" <<'C'
#include <fcntl.h>
#include <onewrite.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int file = open(argv[1], O_CREAT | O_WRONLY, 0600);
    if (argc == 2 && fsync(file)) return 1;
    return ow_acked(argv[1]) || usleep(20000) || close(file);
}
C
# shellcheck disable=SC2046 # words
cc "$room/acked.c" $(pkg-config --cflags --libs onewrite) -o "$room/acked"
check='for name in $(cat "$ONEWRITE_ACKED"); do test -e $name || { echo no $name; exit 1; }; done'
onewrite crash --run "$room/acked a && $room/acked b" --check "$check" 2> "$room/found" || fail "$(cat "$room/found")"
grep -q "acknowledged 2 tokens" "$room/found" || fail "$(cat "$room/found")"
! onewrite crash --run "$room/acked a early" --check "$check" --keep "$room/kept" 2> "$room/found" ||
    fail "an early acknowledgement was not noticed: $(cat "$room/found")"
say "passed"
