//! Names: programs make and move them, remove them while in use, and list them while they change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};

use crate::support::{Mounted, text};

#[test]
fn an_open_file_lives_without_a_name_and_gives_its_space_back() {
    let Some(mut place) = Mounted::new(128, "") else { return };
    let free = |place: &Mounted| rustix::fs::statvfs(place.at("")).unwrap().f_bfree;
    let before = free(&place);
    let mut file = File::options().read(true).write(true).create_new(true).open(place.at("gone")).unwrap();
    file.write_all(&vec![7; 8 << 20]).unwrap();
    file.sync_all().unwrap();
    fs::remove_file(place.at("gone")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    fs::write(place.at("other"), vec![1; 4 << 20]).unwrap();
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut content).unwrap();
    assert!(content == vec![7; 8 << 20], "its blocks were given to somebody else");
    drop(file);
    fs::remove_file(place.at("other")).unwrap();
    File::open(place.at("")).unwrap().sync_all().unwrap();
    let is_free = (0..500).any(|_| {
        crate::support::pause(20);
        free(&place) + 8 > before
    });
    assert!(is_free, "{} of {before} blocks are free", free(&place));
    place.unmount();
}

#[test]
fn a_file_that_is_known_without_being_open_outlives_one_that_is_renamed_over_it() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::write(place.at("old"), b"old").unwrap();
    fs::write(place.at("new"), b"new").unwrap();
    let known = rustix::fs::open(place.at("old"), OFlags::PATH, Mode::empty()).unwrap();
    fs::rename(place.at("new"), place.at("old")).unwrap();
    fs::write(place.at("other"), b"other").unwrap();
    let status = rustix::fs::fstat(&known).unwrap();
    assert_eq!((status.st_nlink, status.st_size), (0, 3));
    assert_eq!(
        (fs::read(place.at("old")).unwrap(), fs::read(place.at("other")).unwrap()),
        (b"new".into(), b"other".into())
    );
    drop(known);
    place.unmount();
}

#[test]
fn a_number_that_the_kernel_knows_is_given_to_nobody_else() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::write(place.at("first"), b"first").unwrap();
    let known = rustix::fs::open(place.at("first"), OFlags::PATH, Mode::empty()).unwrap();
    let number = rustix::fs::fstat(&known).unwrap().st_ino;
    fs::remove_file(place.at("first")).unwrap();
    for count in 0..50 {
        fs::write(place.at(&format!("n{count}")), b"another").unwrap();
        assert_ne!(fs::metadata(place.at(&format!("n{count}"))).unwrap().ino(), number);
    }
    let seen = rustix::fs::statat(&known, "", AtFlags::EMPTY_PATH).unwrap();
    assert_eq!((seen.st_nlink, seen.st_size), (0, 5));
    drop(known);
    fs::create_dir(place.at("d")).unwrap();
    let inside = File::open(place.at("d")).unwrap();
    fs::remove_dir(place.at("d")).unwrap();
    assert_eq!(inside.metadata().unwrap().nlink(), 0);
    let made = rustix::fs::openat(&inside, "x", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU);
    assert_eq!(made.unwrap_err(), rustix::io::Errno::NOENT);
    drop(inside);
    place.unmount();
}

#[test]
fn a_mount_that_ends_while_files_without_names_are_open_leaves_a_clean_image() {
    let Some(place) = Mounted::new(64, "") else { return };
    let file = File::create(place.at("open")).unwrap();
    fs::remove_file(place.at("open")).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(place.process() as i32).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    place.wait_for_end();
    assert!((&file).write_all(b"x").is_err(), "the mount is gone");
    place.check();
}

#[test]
fn renames_replace_refuse_and_exchange() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let write = |name: &str| fs::write(place.at(name), name).unwrap();
    let content = |name: &str| fs::read_to_string(place.at(name)).unwrap();
    ["a", "b", "c"].into_iter().for_each(write);
    let held = File::open(place.at("b")).unwrap();
    fs::rename(place.at("a"), place.at("b")).unwrap();
    assert_eq!((content("b"), place.at("a").exists()), ("a".to_owned(), false));
    assert_eq!(std::io::read_to_string(held).unwrap(), "b");
    let rename = |from, to, flags| rustix::fs::renameat_with(CWD, place.at(from), CWD, place.at(to), flags);
    assert_eq!(rename("b", "c", RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename("b", "c", RenameFlags::EXCHANGE).unwrap();
    assert_eq!((content("b"), content("c")), ("c".to_owned(), "a".to_owned()));
    fs::create_dir_all(place.at("d/e")).unwrap();
    assert!(fs::rename(place.at("d"), place.at("d/e/f")).is_err(), "a directory into itself");
    fs::hard_link(place.at("b"), place.at("d/link")).unwrap();
    assert_eq!(fs::metadata(place.at("b")).unwrap().nlink(), 2);
    fs::remove_file(place.at("b")).unwrap();
    assert_eq!((content("d/link"), fs::metadata(place.at("d/link")).unwrap().nlink()), ("c".to_owned(), 1));
    place.unmount();
}

#[test]
fn a_name_that_was_absent_is_found_once_it_is_made() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    assert!(!place.at("x").exists());
    fs::write(place.at("x"), b"").unwrap();
    assert!(place.at("x").exists());
    fs::remove_file(place.at("x")).unwrap();
    assert!(!place.at("x").exists());
    fs::create_dir(place.at("x")).unwrap();
    assert!(place.at("x").is_dir());
    place.unmount();
}

