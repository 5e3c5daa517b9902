//! Lines: splits a job file and its included files into sections and settings, as fio's reader `__parse_jobs_ini` does.
//!
//! # Invariants
//! - No fault stops the reader: every line that it does not understand becomes a [`Refusal`].
//! - Includes nest at most [`DEPTH_MAX`] deep, and no file includes itself, directly or not. So reading ends.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::variables::Variables;
use crate::error::Refusal;

/// Deepest nesting of included files.
const DEPTH_MAX: usize = 8;
/// Bytes of the longest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file.
    pub file: Rc<str>,
    /// Line number, counted from one; zero for the file as a whole and for an argument of the command line.
    pub line: usize,
}

impl SourceLine {
    /// A refusal at this place.
    pub fn refuse(&self, problem: impl Into<String>) -> Refusal {
        Refusal { file: self.file.to_string(), line: self.line, problem: problem.into() }
    }
}

/// `key=value` or `key`, with its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its place.
    pub place: SourceLine,
    /// The text before `=`.
    pub key: String,
    /// The text after `=`, with variables replaced; `None` without `=`.
    pub value: Option<String>,
    /// An environment variable that is not set and was replaced by nothing.
    pub unset: Option<String>,
}

/// `[name]` and the settings after it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// SourceLine of its head.
    pub place: SourceLine,
    /// The text between the brackets.
    pub name: String,
    /// Its settings, in order.
    pub settings: Vec<Setting>,
}

impl Section {
    /// Whether it sets defaults for later sections. Like fio, looks only at the first six letters.
    pub(crate) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// Reads sections.
pub(super) struct Reader<'a> {
    /// Values of `$…`.
    pub variables: &'a Variables<'a>,
    /// The sections so far.
    pub sections: Vec<Section>,
    /// All refusals so far.
    pub refusals: Vec<Refusal>,
    /// Files that are being read, outermost first.
    open: Vec<PathBuf>,
    is_orphaned: bool,
}

impl<'a> Reader<'a> {
    /// A reader that has read nothing.
    pub(super) fn new(variables: &'a Variables<'a>) -> Reader<'a> {
        Reader { variables, sections: Vec::new(), refusals: Vec::new(), open: Vec::new(), is_orphaned: false }
    }

    /// Reads `text`, the content of `path`; looks for included files beside it.
    pub(super) fn read(&mut self, path: &Path, text: &str) {
        self.open.push(path.to_owned());
        let file: Rc<str> = path.display().to_string().into();
        for (index, raw) in text.lines().enumerate() {
            let (place, content) = (SourceLine { file: Rc::clone(&file), line: index + 1 }, without_comment(raw));
            if let Some(rest) = content.strip_prefix('[') {
                self.head(place, rest);
            } else if let Some(name) = content.strip_prefix("include ") {
                self.include(&place, path, name.trim());
            } else if !content.is_empty() {
                self.setting(place, content);
            }
        }
        self.open.pop();
    }

    /// Reads `text` as a line of the last section that comes from no file; `name` tells where it comes from.
    pub(crate) fn read_argument(&mut self, name: &str, text: &str) {
        let place = SourceLine { file: name.into(), line: 0 };
        match without_comment(text) {
            "" => (),
            content => self.setting(place, content),
        }
    }

    fn head(&mut self, place: SourceLine, rest: &str) {
        self.is_orphaned = false;
        let name = match rest.strip_suffix(']') {
            Some(name) if !name.is_empty() && name.len() <= 255 => name,
            Some(_) => return self.refusals.push(place.refuse("a section's name has 1 to 255 bytes")),
            None => return self.refusals.push(place.refuse(format!("`[{rest}` does not end with `]`"))),
        };
        self.sections.push(Section { place, name: name.to_owned(), settings: Vec::new() });
    }

    fn setting(&mut self, place: SourceLine, content: &str) {
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim())),
            None => (content, None),
        };
        let Some(section) = self.sections.last_mut() else {
            // Reports only the first such line, which speaks for the lines after it.
            if !std::mem::replace(&mut self.is_orphaned, true) {
                let problem = format!("`{content}` stands before any section; begin with `[global]` or `[name]`");
                self.refusals.push(place.refuse(problem));
            }
            return;
        };
        match value.map(|value| self.variables.expand(key, value)).transpose() {
            Err(problem) => self.refusals.push(place.refuse(format!("`{key}`: {problem}"))),
            Ok(expanded) => {
                let (value, unset) = expanded.map_or((None, None), |expanded| (Some(expanded.text), expanded.unset));
                section.settings.push(Setting { place, key: key.to_owned(), value, unset });
            }
        }
    }

    /// Reads the included file in place of this line.
    fn include(&mut self, place: &SourceLine, from: &Path, name: &str) {
        let path = from.parent().unwrap_or(Path::new("")).join(name);
        if self.open.contains(&path) {
            return self.refusals.push(place.refuse(format!("`{name}` includes itself")));
        }
        if self.open.len() > DEPTH_MAX {
            return self.refusals.push(place.refuse(format!("files include each other more than {DEPTH_MAX} deep")));
        }
        let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if length > BYTES_MAX {
            return self.refusals.push(place.refuse(format!("`{name}` has {length} bytes, which is no job file")));
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => self.read(&path, &text),
            Err(error) => self.refusals.push(place.refuse(format!("cannot include {}: {error}", path.display()))),
        }
    }
}

fn without_comment(raw: &str) -> &str {
    let end = raw.find([';', '#']).unwrap_or(raw.len());
    raw[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Section>, Vec<Refusal>) {
        let variables = Variables::default();
        let mut reader = Reader::new(&variables);
        reader.read(Path::new("test.fio"), text);
        (reader.sections, reader.refusals)
    }

    #[test]
    fn comments_and_blanks_are_dropped() {
        let (sections, refusals) = read("# head\n\n [a b] ; tail\n\tsize=4k # four\n;x\nthread\n");
        assert_eq!((sections[0].name.as_str(), sections[0].place.line, refusals.len()), ("a b", 3, 0));
        let settings = &sections[0].settings;
        let size = &settings[0];
        assert_eq!((size.key.as_str(), size.value.as_deref(), size.place.line), ("size", Some("4k"), 4));
        assert_eq!((settings[1].key.as_str(), settings[1].value.as_deref()), ("thread", None));
    }

    #[test]
    fn settings_before_any_section_are_refused_once() {
        let (_, refusals) = read("\nsize=4k\nbs=4k\n[a]\n");
        assert_eq!((refusals.len(), refusals[0].line), (1, 2));
    }

    #[test]
    fn a_file_that_is_not_there_cannot_be_included() {
        let (_, refusals) = read("[a]\ninclude no-such-file.fio\nsize=1m\n");
        assert!(refusals[0].line == 2 && refusals[0].problem.contains("no-such-file.fio"), "{refusals:?}");
    }
}
