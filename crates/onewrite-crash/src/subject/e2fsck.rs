//! e2fsck: a foreign checker examines some of the states.

use std::io;

use onewrite_block::Image;

use super::saved::{Saved, tool};
use crate::error::CrashError;

/// What `e2fsck` finds wrong with an unmounted image.
///
/// # Errors
/// If `e2fsck` cannot be run.
pub(super) fn finding(image: &Image) -> Result<Option<String>, CrashError> {
    check(image).map_err(|error| CrashError::Tool { tool: "e2fsck", reason: error.to_string() })
}

fn check(image: &Image) -> io::Result<Option<String>> {
    let saved = Saved::new(image)?;
    let output = tool("e2fsck").arg("-fn").arg(saved.path()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((!output.status.success()).then(|| format!("e2fsck: {said}")))
}
