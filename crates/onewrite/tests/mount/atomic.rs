//! Atomic files through the kernel: what owners and others see, the two hazards of the kernel's cache, every end of a
//! draft, and kills of the mount between and within commits.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use onewrite_block::Choices;

use crate::support::{Mounted, PRELUDE, lines_before_kill, text};

/// The ioctls, for the scripts below.
const CALLS: &str = "
START, COMMIT, ABORT, FEATURES = 0xf501, 0xf502, 0xf505, 0x8004f50c

def features(fd):
    value = bytearray(4)
    fcntl.ioctl(fd, FEATURES, value)
    return struct.unpack('=I', value)[0]

def together(fd, number, inodes):
    value = struct.pack('=Q%dQ' % len(inodes), len(inodes), *inodes)
    fcntl.ioctl(fd, 0x4000f500 | number | len(value) << 16, value)
";

/// Runs a script with [`CALLS`] on the mount; it asserts by itself.
fn run(place: &Mounted, script: &str) {
    place.python(CALLS, script);
}

/// Runs a script on a mount of ext4 in mode `data`, and on one of F2FS, and checks the images.
fn on_data(script: &str) {
    let f2fs = || Mounted::unmounted_f2fs(64)?.mounted("allow_other");
    for place in [Mounted::new(64, "data=data,allow_other"), f2fs()] {
        let Some(mut place) = place else { return };
        run(&place, script);
        place.unmount();
    }
}

/// The first handle is opened before the file is known as atomic and goes through the kernel's cache, the second passes
/// it. Each owns a draft in turn.
#[test]
fn nobody_sees_a_draft_before_its_commit_nor_after_an_abort() {
    on_data(
        "
old, new = b'o' * 10000, b'n' * 20000
for turn in (0, 1):
    first = file('f', old)
    assert features(first) & 4
    second = os.open('f', os.O_RDWR)
    owner, other = (first, second) if turn == 0 else (second, first)
    for fd in (owner, other):
        equal(os.pread(fd, 99999, 0), old)
    for end in (ABORT, COMMIT):
        fcntl.ioctl(owner, START)
        fcntl.ioctl(owner, START)
        os.pwrite(owner, new, 0)
        equal(os.pread(owner, 99999, 0), new)
        equal(os.fstat(owner).st_size, 20000)
        equal(os.pread(other, 99999, 0), old)
        third = os.open('f', os.O_RDWR)
        equal(os.pread(third, 99999, 0), old)
        equal(refusal(os.pwrite, other, b'x', 0), 'EBUSY')
        equal(refusal(os.truncate, 'f', 0), 'EBUSY')
        equal(refusal(fcntl.ioctl, third, START), 'EBUSY')
        fcntl.ioctl(owner, end)
        for fd in (owner, other, third):
            equal(os.pread(fd, 99999, 0), old if end == ABORT else new)
            equal(os.fstat(fd).st_size, 10000 if end == ABORT else 20000)
        os.close(third)
    os.pwrite(other, b'x', 0)
    equal(os.pread(owner, 2, 0), b'xn')
    os.close(first); os.close(second); os.unlink('f')
",
    );
}

/// Reads as long as those of the kernel's read-ahead.
#[test]
fn long_reads_show_a_draft_to_its_owner_alone() {
    on_data(
        "
old, new = b'o' * 400000, b'n' * 100000
other = file('f', old)
assert features(other) & 4
owner = os.open('f', os.O_RDWR)
fcntl.ioctl(owner, START)
os.pwrite(owner, new, 150000)
mixed = old[:150000] + new + old[250000:]
for start, length in ((0, 400000), (65536, 262144), (140000, 131072)):
    equal(os.pread(owner, length, start), mixed[start:start + length])
    equal(os.pread(other, length, start), old[start:start + length])
fcntl.ioctl(owner, COMMIT)
for fd in (owner, other):
    equal(os.pread(fd, 400000, 0), mixed)
",
    );
}

#[test]
fn a_draft_is_refused_where_the_cache_would_show_it_and_to_readers() {
    on_data(
        "
reader = file('f', b'old')
owner = os.open('f', os.O_RDWR)
equal(refusal(fcntl.ioctl, owner, START), 'EBUSY')
os.close(reader)
for attempt in range(500):
    if refusal(fcntl.ioctl, owner, START) == 'allowed':
        break
    time.sleep(.02)
os.pwrite(owner, b'new', 0)
reader = os.open('f', os.O_RDONLY)
equal(os.pread(reader, 9, 0), b'old')
fcntl.ioctl(owner, COMMIT)
equal(os.pread(reader, 9, 0), b'new')
equal(refusal(fcntl.ioctl, reader, START), 'EBADF')
fcntl.ioctl(owner, COMMIT)
fcntl.ioctl(owner, ABORT)
equal(os.pread(reader, 9, 0), b'new')
equal(refusal(fcntl.ioctl, owner, 0xf5ff), 'ENOTTY')
",
    );
}

