//! Partial files: a file gets its name only when it is complete.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use onewrite_lab::{Partial, is_same_file};

use crate::support::{Scratch, names};

#[test]
fn what_was_not_kept_is_gone_and_never_had_its_name() {
    let scratch = Scratch::new();
    let (_, partial) = Partial::create(&scratch.path("a")).unwrap();
    assert_eq!(names(&scratch), [format!(".a.onewrite-{}", std::process::id())]);
    drop(partial);
    assert!(names(&scratch).is_empty());
}

#[test]
fn what_is_replaced_stays_whole_until_then_and_keeps_its_permissions() {
    let scratch = Scratch::new();
    let path = scratch.path("a");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let (mut file, partial) = Partial::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    partial.keep().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_eq!(names(&scratch), ["a"]);
}

#[test]
fn a_link_is_followed_and_stays() {
    let scratch = Scratch::new();
    let (path, link) = (scratch.path("kept"), scratch.path("link"));
    Partial::create(&path).unwrap().1.keep().unwrap();
    std::os::unix::fs::symlink("kept", &link).unwrap();
    assert!(is_same_file(&path, &link) && !is_same_file(&path, &scratch.path("none")));
    drop(Partial::create(&link).unwrap());
    assert_eq!(names(&scratch), ["kept", "link"]);
    let (mut file, partial) = Partial::create(&link).unwrap();
    file.write_all(b"new").unwrap();
    partial.keep().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert!(link.is_symlink());
}

#[test]
fn a_name_that_was_taken_meanwhile_is_not_taken_away() {
    let scratch = Scratch::new();
    let (_, partial) = Partial::create(&scratch.path("a")).unwrap();
    std::fs::write(scratch.path("a"), "theirs").unwrap();
    assert_eq!(partial.keep_new().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(scratch.path("a")).unwrap(), b"theirs");
    assert_eq!(names(&scratch), ["a"]);
}

#[test]
fn pipes_and_what_the_kernel_makes_up_are_written_straight_through() {
    let scratch = Scratch::new();
    let held = File::create(scratch.path("a")).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&held);
    let (mut file, partial) = Partial::create(Path::new(&format!("/proc/self/fd/{descriptor}"))).unwrap();
    file.write_all(b"through").unwrap();
    partial.keep().unwrap();
    assert_eq!(std::fs::read(scratch.path("a")).unwrap(), b"through");
    let (_, partial) = Partial::create(Path::new("/dev/null")).unwrap();
    assert_eq!(partial.path(), Path::new("/dev/null"));
}

#[test]
fn long_names_fit() {
    let scratch = Scratch::new();
    let path = scratch.path(&"n".repeat(255));
    Partial::create(&path).unwrap().1.keep_new().unwrap();
    assert!(path.exists());
}
