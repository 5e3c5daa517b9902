//! Action: which event of a request a trace of the block layer takes.

use std::str::FromStr;

/// The event of a request that a record of the block layer notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Q: the request was queued.
    #[default]
    Queued,
    /// D: the request was given to the driver.
    Issued,
    /// C: the request was completed.
    Completed,
}

impl Action {
    /// The action's letter in blkparse's output.
    pub(super) const fn letter(self) -> u8 {
        match self {
            Action::Queued => b'Q',
            Action::Issued => b'D',
            Action::Completed => b'C',
        }
    }

    /// The action's number in blktrace's records.
    pub(super) const fn number(self) -> u32 {
        match self {
            Action::Queued => 1,
            Action::Issued => 7,
            Action::Completed => 8,
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Action, String> {
        match text {
            "Q" | "q" => Ok(Action::Queued),
            "D" | "d" => Ok(Action::Issued),
            "C" | "c" => Ok(Action::Completed),
            _ => Err(format!("`{text}` is no action; take Q (queued), D (issued) or C (completed)")),
        }
    }
}
