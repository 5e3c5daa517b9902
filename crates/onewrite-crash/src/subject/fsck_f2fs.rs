//! fsck.f2fs: a foreign checker examines some of the states.

use std::io;

use onewrite_block::Image;

use super::saved::{Saved, tool};
use crate::error::CrashError;

/// What `fsck.f2fs` finds wrong with an unmounted image. It ends with 0 whatever it finds, and says so in its lines.
///
/// # Errors
/// If `fsck.f2fs` cannot be run.
pub(super) fn finding(image: &Image) -> Result<Option<String>, CrashError> {
    check(image).map_err(|error| CrashError::Tool { tool: "fsck.f2fs", reason: error.to_string() })
}

fn check(image: &Image) -> io::Result<Option<String>> {
    let saved = Saved::new(image)?;
    let output = tool("fsck.f2fs").arg("--dry-run").arg(saved.path()).output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let wrong: Vec<&str> = said.lines().filter(|line| line.contains("[Fail]") || line.contains("[ASSERT]")).collect();
    Ok(match (output.status.success(), wrong.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("fsck.f2fs: {}", wrong.join("; "))),
        (false, _) => Some(format!("fsck.f2fs: {}; {said}", output.status)),
    })
}
