//! Names: what every file system asks of names and link targets.

use crate::api::{FsError, FsResult};

/// Bytes of the longest name.
const LENGTH_MAX: usize = 255;
/// Bytes of the longest link target: a page with a zero byte at its end.
const TARGET_LENGTH_MAX: usize = 4095;

/// A name for people.
pub(crate) fn display(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// # Errors
/// If no directory can get an entry of this name.
pub(crate) fn check_name(name: &[u8]) -> FsResult<()> {
    match name {
        _ if name.len() > LENGTH_MAX => Err(FsError::NameTooLong(name.len())),
        b"" => Err(FsError::Invalid("an empty name".into())),
        b"." | b".." => Err(FsError::Exists(display(name))),
        _ if name.contains(&b'/') || name.contains(&0) => {
            Err(FsError::Invalid(format!("name {:?} holds a slash or zero byte", display(name))))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// If no symbolic link can have the target.
pub(crate) fn check_link_target(target: &[u8]) -> FsResult<()> {
    match target.len() {
        1..=TARGET_LENGTH_MAX if target.contains(&0) => {
            Err(FsError::Invalid("a link target with a zero byte; programs would see the part before it".into()))
        }
        1..=TARGET_LENGTH_MAX => Ok(()),
        length => {
            Err(FsError::Invalid(format!("a link target of {length} bytes; 1 to {TARGET_LENGTH_MAX} are possible")))
        }
    }
}

/// # Errors
/// If a name stands for the directory itself or its parent, which cannot be `done`: "removed", "renamed".
pub(crate) fn refuse_dots(name: &[u8], done: &str) -> FsResult<()> {
    match name {
        b"." | b".." => Err(FsError::Invalid(format!("`{}` cannot be {done}", display(name)))),
        _ => Ok(()),
    }
}
