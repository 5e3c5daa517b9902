//! The verdict of a check, of whichever file system: as JSON and in words.

use onewrite_fs::journal::Recovered;

use crate::open::{Changes, replayed};

/// Exit code of fsck(8) for errors that are left.
pub const ERRORS_LEFT: u8 = 4;

/// What a check found, in words.
#[derive(Debug, Default)]
pub struct Verdict {
    pub recovered: Option<Recovered>,
    /// What was written to repair the image.
    pub repaired: Vec<String>,
    /// What harms nothing.
    pub notes: Vec<String>,
    /// The first errors.
    pub findings: Vec<String>,
    /// Number of all errors.
    pub errors: u64,
    pub used_inodes: u64,
    pub used_blocks: u64,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }

    /// As JSON; docs/results-json.md describes it.
    pub fn json(&self, name: &str) -> anyhow::Result<String> {
        let value = serde_json::json!({
            "image": name,
            "clean": self.is_clean(),
            "recovered": self.recovered,
            "errors": self.errors,
            "findings": self.findings,
            "notes": self.notes,
            "repaired": self.repaired,
            "used_inodes": self.used_inodes,
            "used_blocks": self.used_blocks,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }

    /// Prints it for people; `cure` is the advice for errors, `None` where no advice is possible.
    pub fn say(&self, name: &str, changes: Changes, cure: Option<&str>) {
        if let Some(recovered) = &self.recovered {
            outln!("{name}: {}", replayed(recovered, changes));
        }
        self.notes.iter().for_each(|note| outln!("{name}: {note} (no error)"));
        self.findings.iter().for_each(|finding| outln!("{name}: {finding}"));
        let unkept = self.errors - self.findings.len() as u64;
        if unkept > 0 {
            outln!("{name}: and {unkept} more");
        }
        if self.is_clean() {
            outln!("{name}: clean, {} inodes and {} blocks in use", self.used_inodes, self.used_blocks);
        } else if let Some(cure) = cure {
            let plural = if self.errors == 1 { "" } else { "s" };
            outln!("{name}: {} error{plural}; {cure}", self.errors);
        }
    }
}

/// The texts of `all`.
pub fn words<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
