//! Play: carries steps out on a directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, XattrFlags, fallocate, setxattr};

use super::{Step, content};

/// Carries out all steps; calls `done` with the number of those that are done after each.
pub fn play(root: &Path, steps: &[Step], mut done: impl FnMut(usize)) {
    let mut player = Player { root: root.to_owned(), held: None };
    for (index, step) in steps.iter().enumerate() {
        player.step(step).unwrap_or_else(|error| panic!("step {index}, {step:?}: {error}"));
        done(index + 1);
    }
}

/// Carries steps out.
struct Player {
    root: PathBuf,
    /// A file without a name.
    held: Option<File>,
}

impl Player {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        let at = |name: &str| self.root.join(name);
        match step {
            Step::Create { name, .. } => File::create_new(at(name)).map(drop),
            Step::Directory { name, .. } => fs::create_dir(at(name)),
            Step::Symlink { name, target, .. } => symlink(target, at(name)),
            Step::Write { name, offset, length, tag, .. } => {
                self.open(name)?.write_all_at(&content(*tag, *offset, *length), *offset)
            }
            Step::Truncate { name, size, .. } => self.open(name)?.set_len(*size),
            Step::Punch { name, offset, length, .. } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(fallocate(self.open(name)?, flags, *offset, *length)?)
            }
            Step::Attribute { name, length, tag, .. } => {
                Ok(setxattr(at(name), "user.a", &content(*tag, 0, *length), XattrFlags::empty())?)
            }
            Step::Rename { from, to, .. } => fs::rename(at(from), at(to)),
            Step::Link { from, to, .. } => fs::hard_link(at(from), at(to)),
            Step::Unlink { name, holds, .. } => self.unlink(name, *holds),
            Step::Fsync { name, .. } => self.open(name)?.sync_all(),
            Step::SyncNames { name, .. } => {
                File::create_new(at(name))?;
                File::open(&self.root)?.sync_all()
            }
            Step::Sync => Ok(rustix::fs::syncfs(File::open(&self.root)?)?),
        }
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.root.join(name))
    }

    fn unlink(&mut self, name: &str, holds: bool) -> io::Result<()> {
        let file = self.open(name)?;
        fs::remove_file(self.root.join(name))?;
        if holds {
            file.write_all_at(&[7; 9_000], 100)?;
            self.held = Some(file);
        }
        Ok(())
    }
}
