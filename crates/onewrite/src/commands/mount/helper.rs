//! Helper: the names under which mount(8) and umount(8) call this program, and the arguments that they pass.
//!
//! ```text
//!   mount.fuse.onewrite IMAGE DIR [-sfnv] [-o OPTIONS] [-t TYPE] [-N NAMESPACE]
//!   umount.fuse.onewrite DIR [-flnrv] [-t TYPE] [-N NAMESPACE]
//! ```

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the program was called as.
#[derive(Debug, PartialEq)]
pub enum Called {
    /// By its own name.
    Itself,
    /// As a helper, with these arguments of its own command line instead.
    Helper(Vec<OsString>),
    /// To pretend a mount (`mount --fake`).
    Fake,
}

/// Reads the program's name and arguments.
pub fn called_as(arguments: &[OsString]) -> Called {
    let name = arguments.first().and_then(|name| Path::new(name).file_name()).and_then(OsStr::to_str);
    match name {
        Some("mount.fuse.onewrite" | "mount.onewrite") => mount(&arguments[1..]),
        Some("umount.fuse.onewrite" | "umount.onewrite") => umount(&arguments[1..]),
        _ => Called::Itself,
    }
}

fn mount(arguments: &[OsString]) -> Called {
    let (letters, rest) = split(arguments);
    if letters.contains(&b'f') {
        return Called::Fake;
    }
    let sloppy: &[&str] = if letters.contains(&b's') { &["-o", "sloppy"] } else { &[] };
    // mount(8) does not pass on what it takes as the default of every mount.
    let defaults: &[&str] = if rustix::process::geteuid().is_root() { &["-o", "dev,suid"] } else { &[] };
    Called::Helper(["onewrite", "mount"].iter().chain(defaults).chain(sloppy).map(OsString::from).chain(rest).collect())
}

fn umount(arguments: &[OsString]) -> Called {
    let (letters, rest) = split(arguments);
    let lazy: &[&str] = if letters.contains(&b'l') { &["--lazy"] } else { &[] };
    Called::Helper(["onewrite", "umount"].iter().chain(lazy).map(OsString::from).chain(rest).collect())
}

/// Splits the letters of options without a value from the rest; drops `-t` and `-N`, which say what is known.
fn split(arguments: &[OsString]) -> (Vec<u8>, Vec<OsString>) {
    let (mut letters, mut rest) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_encoded_bytes() {
            b"-t" | b"-N" => drop(arguments.next()),
            b"-o" => rest.extend(std::iter::once(argument).chain(arguments.next()).cloned()),
            [b'-', flags @ ..] if !flags.is_empty() && flags.iter().all(|flag| b"sfnvlr".contains(flag)) => {
                letters.extend_from_slice(flags);
            }
            _ => rest.push(argument.clone()),
        }
    }
    (letters, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &str) -> Called {
        called_as(&words.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    fn helper(words: &str) -> Called {
        Called::Helper(words.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_helpers_of_mount_and_umount_are_understood() {
        let mount = "/sbin/mount.fuse.onewrite a.img /mnt";
        let ours = if rustix::process::geteuid().is_root() { "onewrite mount -o dev,suid" } else { "onewrite mount" };
        let helps = |rest: &str| helper(&format!("{ours} {rest}"));
        assert_eq!(called(&format!("{mount} -n -o rw,data=ordered")), helps("a.img /mnt -o rw,data=ordered"));
        assert_eq!(called(&format!("{mount} -v -t fuse.onewrite -o rw")), helps("a.img /mnt -o rw"));
        assert_eq!(called(&format!("{mount} -sn")), helps("-o sloppy a.img /mnt"));
        assert_eq!(called(&format!("{mount} -sfnv -o rw")), Called::Fake);
        assert_eq!(called("umount.fuse.onewrite /mnt -lv"), helper("onewrite umount --lazy /mnt"));
        assert_eq!(called("onewrite mount a.img /mnt"), Called::Itself);
    }
}
