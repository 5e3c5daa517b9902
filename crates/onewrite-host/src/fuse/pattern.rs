//! Pattern: names of files, as a mount option gives them.

use std::str::FromStr;

/// A pattern of names: `*`, `?`, `[abc]`. Bytes that are no UTF-8 are any letter.
#[derive(Clone, Debug)]
pub struct NamePattern(glob::Pattern);

impl NamePattern {
    pub(super) fn fits(&self, name: &[u8]) -> bool {
        self.0.matches(&String::from_utf8_lossy(name))
    }
}

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<NamePattern, String> {
        let refusal = |why: &str| format!("`{text}` is no pattern of names ({why}); an example: *.db");
        if text.is_empty() || text.contains('/') {
            return Err(refusal("a name is not empty and has no slash"));
        }
        glob::Pattern::new(text).map(NamePattern).map_err(|error| refusal(error.msg))
    }
}
