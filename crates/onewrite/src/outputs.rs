//! Outputs: checks the files that a command will make, before it begins to work.
//!
//! A mistake must lose nothing. So no output is an input or another output, and none replaces an image without
//! permission. A place where no file can be made is reported before the work whose results it would hold.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_device::{Access, Hold};
use onewrite_lab::session::held_in;
use onewrite_lab::{Partial, is_same_file};

use crate::output::is_stdout;

/// The outputs of a command.
#[derive(Default)]
pub struct Outputs<'a> {
    /// JSON output; `-` is standard output.
    pub json: Option<&'a PathBuf>,
    /// Reports, charts and traces.
    pub files: Vec<&'a PathBuf>,
    /// Images; they replace existing files only if `force` is set.
    pub images: Vec<&'a PathBuf>,
    /// Whether to replace existing images.
    pub force: bool,
}

impl Outputs<'_> {
    /// Refuses outputs that cannot or must not be made by a command that reads `inputs`.
    pub fn check(&self, inputs: &[&Path]) -> anyhow::Result<()> {
        let json = self.json.filter(|path| !is_stdout(path));
        let files = || json.iter().copied().chain(self.files.iter().copied());
        let all: Vec<&PathBuf> = files().chain(self.images.iter().copied()).collect();
        for (index, path) in all.iter().enumerate() {
            let shown = path.display();
            if is_stdout(path) {
                bail!("`-` stands for standard output with --json alone; ./- is a file of that name");
            }
            can_be_made(path)?;
            if inputs.iter().any(|input| is_same(input, path)) {
                bail!("{shown}: the command reads it, and would write over it; name another file");
            }
            if all[..index].iter().any(|other| is_same(other, path)) {
                bail!("{shown} is to hold two outputs; give each a file of its own");
            }
        }
        files().try_for_each(|path| holds_no_image(path))?;
        self.images.iter().filter(|_| !self.force).try_for_each(|path| is_new_image(path))
    }
}

/// Refuses a place where no file can be made.
fn can_be_made(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent
        && !parent.is_dir()
    {
        bail!("{shown}: there is no directory {}; make it first", parent.display());
    }
    if path.is_dir() {
        bail!("{shown}: it is a directory; name a file in it");
    }
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
        bail!("{shown}: it is a disk; name a file");
    }
    if path.is_file()
        && let Err(busy @ onewrite_device::Error::Busy { .. }) = Hold::take(path, Access::Alone)
    {
        return Err(busy.into());
    }
    Partial::may_create(path).with_context(|| format!("cannot write {shown}"))
}

fn holds_no_image(path: &Path) -> anyhow::Result<()> {
    match held_in(path) {
        Some(held) => bail!("{}: it holds {held}; name another file, or remove it first", path.display()),
        None => Ok(()),
    }
}

fn is_new_image(path: &Path) -> anyhow::Result<()> {
    let is_blank = std::fs::metadata(path).map_or(true, |found| found.len() == 0);
    if is_blank {
        return Ok(());
    }
    let held = held_in(path).unwrap_or("something");
    bail!("{}: it holds {held} already; --force replaces it", path.display())
}

/// Whether two paths lead, or would lead, to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| -> Option<(PathBuf, OsString)> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((parent.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    is_same_file(one, other) || place(one).is_some_and(|one| place(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_each_of_its_names_there_or_not() {
        let directory = std::env::temp_dir().join(format!("onewrite-outputs-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("deep")).unwrap();
        let (a, also_a) = (directory.join("a"), directory.join("deep/../a"));
        assert!(is_same(&a, &also_a) && !is_same(&a, &directory.join("b")));
        std::fs::write(&a, "a").unwrap();
        std::fs::hard_link(&a, directory.join("b")).unwrap();
        assert!(is_same(&a, &directory.join("b")) && !is_same(&a, &directory.join("deep/a")));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