#[test]
fn special_files_and_long_links_keep_what_they_are() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let device = rustix::fs::makedev(259, 300);
    rustix::fs::mknodat(CWD, place.at("block"), FileType::BlockDevice, Mode::RUSR, device).unwrap();
    rustix::fs::mknodat(CWD, place.at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
    let target = "t/".repeat(2000);
    symlink(&target, place.at("link")).unwrap();
    let seen = fs::symlink_metadata(place.at("block")).unwrap();
    assert!(seen.file_type().is_block_device() && seen.rdev() == device, "{seen:?}");
    assert!(fs::symlink_metadata(place.at("fifo")).unwrap().file_type().is_fifo());
    assert!(fs::symlink_metadata(place.at("socket")).unwrap().file_type().is_socket());
    assert_eq!(fs::read_link(place.at("link")).unwrap().to_str(), Some(&*target));
    drop(socket);
    place.unmount();
}

#[test]
fn a_large_directory_lists_every_name_once_while_others_come_and_go() {
    const NAMES: u32 = 3000;
    let Some(mut place) = Mounted::new(128, "") else { return };
    fs::create_dir(place.at("d")).unwrap();
    let name = |number: u32| place.at(&format!("d/{}-{number}", "n".repeat(30)));
    (0..NAMES).for_each(|number| fs::write(name(number), b"").unwrap());
    let mut seen = BTreeSet::new();
    for (turn, entry) in fs::read_dir(place.at("d")).unwrap().enumerate() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name()), "{:?} came twice", entry.file_name());
        if turn % 10 == 0 && turn < 1000 {
            fs::write(place.at(&format!("d/late-{turn}")), b"").unwrap();
            fs::remove_file(place.at(&format!("d/late-{turn}"))).unwrap();
        }
    }
    for number in 0..NAMES {
        assert!(seen.contains(name(number).file_name().unwrap()), "{number} is missing");
    }
    let listed = fs::read_dir(place.at("d")).unwrap().map(Result::unwrap);
    for entry in listed.step_by(97) {
        use std::os::unix::fs::DirEntryExt;
        assert_eq!(entry.ino(), entry.metadata().unwrap().ino());
    }
    (0..NAMES).for_each(|number| fs::remove_file(name(number)).unwrap());
    fs::remove_dir(place.at("d")).unwrap();
    place.unmount();
}

/// `take PATH` prints a file handle; `open HANDLE` prints the content of its file, or the error.
const HANDLES: &str = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [('length', ctypes.c_uint), ('kind', ctypes.c_int), ('bytes', ctypes.c_ubyte * 128)]
handle, mount = Handle(), ctypes.c_int()
if sys.argv[1] == 'take':
    handle.length = 128
    assert libc.name_to_handle_at(-100, sys.argv[2].encode(), ctypes.byref(handle), ctypes.byref(mount), 0) == 0
    print(handle.kind, bytes(handle.bytes[:handle.length]).hex())
else:
    taken = bytes.fromhex(sys.argv[3])
    handle.kind, handle.length = int(sys.argv[2]), len(taken)
    handle.bytes[:len(taken)] = taken
    fd = libc.open_by_handle_at(os.open('.', os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)
    print(os.read(fd, 100).decode() if fd >= 0 else errno.errorcode[ctypes.get_errno()])
";

/// As an NFS server uses them: handles of FUSE hold the inode's number and generation.
#[test]
fn file_handles_outlive_the_mount_and_open_only_what_has_a_name() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let call = |place: &Mounted, arguments: &[&str]| {
        let arguments = [&["-c", HANDLES][..], arguments].concat();
        text(&place.run("python3", &arguments).unwrap()).trim().to_owned()
    };
    place.shell("mkdir d; echo kept > d/kept; echo gone > gone");
    let (kept, gone) = (call(&place, &["take", "d/kept"]), call(&place, &["take", "gone"]));
    fs::remove_file(place.at("gone")).unwrap();
    place.unmount();
    place = place.mounted("").unwrap();
    let open = |handle: &str| call(&place, &[&["open"], &*handle.split(' ').collect::<Vec<_>>()].concat());
    assert_eq!(open(&kept), "kept");
    assert_eq!(open(&gone), "ESTALE");
    // The log is inode 8.
    let (kind, bytes) = kept.split_once(' ').unwrap();
    let log = format!("{kind} {}08000000{}", &bytes[..8], "0".repeat(bytes.len() - 16));
    assert_eq!(open(&log), "ESTALE");
    place.shell("echo other > other");
    assert_eq!(open(&gone), "ESTALE", "the number may be another file's now");
    place.unmount();
}

/// The kernel counts a lookup of each entry that it got from a listing. One more on our side, and the inode stays for
/// ever, though it has no name.
#[test]
fn files_that_were_listed_give_their_inodes_back() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let free = |place: &Mounted| rustix::fs::statvfs(place.at("")).unwrap().f_ffree;
    let before = free(&place);
    fs::create_dir(place.at("d")).unwrap();
    let names = 3000;
    for number in 0..names {
        File::create(place.at(&format!("d/a name of some length, number {number}"))).unwrap();
    }
    // The first listing after the kernel forgot the names comes with attributes.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    assert_eq!(place.shell("ls -l d | wc -l").trim(), (names + 1).to_string());
    let listed = &place.stats()["requests"]["readdirplus"]["count"];
    assert!(listed.as_u64().is_some_and(|count| count > 3), "{listed} listings with attributes");
    fs::remove_dir_all(place.at("d")).unwrap();
    let is_free = (0..500).any(|_| {
        crate::support::pause(20);
        free(&place) == before
    });
    assert!(is_free, "{} of {before} inodes are free", free(&place));
    place.unmount();
}
