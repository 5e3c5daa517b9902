//! Partial: a file that is being written, removed again unless it became whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A regular file that goes when this goes, unless [`Partial::keep`] was called: what broke off does not pass for whole.
/// Pipes, devices and links stay.
#[derive(Debug)]
#[must_use]
pub struct Partial {
    path: PathBuf,
    is_whole: bool,
}

impl Partial {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> io::Result<(File, Partial)> {
        Ok((File::create(path)?, Partial { path: path.to_owned(), is_whole: false }))
    }

    /// The file is whole, and stays.
    pub fn keep(mut self) {
        self.is_whole = true;
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let is_file = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        if !self.is_whole && is_file(&self.path) {
            // It may not be removable either; the error that broke it off is told.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether two names lead to one regular file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("onewrite-partial-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_was_not_kept_is_gone() {
        let path = place("gone");
        let (_, partial) = Partial::create(&path).unwrap();
        assert!(path.exists());
        drop(partial);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_kept_stays_and_a_link_to_it_is_the_same_file() {
        let (path, link) = (place("kept"), place("link"));
        Partial::create(&path).unwrap().1.keep();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(is_same_file(&path, &link) && !is_same_file(&path, &place("none")));
        drop(Partial::create(&link).unwrap());
        assert!(path.exists() && link.exists());
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
