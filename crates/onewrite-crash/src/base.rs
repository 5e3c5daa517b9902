//! Base: an image that another program made, with which every workload begins.

use std::fmt;
use std::io::{Read, Seek};

use onewrite_block::{Image, Lpn, PAGE_SIZE, Page};

use crate::error::CrashError;
use crate::subject::saved::{Saved, tool};

/// See the module's head.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseImage {
    command: String,
    bytes: Vec<u8>,
}

impl fmt::Debug for BaseImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes by `{}`", self.bytes.len(), self.command)
    }
}

impl BaseImage {
    /// Runs `command` by the shell. It finds the path of a file of `size_bytes` zeros in the variable `IMAGE`.
    ///
    /// # Errors
    /// [`CrashError::Image`] if it fails, or leaves a file of another size.
    pub fn made_by(command: &str, size_bytes: u64) -> Result<BaseImage, CrashError> {
        let wrong = |what: String| CrashError::Image(format!("`{command}` {what}"));
        let failed = |error: std::io::Error| wrong(format!("cannot be run: {error}"));
        let mut saved = Saved::new(&Image::new(size_bytes / PAGE_SIZE as u64)).map_err(failed)?;
        let output = tool("sh").args(["-c", command]).env("IMAGE", saved.path()).output().map_err(failed)?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let last = said.trim().lines().last().unwrap_or("it said nothing");
            return Err(wrong(format!("ended with {}: {last}", output.status)));
        }
        let (mut bytes, file) = (Vec::new(), saved.file());
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(failed)?;
        match bytes.len() as u64 == size_bytes {
            true => Ok(BaseImage { command: command.to_owned(), bytes }),
            false => {
                Err(wrong(format!("left {} bytes in $IMAGE, not {size_bytes}; --size says how many", bytes.len())))
            }
        }
    }

    /// The command that made it.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// What it made.
    pub(crate) fn image(&self) -> Image {
        let mut image = Image::new(self.bytes.len() as u64 / PAGE_SIZE as u64);
        for (lpn, bytes) in (0..).map(Lpn).zip(self.bytes.as_chunks().0) {
            image.set(lpn, if *bytes == [0; PAGE_SIZE] { Page::ZEROS } else { Page::new(*bytes) });
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_changes_the_size_is_told_of() {
        let error = |command| BaseImage::made_by(command, 8192).expect_err(command).to_string();
        assert!(error("echo no disk >&2; exit 3").contains("exit status: 3: no disk"));
        assert!(error("truncate -s 100 $IMAGE").contains("left 100 bytes in $IMAGE, not 8192"));
        assert!(BaseImage::made_by("printf hello > $IMAGE; truncate -s 8192 $IMAGE", 8192).is_ok());
    }
}
