//! Variables: values of `${NAME}` from the environment and of fio's own words `$ncpus`, `$pagesize`, `$mb_memory`.
//!
//! The machine is the modelled one: its cores are those of the host profile, its memory is the page cache. So a job
//! means the same everywhere. Only the environment is the caller's.

use super::arithmetic;
use super::arithmetic::ValueResult;
use super::value;

/// The variables of a job file.
pub struct Variables<'a> {
    /// `$ncpus`
    pub cores: u64,
    /// `$mb_memory`
    pub memory_mib: u64,
    /// `${NAME}`
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

impl Default for Variables<'_> {
    fn default() -> Self {
        let host = onewrite_block::HostProfile::default();
        Variables { cores: host.cores as u64, memory_mib: 64, environment: &|_| None }
    }
}

/// A value with its variables replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    /// The value.
    pub text: String,
    /// A variable of the environment that is not set, if there is one.
    pub unset: Option<String>,
}

impl Variables<'_> {
    /// Replaces the variables in `value` of `key`, and computes simple arithmetic with fio's own words
    /// (`8*$mb_memory`).
    ///
    /// # Errors
    /// A word that fio does not have; arithmetic that is malformed.
    pub(crate) fn expand(&self, key: &str, value: &str) -> ValueResult<Expanded> {
        // The workload replaces its words for each file.
        if key == "filename_format" {
            return Ok(Expanded { text: value.to_owned(), unset: None });
        }
        let (text, unset) = self.environment(value)?;
        let words =
            [("$ncpus", self.cores), ("$mb_memory", self.memory_mib), ("$pagesize", onewrite_block::PAGE_SIZE as u64)];
        if !words.iter().any(|(word, _)| text.contains(word)) {
            return match text.find('$') {
                Some(at) => Err(format!("`{}`: fio knows $ncpus, $mb_memory, $pagesize and ${{NAME}}", &text[at..])),
                None => Ok(Expanded { text, unset }),
            };
        }
        let put_in = words.iter().fold(text, |text, (word, number)| text.replace(word, &number.to_string()));
        let is_sum = put_in.contains(['+', '-', '*', '/', '%', '^']) && !put_in.starts_with('(');
        let text = if is_sum { arithmetic::value(&put_in, value::bytes)?.to_string() } else { put_in };
        Ok(Expanded { text, unset })
    }

    /// As in fio, a variable that is not set is replaced by nothing.
    fn environment(&self, value: &str) -> ValueResult<(String, Option<String>)> {
        let (mut text, mut rest, mut unset) = (String::new(), value, None);
        while let Some(begin) = rest.find("${") {
            let end = rest[begin..].find('}').ok_or_else(|| format!("`{value}`: `${{` lacks a `}}`"))? + begin;
            let name = &rest[begin + 2..end];
            text.push_str(&rest[..begin]);
            match (self.environment)(name) {
                Some(found) => text.push_str(&found),
                None => unset = Some(name.to_owned()),
            }
            rest = &rest[end + 1..];
        }
        Ok((text + rest, unset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(value: &str) -> ValueResult<String> {
        let environment = |name: &str| (name == "DIR").then(|| "data".to_owned());
        let variables = Variables { cores: 6, memory_mib: 64, environment: &environment };
        variables.expand("x", value).map(|expanded| expanded.text)
    }

    #[test]
    fn fios_words_are_numbers_that_can_be_reckoned_with() {
        assert_eq!(expanded("8*$mb_memory").unwrap(), "512");
        assert_eq!(expanded("$ncpus").unwrap(), "6");
        assert_eq!(expanded("$pagesize*2").unwrap(), "8192");
        assert!(expanded("$cores").is_err());
    }

    #[test]
    fn the_environment_is_put_in() {
        assert_eq!(expanded("/${DIR}/x${NONE}").unwrap(), "/data/x");
        assert!(expanded("${DIR").is_err());
    }
}
