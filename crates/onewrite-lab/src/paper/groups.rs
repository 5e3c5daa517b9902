//! Groups: the figure, table or section of a paper to which a row belongs, computed from the row's source.
//!
//! `000 §2.4.5, fig 2-8b; inferred: …` names a section and a figure of paper 000. Panels, text in brackets and inferred
//! text are ignored. A group is called `000-fig-2-8`; the short name `fig-2-8` is enough if only one paper has it.

use super::entry::Experiment;
use super::scoreboard::Row;
use crate::error::LabError;
use crate::job::known::nearest;

impl Row {
    /// The groups in the row's source: first figures, tables and case studies, then sections.
    pub fn groups(&self) -> Vec<String> {
        let named = named(&self.source);
        // The source may name only the section; then the figure is that of the claim's grids.
        let known = match self.experiment() {
            Some(Experiment::TsClock(claim)) => claim.only_figure().map(|figure| format!("000-fig-{figure}")),
            _ => None,
        };
        let mut groups: Vec<String> = known.into_iter().filter(|group| !named.contains(group)).collect();
        let (sections, figures): (Vec<String>, Vec<String>) =
            named.into_iter().partition(|group| group.contains("-sec-"));
        groups.extend(figures);
        groups.extend(sections);
        groups
    }

    /// The group under which the row is listed.
    pub fn group(&self) -> String {
        self.groups().into_iter().next().unwrap_or_else(|| "other".to_owned())
    }
}

/// Places in a source, in order.
fn named(source: &str) -> Vec<String> {
    let source = source.split("inferred:").next().unwrap_or(source);
    let plain = without_brackets(source);
    let words: Vec<&str> = plain.split([' ', ',', ';', ':']).filter(|word| !word.is_empty()).collect();
    let mut paper = "000";
    let mut found: Vec<String> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let after = |steps: usize| words.get(place + steps).copied().unwrap_or_default();
        let group = match *word {
            word if word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()) => {
                paper = word;
                continue;
            }
            "fig" => format!("{paper}-fig-{}", without_panel(after(1))),
            "table" => format!("{paper}-table-{}", without_panel(after(1))),
            "case" if after(1) == "study" => format!("{paper}-case-study-{}", after(2)),
            word => match word.strip_prefix('§') {
                Some(section) => format!("{paper}-sec-{}", section.replace('.', "-")),
                None => continue,
            },
        };
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

fn without_brackets(text: &str) -> String {
    let mut depth = 0_u32;
    let outside = text.chars().filter(|letter| {
        depth += u32::from(*letter == '(');
        let is_outside = depth == 0;
        depth -= u32::from(*letter == ')').min(depth);
        is_outside
    });
    outside.collect()
}

/// `2-8b` is panel b of figure 2-8.
fn without_panel(number: &str) -> &str {
    number.trim_end_matches(|letter: char| letter.is_ascii_lowercase())
}

/// The rows of `name`: one row by its id, or all rows of a group by its full or short name.
///
/// # Errors
/// If there are none, or figures of several papers have the name.
pub fn select<'a>(rows: &'a [Row], name: &str) -> Result<Vec<&'a Row>, LabError> {
    if let Some(row) = rows.iter().find(|row| row.id == name) {
        return Ok(vec![row]);
    }
    let full = |group: &String| group == name || group.split_once('-').is_some_and(|(_, short)| short == name);
    let mut meant: Vec<String> = rows.iter().flat_map(Row::groups).filter(full).collect();
    meant.sort();
    meant.dedup();
    match &meant[..] {
        [group] => Ok(rows.iter().filter(|row| row.groups().contains(group)).collect()),
        [] => {
            let meant = nearest(name, rows.iter().map(|row| &*row.id)).map(|id| format!("; did you mean `{id}`?"));
            Err(LabError::Option(format!(
                "the scoreboard has no row and no figure `{name}`{}; `onewrite paper --list` shows them",
                meant.unwrap_or_default()
            )))
        }
        several => Err(LabError::Option(format!("`{name}` is in several papers; take {}", several.join(" or ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::scoreboard;

    #[test]
    fn places_are_told_from_the_source() {
        for (source, groups) in [
            ("000 §2.4.5, fig 2-8b; inferred: panel b is of fig 9", &["000-sec-2-4-5", "000-fig-2-8"][..]),
            ("000 fig 3-8c (§3.1 speaks of fsync calls); inferred: SysBench", &["000-fig-3-8"]),
            ("001 fig 6c, 000 fig 4-6c", &["001-fig-6", "000-fig-4-6"]),
            ("000 fig 3-5; 004 case study 1 (8% and 9% slower)", &["000-fig-3-5", "004-case-study-1"]),
        ] {
            assert_eq!(named(source), groups, "{source}");
        }
    }

    #[test]
    fn every_row_has_a_group_and_a_figure_has_its_rows() {
        let rows = scoreboard().unwrap();
        assert!(rows.iter().all(|row| row.group() != "other"));
        assert_eq!(rows.iter().find(|row| row.id == "ts-tpcc-ssd").map(Row::group).as_deref(), Some("000-fig-2-6"));
        let ids = |name: &str| select(&rows, name).unwrap().iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids("fig-3-3"), ["afs-blocks-oj", "afs-blocks-dj", "afs-blocks-sdj"]);
        assert_eq!(ids("000-fig-3-3"), ids("fig-3-3"));
        assert_eq!(ids("fig-2-4").len(), 7);
        assert_eq!(ids("ldj-hdd"), ["ldj-hdd"]);
        assert!(select(&rows, "table-3").unwrap_err().to_string().contains("002-table-3 or 003-table-3"));
        assert!(select(&rows, "fig-99").unwrap_err().to_string().contains("--list"));
    }
}