#[test]
fn closing_a_file_and_the_death_of_its_program_abort() {
    on_data(
        "
def committed(fd):
    for attempt in range(500):
        if refusal(os.pwrite, fd, b'O', 0) == 'allowed':
            return os.pread(fd, 99, 0)
        time.sleep(.02)

for name, is_killed in (('closed', False), ('killed', True)):
    keeper = file(name, b'old')
    features(keeper)
    os.close(keeper)
    child = os.fork()
    if child == 0:
        fd = os.open(name, os.O_RDWR)
        fcntl.ioctl(fd, START)
        os.pwrite(fd, b'newer', 0)
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(fd)
        os._exit(0)
    os.waitpid(child, 0)
    fd = os.open(name, os.O_RDWR)
    equal(committed(fd), b'Old')
    equal(os.stat(name).st_size, 3)
",
    );
}

#[test]
fn sizes_holes_and_appends_go_to_the_draft_and_come_back_from_an_abort() {
    on_data(
        "
page = 4096
owner = file('f', b'a' * 4 * page)
features(owner)
other = os.open('f', os.O_RDWR | os.O_APPEND)
fcntl.ioctl(owner, START)
os.ftruncate(owner, 3 * page)
os.ftruncate(owner, 5 * page)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
fallocate = lambda fd, mode, at, length: libc.fallocate(
    fd, mode, ctypes.c_long(at), ctypes.c_long(length))
equal(fallocate(owner, 3, page, page), 0)
drafted = b'a' * page + bytes(page) + b'a' * page + bytes(2 * page)
equal(os.pread(owner, 9 * page, 0), drafted)
equal(fallocate(owner, 0, 0, 9 * page), -1)
equal(ctypes.get_errno(), errno.EOPNOTSUPP)
equal(os.pread(other, 9 * page, 0), b'a' * 4 * page)
equal(os.stat('f').st_size, 5 * page)
fcntl.ioctl(owner, ABORT)
os.write(other, b'appended')
equal(os.pread(other, 9 * page, 0), b'a' * 4 * page + b'appended')
equal(os.pread(owner, 9 * page, 0), b'a' * 4 * page + b'appended')
fcntl.ioctl(owner, START)
os.ftruncate(owner, 10)
fcntl.ioctl(owner, COMMIT)
equal((os.stat('f').st_size, os.pread(other, 99, 0)), (10, b'a' * 10))
",
    );
}

#[test]
fn drafts_of_several_files_are_committed_and_aborted_together() {
    on_data(
        "
one, two = file('one', b'1'), file('two', b'2')
directory = os.open('.', os.O_RDONLY)
inodes = [os.fstat(one).st_ino, os.fstat(two).st_ino]
readers = []
for fd in (one, two):
    features(fd)
def begin(content):
    for fd in (one, two):
        fcntl.ioctl(fd, START)
        os.pwrite(fd, content, 0)
def seen():
    return [open(name, 'rb').read() for name in ('one', 'two')]
begin(b'x')
together(directory, 0x81, inodes)
equal(seen(), [b'1', b'2'])
equal(refusal(together, directory, 0x80, inodes), 'EINVAL')
begin(b'y')
equal(refusal(together, directory, 0x80, inodes + inodes), 'EINVAL')
child = os.fork()
if child == 0:
    os.setuid(1000)
    os._exit(0 if refusal(together, directory, 0x80, inodes) == 'EPERM' else 1)
equal(os.waitpid(child, 0)[1], 0)
equal(seen(), [b'1', b'2'])
together(directory, 0x80, inodes)
equal(seen(), [b'y', b'y'])
",
    );
}

#[test]
fn modes_that_write_content_in_place_do_not_announce_atomic_files() {
    let Some(mut place) = Mounted::new(64, "data=ordered") else { return };
    run(
        &place,
        "
fd = file('f', b'')
equal(features(fd), 0)
equal(refusal(fcntl.ioctl, fd, START), errno.errorcode[errno.EOPNOTSUPP])
",
    );
    place.unmount();
}

