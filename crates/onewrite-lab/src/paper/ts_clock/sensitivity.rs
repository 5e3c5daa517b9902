//! Sensitivity: the rows again with one uncertain thing changed, of a device or of the traces.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{self, Cards};
use super::subjects::{Subject, subjects, variants};
use super::{Figure, Grid, TsClockStudy};
use crate::error::LabError;
use crate::generate::TraceKind;

/// Other numbers of clients of the file server.
const CLIENTS: [u32; 2] = [24, 96];

/// Rows of one device with one thing changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The device and what it stands for.
    pub device: String,
    /// What was changed; empty for nothing.
    pub what: String,
    /// The rows that the device has a part in, with `ts-clock`.
    pub rows: Vec<(&'static str, Figure)>,
}

impl Changed {
    fn new(subject: &Subject, what: &str, grids: &[Grid]) -> Changed {
        let cards = if subject.ftl() == "bast" { Cards::Bast } else { Cards::Fast };
        let device = format!("figure {}: {}, {}", subject.figure, subject.profile.name, subject.ftl());
        Changed { device, what: what.to_owned(), rows: rows::found(grids, cards, "ts-clock") }
    }
}

type Traces<'a> = &'a [(TraceKind, PathBuf)];

impl TsClockStudy<'_> {
    pub(super) fn sensitivity(
        &self,
        traces: Traces<'_>,
        grids: &[Grid],
        directory: &Path,
        watch: &dyn Fn(&str),
    ) -> Result<Vec<Changed>, LabError> {
        let other_seed = TsClockStudy { seed: self.seed + 1, ..*self };
        let other_traces = other_seed.traces(directory, &mut Vec::new())?;
        let mut found = Vec::new();
        for subject in subjects() {
            let own = |grid: &&Grid| {
                (grid.figure, &grid.device, grid.ftl) == (subject.figure, &subject.profile.name, subject.ftl())
            };
            let own: Vec<Grid> = grids.iter().filter(own).cloned().collect();
            let changes = variants(&subject);
            if changes.is_empty() {
                continue;
            }
            found.push(Changed::new(&subject, "", &own));
            for (what, changed) in changes {
                watch(&format!("sensitivity: {} ({}) with {what}", subject.profile.name, subject.ftl()));
                found.push(Changed::new(&subject, what, &self.all(traces, &changed)?));
            }
            watch(&format!("sensitivity: {} ({}) with other traces", subject.profile.name, subject.ftl()));
            found.push(Changed::new(&subject, "traces of another seed", &self.all(&other_traces, &subject)?));
            for clients in CLIENTS.into_iter().filter(|_| subject.figure != "2-8" && subject.figure != "2-9") {
                if traces.iter().any(|(kind, _)| *kind == TraceKind::FileServer) {
                    let trace = self.trace(TraceKind::FileServer, directory, Some(clients))?;
                    let grid = self.grid(TraceKind::FileServer, &trace, &subject)?;
                    let what = format!("{clients} clients of the file server");
                    found.push(Changed::new(&subject, &what, &[grid]));
                }
            }
        }
        Ok(found)
    }

    /// The traces that the subject's rows are about.
    fn all(&self, traces: Traces<'_>, subject: &Subject) -> Result<Vec<Grid>, LabError> {
        let is_wanted = |kind: TraceKind| match subject.figure {
            "2-8" => kind == TraceKind::Mixed,
            "2-9" => kind == TraceKind::TpcC,
            _ => true,
        };
        let wanted = traces.iter().filter(|(kind, _)| is_wanted(*kind));
        wanted.map(|(kind, trace)| self.grid(*kind, trace, subject)).collect()
    }
}
