//! Guest: what this program does inside a machine. Its commands are the words of `ONEWRITE_GUEST`.
//!
//! | command | what |
//! |---|---|
//! | `populate ROOT` | makes a tree of many kinds (`populate.rs`) |
//! | `play ROOT PLAN… [DEVICE]` | carries a plan out; says on the last page of the device how many steps are done |
//! | `judge ROOT PLAN… DONE` | judges what a power cut left of it |
//! | `list ROOT` | tells the listing |
//! | `overwrite ROOT EVERY COUNT` | the job of `parity.rs` |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::disk::PAGE;
use crate::listing::listing;
use crate::parity::overwrite;
use crate::populate::populate;
use crate::work::{Attributes, Plan, judge, play, steps};

/// Linux's O_DIRECT on x86.
const DIRECT: i32 = 0o40000;

#[test]
#[ignore = "the part of the cases that runs in a machine"]
fn inside() {
    let Ok(words) = std::env::var("ONEWRITE_GUEST") else { return };
    let words: Vec<&str> = words.split_whitespace().collect();
    match words[..] {
        ["populate", root] => populate(Path::new(root)),
        ["play", root, ref plan @ .., device] if device.starts_with('/') => {
            let line = Line::open(device);
            play(Path::new(root), &steps(Plan::of_words(plan)), |done| line.say(done as u64));
        }
        ["play", root, ref plan @ ..] => play(Path::new(root), &steps(Plan::of_words(plan)), |_| ()),
        ["judge", root, ref plan @ .., done] => {
            let steps = steps(Plan::of_words(plan));
            let done: usize = done.parse().unwrap();
            tell(&match judge(Path::new(root), &steps, done, Attributes::Shown) {
                Ok(()) => vec!["sound".to_owned()],
                Err(problem) => vec![problem],
            });
        }
        ["list", root] => tell(&listing(Path::new(root))),
        ["overwrite", root, every, count] => {
            overwrite(Path::new(root), every.parse().unwrap(), count.parse().unwrap());
        }
        ref other => panic!("no command: {other:?}"),
    }
}

/// Tells lines to the script, which passes them on to the host.
fn tell(lines: &[String]) {
    let told = std::env::var("ONEWRITE_TOLD").expect("a file");
    std::fs::write(told, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// The line to whoever records the disk: its last page, which no file system has.
struct Line {
    disk: File,
    offset: u64,
}

impl Line {
    fn open(device: &str) -> Line {
        let disk = OpenOptions::new().read(true).write(true).custom_flags(DIRECT).open(device).unwrap();
        let length = rustix::fs::seek(&disk, rustix::fs::SeekFrom::End(0)).unwrap();
        Line { disk, offset: length - PAGE as u64 }
    }

    /// Says a number past all caches: it is in the recording when this returns.
    fn say(&self, number: u64) {
        let mut room = vec![0; 2 * PAGE];
        let start = room.as_ptr().align_offset(PAGE);
        room[start..start + 8].copy_from_slice(&number.to_le_bytes());
        self.write(&room[start..start + PAGE]).unwrap_or_else(|error| panic!("the line: {error}"));
    }

    fn write(&self, page: &[u8]) -> io::Result<()> {
        self.disk.write_all_at(page, self.offset)
    }
}
