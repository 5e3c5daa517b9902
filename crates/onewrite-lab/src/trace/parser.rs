//! Parser: what every trace format with lines does.

use super::field::Problem;
use super::record::Record;

/// Parses one line at a time.
pub(super) trait Parser {
    /// The record of a non-empty line; none for permitted lines without a record.
    fn line(&mut self, line: &[u8], number: u64) -> Result<Option<Record>, Problem>;
}
