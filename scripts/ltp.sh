#!/usr/bin/env bash
# Runs the file-system tests of the Linux Test Project in a directory of a mount, as root.
# Usage: scripts/ltp.sh ONEWRITE CHECKOUT [TEST]... CHECKOUT is a copy of github.com/linux-test-project/ltp; what is
# needed of it is built there (autoconf, automake, a C compiler). The tests are those of the system calls on files;
# those that need a disk make it on the mount. MODE names the journal mode (ordered).
# HOST=1 runs them on the host's file system instead. Prints a line for each test that did not pass, then a count of
# each outcome; exit status 1 if a test failed that KNOWN (a list of names) does not have.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
onewrite=$(realpath "$1") suite=$(realpath "$2") mode=${MODE:-ordered}
shift 2
PATH="$PATH:/usr/sbin:/sbin"
calls="access chdir chmod chown close copy_file_range creat dup dup2 dup3 execve faccessat faccessat2 fallocate fchdir
fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr file_attr flistxattr flock fremovexattr fsetxattr
fstat fstatfs fsync ftruncate futimesat getcwd getdents getxattr inotify lchown lgetxattr link linkat listxattr
llistxattr llseek lremovexattr lseek lstat mkdir mkdirat mknod mknodat mmap msync munmap name_to_handle_at open openat
openat2 open_by_handle_at posix_fadvise pread preadv preadv2 pwrite pwritev pwritev2 read readahead readdir readlink
readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statvfs statx symlink
symlinkat sync sync_file_range truncate umask unlink unlinkat ustat utime utimensat utimes write writev"

build() {
  cd "$suite"
  [ -e configure ] || make autotools
  [ -e include/config.h ] || ./configure
  make -C lib && make -C libs
  for call in $calls; do
    if [ -d "testcases/kernel/syscalls/$call" ]; then make -k -C "testcases/kernel/syscalls/$call" || true; fi
  done
  make -k -C testcases/kernel/fs || true
  touch onewrite-built
}
[ -e "$suite/onewrite-built" ] || (build) > "$suite/build.log" 2>&1 || { tail "$suite/build.log" >&2; exit 1; }

room=$(mktemp -d)
chmod 755 "$room"
bin=$room/root/testcases/bin
mkdir -p "$room/mnt" "$bin"
trap 'cd /; "$onewrite" umount "$room/mnt" 2> /dev/null || true; rm -rf "$room"' EXIT
find "$suite/testcases/kernel/syscalls" "$suite/testcases/kernel/fs" -type f -perm -u+x ! -name '*.o' \
  -exec ln -sf -t "$bin" {} +
if [ -z "${HOST:-}" ]; then
  "$onewrite" mkfs "$room/image" --size 3GiB
  "$onewrite" mount "$room/image" "$room/mnt" --log "$room/log" -o "data=$mode,allow_other,suid,dev,cache=256M"
fi
mkdir -m 1777 "$room/mnt/tmp"
export TMPDIR=$room/mnt/tmp LTPROOT=$room/root PATH="$bin:$suite/testcases/lib:$PATH" LTP_COLORIZE_OUTPUT=n
export LTP_TIMEOUT_MUL=3

# The tests of the lists whose program was built and whose name has a system call of ours before its number.
names() {
  awk 'NF > 1 && !/^#/ { print $1, $2 }' "$suite/runtest/syscalls" | while read -r name program; do
    call=$(sed 's/_*[0-9]*\(_[0-9]*\)*$//' <<< "$name")
    if [ -x "$bin/$program" ] && grep -qw -- "$call" <<< "$calls"; then echo "$name"; fi
  done
}
line() { awk -v name="$1" '$1 == name { sub(/^[^ \t]+[ \t]+/, ""); print; exit }' "$suite"/runtest/syscalls; }

declare -A count=([passed]=0 [failed]=0 [known]=0 [skipped]=0)
[ $# -gt 0 ] || mapfile -t chosen < <(names)
[ $# -eq 0 ] || chosen=("$@")
for name in "${chosen[@]}"; do
  status=0
  (cd "$TMPDIR" && timeout 400 bash -c "$(line "$name")") > "$room/told" 2>&1 < /dev/null || status=$?
  # Bits of the status: 1 failed, 2 broken, 4 warned, 32 does not apply.
  case $status in
    0) outcome=passed ;;
    32 | 36) outcome=skipped ;;
    *) outcome=failed; ! grep -qw -- "$name" <<< "${KNOWN:-}" || outcome=known ;;
  esac
  # What a test leaves mounted on images of its own.
  awk -v below="$TMPDIR/" 'index($2, below) == 1 { print $2 }' /proc/mounts | xargs -r umount
  count[$outcome]=$((count[$outcome] + 1))
  case $outcome in
    skipped) echo "skipped $name: $(grep -m1 -E 'TCONF' "$room/told" | sed 's/.*TCONF: *//' || true)" ;;
    failed | known)
      echo "$outcome $name ($status): $(grep -m2 -E 'TFAIL|TBROK|TWARN' "$room/told" | tr '\n' ' ' || true)" ;;
  esac
done
echo "${count[passed]} passed, ${count[failed]} failed, ${count[known]} known, ${count[skipped]} skipped"
if [ -z "${HOST:-}" ]; then
  "$onewrite" umount "$room/mnt"
  e2fsck -fn "$room/image"
fi
[ "${count[failed]}" = 0 ]