/// Commits rounds: each writes its number to all pages of two files. Prints a round when it is durable.
const ROUNDS: &str = "
files = [file(name, bytes(64 * 4096)) if not os.path.exists(name) else os.open(name, os.O_RDWR) for name in 'ab']
directory = os.open('.', os.O_RDONLY)
number = int(sys.argv[1])
while True:
    number += 1
    for fd in files:
        fcntl.ioctl(fd, START)
        for place in range(64):
            os.pwrite(fd, b'%08d' % number * 512, place * 4096)
    together(directory, 0x80, [os.fstat(fd).st_ino for fd in files])
    print(number, flush=True)
";

#[test]
fn a_commit_never_overtakes_writes_and_is_whole_after_kills() {
    let kills: u64 = std::env::var("ONEWRITE_KILLS").map_or(4, |text| text.parse().unwrap());
    for mode in ["data", "data+async", "ldj"] {
        let mut moments = Choices::new(17).stream(mode, 0);
        let Some(mut place) = Mounted::unmounted(64) else { return };
        let mut last = 0;
        for round in 0..kills {
            place = place.mounted(&format!("data={mode}")).unwrap();
            last = rounds_before_kill(&place, last, moments.below(200));
            text(&place.fsck_after_kill());
            place.check();
            let found = round_on(&place);
            assert!(found == last || found == last + 1, "{mode}, kill {round}: {found} after {last}");
            last = found;
        }
    }
}

/// Kills the mount some time after a first round was committed; returns the last round that was.
fn rounds_before_kill(place: &Mounted, last: u64, after_milliseconds: u64) -> u64 {
    let said = lines_before_kill(place, &format!("{PRELUDE}{CALLS}{ROUNDS}"), &last.to_string(), after_milliseconds);
    said.last().expect("a round is committed").parse().unwrap()
}

/// The round that all pages of both files hold.
fn round_on(place: &Mounted) -> u64 {
    let mut rounds = Vec::new();
    for name in ["a", "b"] {
        let _ = fs::remove_file(place.beside(name));
        text(&place.onewrite(&["cp", &format!("image:/{name}"), name]));
        let copy = File::open(place.beside(name)).unwrap();
        for index in 0..64 {
            let mut number = [0; 8];
            copy.read_exact_at(&mut number, index * 4096).unwrap();
            rounds.push(std::str::from_utf8(&number).unwrap().parse().unwrap());
        }
    }
    assert!(rounds.iter().all(|round| round == &rounds[0]), "a group is torn: {rounds:?}");
    rounds[0]
}

/// A change that the mount accepted beside a commit must not be lost with the draft's end.
#[test]
fn a_write_beside_a_commit_is_there_or_refused() {
    on_data(
        "
import threading
os.close(file('f', bytes(8192)))
owner = os.open('f', os.O_RDWR)
assert features(owner) & 4
accepted = refused = 0
for turn in range(200):
    mark = bytes([1 + turn % 255]) * 4096
    fcntl.ioctl(owner, START)
    os.pwrite(owner, mark, 0)
    said = []
    beside = threading.Thread(target=lambda: said.append(refusal(os.pwrite, owner, mark, 4096)))
    beside.start()
    fcntl.ioctl(owner, COMMIT)
    beside.join()
    found = os.pread(owner, 8192, 0)
    equal(found[:4096], mark)
    assert said[0] in ('allowed', 'EBUSY'), said
    equal(found[4096:] == mark, said[0] == 'allowed')
    accepted, refused = accepted + (said[0] == 'allowed'), refused + (said[0] == 'EBUSY')
assert accepted > 0, (accepted, refused)
",
    );
}

/// The commit takes the slow card 100 milliseconds; until then the owner's changes are refused, and it reads the draft.
#[test]
fn while_a_commit_is_under_way_its_owner_may_only_read() {
    let Some(place) = Mounted::emulated("microsd-adata", "data=data,size=64M") else { return };
    run(
        &place,
        "
import threading
owner = file('f', bytes(8192))
features(owner)
fcntl.ioctl(owner, START)
for place in range(12):
    os.pwrite(owner, b'n' * 65536, place * 65536)
committer = threading.Thread(target=fcntl.ioctl, args=(owner, COMMIT))
committer.start()
time.sleep(.02)
said = [refusal(*call) for call in (
    (os.pwrite, owner, b'x', 4096), (os.ftruncate, owner, 0), (fcntl.ioctl, owner, START),
    (fcntl.ioctl, owner, COMMIT))]
read = os.pread(owner, 4, 4096)
assert committer.is_alive(), 'the commit was over too early to show anything'
committer.join()
equal(said, ['EBUSY'] * 4)
equal((read, os.pread(owner, 4, 4096), os.fstat(owner).st_size), (b'nnnn', b'nnnn', 12 * 65536))
os.pwrite(owner, b'x', 4096)
equal(os.pread(owner, 2, 4096), b'xn')
",
    );
}
