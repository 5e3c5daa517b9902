//! Options: what Python gives by name becomes fields of an experiment. Values are texts, read as on the command line.

use std::collections::BTreeMap;
use std::str::FromStr;

use onewrite_device::Age;
use onewrite_fs::ext4::PolicyKind;
use onewrite_lab::experiment::{CacheExperiment, CrashExperiment, Experiment, Ftl, LayerChoice};
use onewrite_lab::size::{self, SizeOrShare};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::failure::of_value;

/// Texts by the name of their option; several where it takes several.
pub(crate) type Given = BTreeMap<String, Vec<String>>;

/// A text and how its problem is told.
type Told<T> = Result<T, String>;

/// What was given and not yet taken.
pub(crate) struct Options(pub Given);

impl Options {
    /// Takes all texts of `name`.
    fn all(&mut self, name: &str) -> Option<Vec<String>> {
        self.0.remove(name)
    }

    /// Sets `place` if `name` was given.
    fn take<T>(&mut self, name: &str, place: &mut T, parse: impl Fn(&str) -> Told<T>) -> PyResult<()> {
        if let Some(text) = self.all(name).and_then(|texts| texts.into_iter().next()) {
            *place = parse(&text).map_err(|problem| of_value(name, problem))?;
        }
        Ok(())
    }

    /// Refuses what nobody took.
    pub(crate) fn end(self) -> PyResult<()> {
        match self.0.into_keys().next() {
            Some(name) => Err(PyTypeError::new_err(format!("there is no option `{name}` here"))),
            None => Ok(()),
        }
    }

    fn layer(&mut self, layer: &mut LayerChoice) -> PyResult<()> {
        self.take("ftl", &mut layer.ftl, some(ftl))?;
        self.take("log_blocks", &mut layer.log_blocks, some(parsed))?;
        self.take("map_cache", &mut layer.map_cache, some(size::bytes))
    }

    /// Changes `experiment`.
    pub(crate) fn of_run(&mut self, experiment: &mut Experiment) -> PyResult<()> {
        self.take("device", &mut experiment.device, text)?;
        self.layer(&mut experiment.layer)?;
        self.take("age", &mut experiment.age, age)?;
        self.take("host", &mut experiment.host, text)?;
        self.take("size", &mut experiment.size, some(size::bytes))?;
        self.take("journal_size", &mut experiment.journal_size, some(size::bytes))?;
        self.take("cache_size", &mut experiment.cache_size, size::bytes)?;
        self.take("cache_policy", &mut experiment.cache_policy, policy)?;
        self.take("delayed_allocation", &mut experiment.delayed_allocation, flag)?;
        self.take("max_batch_time", &mut experiment.max_batch_time, size::span)?;
        self.take("eviction_spot", &mut experiment.eviction_spot, some(text))?;
        self.take("drop_caches", &mut experiment.drop_caches, flag)?;
        self.take("seed", &mut experiment.seed, parsed)?;
        self.take("force", &mut experiment.force, flag)?;
        self.take("files", &mut experiment.personality.files, some(size::count))?;
        self.take("threads", &mut experiment.personality.threads, some(size::count))?;
        self.take("file_size", &mut experiment.personality.file_size, some(size::bytes))?;
        self.take("compressible", &mut experiment.personality.compressible, some(percent))?;
        self.take("runtime", &mut experiment.personality.runtime, some(size::span))?;
        self.take("operations", &mut experiment.personality.operations, some(size::count))?;
        experiment.file.sections = self.all("section").unwrap_or_default();
        experiment.file.settings = self.all("set").unwrap_or_default();
        Ok(())
    }

