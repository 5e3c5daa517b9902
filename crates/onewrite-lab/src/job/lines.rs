//! Lines: cuts a job file into sections and settings, as fio's reader does (its `__parse_jobs_ini`).

/// Where and why a file was refused.
pub type Refusal = (usize, String);

/// `key=value` or `key`, with its line.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Counted from one.
    pub line: usize,
    /// What stands before `=`.
    pub key: String,
    /// What stands after it; `None` without `=`.
    pub value: Option<String>,
}

/// `[name]` and what follows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    /// Line of its head, counted from one.
    pub line: usize,
    /// What stands between the brackets.
    pub name: String,
    /// Its settings in their order.
    pub settings: Vec<Setting>,
}

impl Section {
    /// Whether it sets defaults for later sections; fio looks at the first six letters only.
    pub fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// The sections of `text` in their order.
pub fn sections(text: &str) -> Result<Vec<Section>, Refusal> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let (line, content) = (index + 1, without_comment(raw));
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            sections.push(Section { line, name: section_name(line, rest)?, settings: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err((line, format!("`{content}` stands before any section; begin with `[global]` or `[name]`")));
        };
        section.settings.push(setting(line, content)?);
    }
    Ok(sections)
}

fn without_comment(raw: &str) -> &str {
    let end = raw.find([';', '#']).unwrap_or(raw.len());
    raw[..end].trim()
}

fn section_name(line: usize, rest: &str) -> Result<String, Refusal> {
    match rest.strip_suffix(']') {
        Some(name) if !name.is_empty() && name.len() <= 255 => Ok(name.to_owned()),
        Some(_) => Err((line, "a section's name has 1 to 255 bytes".to_owned())),
        None => Err((line, format!("`[{rest}` does not end with `]`"))),
    }
}

fn setting(line: usize, content: &str) -> Result<Setting, Refusal> {
    if content.starts_with("include ") {
        return Err((line, "`include` is not supported; put the settings into this file".to_owned()));
    }
    if content.contains('$') {
        return Err((
            line,
            format!("`{content}`: variables are not supported; write the value, so that a run is the same everywhere"),
        ));
    }
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value.trim().to_owned())),
        None => (content, None),
    };
    Ok(Setting { line, key: key.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_are_dropped() {
        let sections = sections("# head\n\n [a b] ; tail\n\tsize=4k # four\n;x\nthread\n").unwrap();
        assert_eq!((sections[0].name.as_str(), sections[0].line), ("a b", 3));
        let settings = &sections[0].settings;
        assert_eq!((settings[0].key.as_str(), settings[0].value.as_deref(), settings[0].line), ("size", Some("4k"), 4));
        assert_eq!((settings[1].key.as_str(), settings[1].value.as_deref()), ("thread", None));
    }

    #[test]
    fn a_setting_before_any_section_is_refused() {
        assert_eq!(sections("\nsize=4k\n").unwrap_err().0, 2);
    }

    #[test]
    fn variables_and_includes_are_refused() {
        assert!(sections("[a]\nsize=${SIZE}\n").unwrap_err().1.contains("variables"));
        assert!(sections("[a]\ninclude b.fio\n").unwrap_err().1.contains("include"));
    }
}
