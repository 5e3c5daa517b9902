//! Owners: permissions, privileges, access control lists, attributes and times.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::support::{Mounted, text};

fn mode(place: &Mounted, name: &str) -> u32 {
    fs::symlink_metadata(place.at(name)).unwrap().mode() & 0o7777
}

/// An access control list from entries of tag, permissions and user or group id.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let entry = |&(tag, permissions, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
}

const NOBODY: u32 = u32::MAX;

#[test]
fn other_users_are_let_in_only_if_asked_and_only_as_permissions_say() {
    for (options, may_list) in [("", false), ("allow_other", true)] {
        let Some(mut place) = Mounted::new(64, options) else { return };
        fs::set_permissions(place.beside(""), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(place.at(""), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(place.at("mine"), b"secret").unwrap();
        fs::set_permissions(place.at("mine"), fs::Permissions::from_mode(0o600)).unwrap();
        let root = place.at("");
        let as_nobody = |line: &str| {
            let line = format!("cd {} && {line}", root.display());
            let tried = std::process::Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", &line])
                .current_dir("/")
                .output();
            tried.expect("setpriv of util-linux").status.success()
        };
        assert_eq!(as_nobody("ls"), may_list, "{options}");
        assert!(!as_nobody("cat mine") && !as_nobody("rm mine"), "{options}");
        assert_eq!(as_nobody("echo a > theirs"), may_list);
        if may_list {
            assert_eq!(fs::metadata(place.at("theirs")).unwrap().uid(), 65_534);
            // Nobody may not enter every directory that the program may have been built in.
            fs::copy(env!("CARGO_BIN_EXE_onewrite"), place.beside("program")).unwrap();
            assert!(as_nobody("../program --version"), "nobody can run the program");
            assert!(!as_nobody("../program stats ."), "statistics are their owner's");
        }
        place.unmount();
    }
}

#[test]
fn privileges_go_when_owner_or_content_change() {
    let Some(mut place) = Mounted::new(64, "allow_other") else { return };
    fs::set_permissions(place.beside(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = |name: &str| {
        fs::write(place.at(name), b"program").unwrap();
        fs::set_permissions(place.at(name), fs::Permissions::from_mode(0o6777)).unwrap();
    };
    program("a");
    chown(place.at("a"), Some(1000), None).unwrap();
    assert_eq!(mode(&place, "a"), 0o777);
    // So it is with what is no file; a directory keeps its bits.
    place.shell("mkfifo pipe; mknod null c 1 3; mkdir dir; chmod 6777 pipe null dir; chown 1000 pipe null dir");
    assert_eq!(["pipe", "null", "dir"].map(|name| mode(&place, name)), [0o777, 0o777, 0o6777]);
    for (name, line) in [
        ("b", "echo x >> b"),
        ("c", "truncate -s 3 c"),
        ("d", "echo y > d"),
        ("i", "fallocate -l 9000 i"),
        ("j", "fallocate -p -o 0 -l 4 j"),
    ] {
        program(name);
        assert_eq!(mode(&place, name), 0o6777, "the kernel knows it now");
        place.shell(&format!("setpriv --reuid=65534 --regid=65534 --clear-groups sh -ec '{line}'"));
        assert_eq!(mode(&place, name), 0o777, "{line}");
    }
    // A file that creat(2) makes has nothing to lose.
    let creat = "use Fcntl; umask 0; sysopen(my $file, 'k', O_CREAT | O_TRUNC | O_WRONLY, 06755) or die $!";
    place.shell("chmod 1777 .");
    place.shell(&format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups perl -e \"{}\"",
        creat.replace('$', "\\$")
    ));
    assert_eq!(mode(&place, "k"), 0o6755);
    for (name, mode_before, after) in [("f", 0o6644, 0o2644), ("g", 0o6755, 0o755), ("h", 0o2644, 0o2644)] {
        program(name);
        place.shell(&format!("chown 65534:65534 {name}; chmod {mode_before:o} {name}; stat {name}"));
        place.shell(&format!("setpriv --reuid=65534 --regid=65534 --clear-groups sh -ec 'echo x >> {name}'"));
        assert_eq!(mode(&place, name), after, "what its owner wrote, {mode_before:o}");
    }
    program("e");
    place.shell("echo x >> e; truncate -s 3 e");
    assert_eq!(mode(&place, "e"), 0o6777, "root keeps them");
    // A file capability of version 2 that grants no privilege.
    let capability = [0_u8, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    setxattr(place.at("e"), "security.capability", &capability, XattrFlags::empty()).unwrap();
    place.shell("echo x >> e");
    let gone = getxattr(place.at("e"), "security.capability", &mut [0_u8; 64][..]);
    assert_eq!(gone, Err(Errno::NODATA));
    place.unmount();
}

#[test]
fn what_is_made_in_a_directory_of_a_group_is_the_groups() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::create_dir(place.at("d")).unwrap();
    chown(place.at("d"), None, Some(1234)).unwrap();
    fs::set_permissions(place.at("d"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::write(place.at("d/f"), b"").unwrap();
    fs::create_dir(place.at("d/e")).unwrap();
    std::os::unix::fs::symlink("f", place.at("d/l")).unwrap();
    for name in ["d/f", "d/e", "d/l"] {
        assert_eq!(fs::symlink_metadata(place.at(name)).unwrap().gid(), 1234, "{name}");
    }
    assert_eq!(mode(&place, "d/e") & 0o2000, 0o2000);
    place.unmount();
}

#[test]
fn access_control_lists_are_inherited_and_go_with_the_mode() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let default = acl(&[(1, 7, NOBODY), (2, 7, 1000), (4, 0, NOBODY), (16, 7, NOBODY), (32, 5, NOBODY)]);
    let access = |name: &str| {
        let mut value = [0; 256];
        getxattr(place.at(name), "system.posix_acl_access", &mut value[..]).map(|length| value[..length].to_vec())
    };
    fs::create_dir(place.at("d")).unwrap();
    setxattr(place.at("d"), "system.posix_acl_default", &default, XattrFlags::empty()).unwrap();
    File::create(place.at("d/f")).unwrap();
    let inherited = acl(&[(1, 6, NOBODY), (2, 7, 1000), (4, 0, NOBODY), (16, 6, NOBODY), (32, 4, NOBODY)]);
    assert_eq!((mode(&place, "d/f"), access("d/f").unwrap()), (0o664, inherited));
    fs::create_dir(place.at("d/e")).unwrap();
    let mut value = [0; 256];
    let length = getxattr(place.at("d/e"), "system.posix_acl_default", &mut value[..]).unwrap();
    assert_eq!(value[..length], default);
    fs::set_permissions(place.at("d/f"), fs::Permissions::from_mode(0o640)).unwrap();
    let masked = acl(&[(1, 6, NOBODY), (2, 7, 1000), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY)]);
    assert_eq!(access("d/f").unwrap(), masked);
    let minimal = acl(&[(1, 7, NOBODY), (4, 5, NOBODY), (32, 0, NOBODY)]);
    setxattr(place.at("d/f"), "system.posix_acl_access", &minimal, XattrFlags::empty()).unwrap();
    assert_eq!((mode(&place, "d/f"), access("d/f")), (0o750, Err(Errno::NODATA)));
    place.unmount();
}

#[test]
fn extended_attributes_come_back_and_errors_are_linuxs() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::write(place.at("f"), b"").unwrap();
    let path = place.at("f");
    setxattr(&path, "user.one", &[1; 1000], XattrFlags::CREATE).unwrap();
    assert_eq!(setxattr(&path, "user.one", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&path, "user.two", b"", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(getxattr(&path, "user.one", &mut [0_u8; 10][..]), Err(Errno::RANGE));
    let mut names = [0_u8; 64];
    let length = listxattr(&path, &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.one\0");
    removexattr(&path, "user.one").unwrap();
    assert_eq!(removexattr(&path, "user.one"), Err(Errno::NODATA));
    assert_eq!(setxattr(&path, "user.huge", &[1; 60_000], XattrFlags::empty()), Err(Errno::NOSPC));
    place.unmount();
}

#[test]
fn times_before_1970_and_after_2038_are_kept() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::write(place.at("f"), b"").unwrap();
    for stamp in ["1969-12-31 23:59:58.25", "1910-01-01 00:00:00.000000001", "2038-01-20 00:00:00.5", "2400-06-01"] {
        let shown = place.shell(&format!("TZ=UTC touch -d '{stamp}' f; TZ=UTC stat -c %y f"));
        assert!(shown.starts_with(stamp), "{stamp} became {shown}");
    }
    let before = place.shell("stat -c %y f");
    place.unmount();
    place = place.mounted("").unwrap();
    assert_eq!(place.shell("stat -c %y f"), before);
    text(&place.run("true", &[]).unwrap());
    place.unmount();
}