    /// Changes `experiment`.
    pub(crate) fn of_crash(&mut self, experiment: &mut CrashExperiment) -> PyResult<()> {
        self.take("mode", &mut experiment.mode, some(text))?;
        self.take("device", &mut experiment.device, some(text))?;
        self.layer(&mut experiment.layer)?;
        self.take("runtime", &mut experiment.runtime, some(size::span))?;
        self.take("eviction_spot", &mut experiment.eviction_spot, some(text))?;
        self.take("size", &mut experiment.size, some(size::bytes))?;
        self.take("journal_blocks", &mut experiment.journal_blocks, some(parsed))?;
        self.take("cache_pages", &mut experiment.cache_pages, parsed)?;
        self.take("cache_policy", &mut experiment.cache_policy, policy)?;
        self.take("delayed_allocation", &mut experiment.delayed_allocation, flag)?;
        self.take("commit_interval", &mut experiment.commit_interval, size::span)?;
        self.take("checkpoint_age", &mut experiment.checkpoint_age, size::span)?;
        self.take("prompt_writeback", &mut experiment.prompt_writeback, flag)?;
        self.take("slow_one_in", &mut experiment.slow_one_in, some(parsed))?;
        self.take("mkfs", &mut experiment.mkfs, some(text))?;
        self.take("states", &mut experiment.states, size::count)?;
        self.take("seed", &mut experiment.seed, parsed)?;
        self.take("e2fsck_every", &mut experiment.e2fsck_every, parsed)?;
        self.take("thorough_every", &mut experiment.thorough_every, some(parsed))?;
        self.take("nested_every", &mut experiment.nested_every, some(parsed))?;
        self.take("torn_pages", &mut experiment.torn_pages, flag)?;
        self.take("torn_shares", &mut experiment.torn_shares, flag)?;
        self.take("faults", &mut experiment.faults, flag)?;
        self.take("jobs", &mut experiment.jobs, some(jobs))?;
        experiment.file.sections = self.all("section").unwrap_or_default();
        experiment.file.settings = self.all("set").unwrap_or_default();
        Ok(())
    }

    /// Changes `experiment`.
    pub(crate) fn of_cache(&mut self, experiment: &mut CacheExperiment) -> PyResult<()> {
        if let Some(policies) = self.all("policies") {
            experiment.policies = policies;
        }
        if let Some(sizes) = self.all("sizes") {
            let sizes: Result<Vec<SizeOrShare>, String> = sizes.iter().map(|size| size::bytes_or_share(size)).collect();
            experiment.sizes = sizes.map_err(|problem| of_value("sizes", problem))?;
        }
        self.take("format", &mut experiment.input.format, some(parsed))?;
        self.take("volume", &mut experiment.input.volume, some(parsed))?;
        self.take("pack", &mut experiment.input.pack, flag)?;
        self.take("action", &mut experiment.input.action, some(parsed))?;
        self.take("page_size", &mut experiment.input.page_size, size::bytes)?;
        self.take("flash_block", &mut experiment.flash_block, size::bytes)?;
        self.take("device", &mut experiment.device, some(text))?;
        self.take("timed", &mut experiment.timed, flag)?;
        self.layer(&mut experiment.layer)?;
        self.take("device_size", &mut experiment.device_size, some(size::bytes))?;
        self.take("blank", &mut experiment.blank, flag)?;
        self.take("age", &mut experiment.age, size::bytes)?;
        self.take("threads", &mut experiment.threads, parsed)
    }
}

fn some<T>(parse: impl Fn(&str) -> Told<T>) -> impl Fn(&str) -> Told<Option<T>> {
    move |text| parse(text).map(Some)
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Told<T> {
    text.parse().map_err(|problem: T::Err| format!("`{text}`: {problem}"))
}

fn text(text: &str) -> Told<String> {
    Ok(text.to_owned())
}

fn flag(text: &str) -> Told<bool> {
    match text {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(format!("`{text}` is neither True nor False")),
    }
}

fn percent(text: &str) -> Told<u8> {
    parsed(text).ok().filter(|percent| *percent <= 100).ok_or_else(|| format!("`{text}` is not from 0 to 100"))
}

fn jobs(text: &str) -> Told<u16> {
    parsed(text).ok().filter(|jobs| (1..=256).contains(jobs)).ok_or_else(|| format!("`{text}` is not from 1 to 256"))
}

fn policy(text: &str) -> Told<PolicyKind> {
    match text.parse::<PolicyKind>()? {
        kind if kind.needs_future() => Err(format!("{text} knows the future, which no file system has")),
        kind => Ok(kind),
    }
}

fn ftl(text: &str) -> Told<Ftl> {
    let known = [("page", Ftl::Page), ("fast", Ftl::Fast), ("bast", Ftl::Bast), ("dftl", Ftl::Dftl)];
    let found = known.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, ftl)| ftl).ok_or_else(|| format!("`{text}` is none of page, fast, bast, dftl"))
}

fn age(text: &str) -> Told<Age> {
    let found = [Age::New, Age::Filled, Age::Steady].into_iter().find(|age| age.name() == text);
    found.ok_or_else(|| format!("`{text}` is none of none, filled, steady"))
}
