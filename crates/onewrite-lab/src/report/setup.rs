//! Set-up: the settings of the runs, and their differences.

use onewrite_block::Nanos;

use super::compared::Compared;
use super::units::{capacity, latency};
use crate::results::Settings;

/// One setting of the runs.
pub(crate) struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value in each run.
    pub values: Vec<String>,
}

impl Fact {
    /// Whether the runs differ in it.
    pub(super) fn differs(&self) -> bool {
        self.values.iter().any(|value| *value != self.values[0])
    }

    /// The common value, or each value with its runs.
    pub(super) fn words(&self, runs: &[Compared]) -> String {
        if !self.differs() {
            return self.values[0].clone();
        }
        let mut groups: Vec<(&String, Vec<&str>)> = Vec::new();
        for (value, run) in self.values.iter().zip(runs) {
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, labels)) => labels.push(&run.label),
                None => groups.push((value, vec![&run.label])),
            }
        }
        let group = |(value, labels): (&String, Vec<&str>)| format!("{value} ({})", labels.join(", "));
        groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
    }
}

/// The settings of `runs`; there must be at least one run.
pub(super) fn facts(runs: &[Compared]) -> Vec<Fact> {
    let fact = |name, value: &dyn Fn(&Compared) -> String| Fact { name, values: runs.iter().map(value).collect() };
    let settings = |value: fn(&Settings) -> String| move |run: &Compared| value(&run.result.onewrite.settings);
    let mut facts = vec![
        fact("device", &settings(device)),
        fact("host", &settings(|settings| settings.host.clone())),
        fact("journal", &settings(journal)),
        fact("page cache", &settings(page_cache)),
        fact("allocation", &settings(allocation)),
    ];
    facts.push(fact("seed", &|run| run.result.onewrite.seed.to_string()));
    facts
}

/// Facts in which the set-ups of the runs differ.
pub(super) fn differing(runs: &[Compared]) -> Vec<Fact> {
    if runs.is_empty() { Vec::new() } else { facts(runs).into_iter().filter(Fact::differs).collect() }
}

/// The device with its translation layer and its age, if they are known.
fn device(settings: &Settings) -> String {
    let words = settings.setup.words().map(|words| format!(", {words}")).unwrap_or_default();
    format!("{}, {}{words}", settings.device, capacity(settings.size_bytes))
}

fn journal(settings: &Settings) -> String {
    let waits = settings.max_batch_ns.map(|longest| format!(", commits wait up to {}", latency(Some(Nanos(longest)))));
    settings.journal_bytes.map_or("none".to_owned(), capacity) + &waits.unwrap_or_default()
}

fn page_cache(settings: &Settings) -> String {
    let emptied = if settings.drop_caches { ", emptied before the jobs" } else { "" };
    match (settings.cache_bytes, &settings.cache_policy) {
        (Some(bytes), Some(policy)) => format!("{}, {policy}{emptied}", capacity(bytes)),
        _ => "none".to_owned(),
    }
}

fn allocation(settings: &Settings) -> String {
    match settings.delayed_allocation {
        None => "none",
        Some(true) => "delayed",
        Some(false) => "at once",
    }
    .to_owned()
}
