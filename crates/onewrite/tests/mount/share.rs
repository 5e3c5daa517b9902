//! SHARE over the mount: the ioctl on an emulated device with SHARE, what it refuses, and copies that become shares.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use rustix::fs::copy_file_range;
use serde_json::Value;

use crate::support::{Mounted, text};

/// The ioctl, for the scripts below; `range` is (source, byte there, byte in the target, length).
const CALL: &str = "
def share(target, *ranges):
    words = [len(ranges)]
    for source, start, place, length in ranges:
        words += [os.fstat(source).st_ino, start, place, length]
    value = struct.pack('=%dQ' % len(words), *words)
    fcntl.ioctl(target, 0x4000f582 | len(value) << 16, value)
";

fn run(place: &Mounted, script: &str) {
    place.python(CALL, script);
}

/// An emulated device with SHARE, mounted in `ordered`.
fn on_share() -> Option<Mounted> {
    let place = Mounted::unmounted(16)?;
    text(&place.mount("nvme-share", "data=ordered,size=256M,allow_other"));
    Some(place)
}

/// What the host wrote, in bytes, and its commands.
#[derive(Clone, Copy)]
struct Written {
    content: u64,
    all: u64,
    shares: u64,
    flushes: u64,
}

fn written(place: &Mounted) -> Written {
    let stats: Value = place.stats();
    let device = &stats["device"];
    let causes: Vec<u64> =
        device["host_write_bytes_by_cause"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).collect();
    let [shares, flushes] = ["shares", "flushes"].map(|count| device[count].as_u64().unwrap());
    Written { content: causes[0], all: causes.iter().sum(), shares, flushes }
}

/// Programs see the shared pages at once, though the kernel had the old ones in its cache, and the new size.
#[test]
fn a_program_shares_pages_and_writes_none() {
    let Some(place) = on_share() else { return };
    run(
        &place,
        "
area, table = file('area', b'n' * 8192), file('table', b'o' * 40960)
os.fsync(area), os.fsync(table)
assert os.pread(table, 99999, 0) == b'o' * 40960
",
    );
    let before = written(&place);
    run(
        &place,
        "
area, table = os.open('area', os.O_RDONLY), os.open('table', os.O_RDWR)
share(table, (area, 0, 4096, 4096), (area, 4096, 12288, 4096))
expected = b'o' * 4096 + b'n' * 4096 + b'o' * 4096 + b'n' * 4096 + b'o' * 24576
assert os.pread(table, 99999, 0) == expected
",
    );
    let replaced = written(&place);
    assert_eq!((replaced.all, replaced.flushes), (before.all, before.flushes), "pages are replaced for nothing");
    run(
        &place,
        "
area, table = os.open('area', os.O_RDONLY), os.open('table', os.O_RDWR)
expected = os.pread(table, 99999, 0)
share(table, (area, 0, 40960, 8192))
assert os.fstat(table).st_size == 49152, os.fstat(table).st_size
assert os.pread(table, 99999, 0) == expected + b'n' * 8192
",
    );
    let extended = written(&place);
    assert_eq!((extended.content, extended.shares), (before.content, before.shares + 2));
    assert!(extended.all - replaced.all <= 8 * 4096 && extended.flushes - replaced.flushes <= 2, "one commit");
    assert!(fs::read(place.at("table")).unwrap().ends_with(&[b'n'; 8192]));
    place.umount();
}

#[test]
fn a_program_gets_an_error_for_what_cannot_be_shared() {
    let Some(place) = on_share() else { return };
    run(
        &place,
        "
area, table = file('area', b'n' * 8192), file('table', b'o' * 8192)
reader = os.open('table', os.O_RDONLY)
assert refusal(share, reader, (area, 0, 0, 4096)) == 'EBADF'
assert refusal(share, table, (area, 1, 0, 4096)) == 'EINVAL'
assert refusal(share, table, (area, 8192, 0, 4096)) == 'EINVAL'
assert refusal(share, table, (table, 0, 0, 4096)) == 'EINVAL'
assert refusal(share, table, (area, 0, 4096, 8192)) == 'EINVAL'
many = file('many', b'm' * (4096 << 10))
assert refusal(share, table, (many, 0, 8192, 4096 << 10)) == 'EFBIG'
try:
    fcntl.ioctl(table, 0x4008f582, struct.pack('=Q', 1))
    raise SystemExit('a count without ranges')
except OSError as error:
    assert error.errno == errno.EINVAL
shutil.copy(shutil.which('sleep'), 'secret')
secret = os.open('secret', os.O_RDONLY)
os.chmod('.', 0o777), os.chmod('area', 0o600), os.chmod('secret', 0o711)
child = os.fork()
if child == 0:
    os.setuid(65534)
    own = file('own', b'x' * 8192)
    # The descriptor of root is inherited; its right to read is not another user's.
    if refusal(share, own, (area, 0, 0, 4096)) != 'EPERM':
        os._exit(1)
    # Whom execve lets run a program, he may not read it.
    program = subprocess.Popen(['./secret', '30'])
    refused = refusal(share, own, (secret, 0, 0, 4096))
    program.kill()
    os._exit(0 if refused == 'EPERM' else 2)
assert os.waitpid(child, 0)[1] == 0
assert os.pread(table, 99999, 0) == b'o' * 8192
",
    );
    place.umount();
}

/// `cp` and others copy by `copy_file_range`.
#[test]
fn a_large_copy_is_a_share_and_a_small_one_a_copy() {
    let Some(place) = on_share() else { return };
    let content: Vec<u8> = (0..1_000_000_u32).map(|byte| (byte / 4096) as u8).collect();
    fs::write(place.at("one"), &content).unwrap();
    fs::File::open(place.at("one")).unwrap().sync_all().unwrap();
    let before = written(&place);
    let open =
        |name| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(place.at(name)).unwrap();
    let (one, two) = (open("one"), open("two"));
    let (mut from, mut to) = (0, 0);
    while copy_file_range(&one, Some(&mut from), &two, Some(&mut to), 1 << 30).unwrap() > 0 {}
    two.sync_all().unwrap();
    let after = written(&place);
    assert!(fs::read(place.at("two")).unwrap() == content);
    assert!(after.shares > before.shares && after.content - before.content <= 4096, "only the last, partial page");
    assert!(after.all - before.all <= 64 * 4096, "245 pages are not written: {} bytes", after.all - before.all);
    let (mut from, mut to) = (0, 0);
    let three = open("three");
    copy_file_range(&one, Some(&mut from), &three, Some(&mut to), 10_000).unwrap();
    assert_eq!(written(&place).shares, after.shares, "no SHARE for two pages");
    let mut bytes = vec![0; 10_000];
    three.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content[..10_000]);
    drop((one, two, three));
    place.umount();
}
