//! Sensitivity: measures the rows again, each time with one uncertain value of a device or of the traces changed.
//!
//! Server workloads are shortened to their first twentieth on cards and to their first fifth on the SSD, also for the
//! unchanged rows, because whole ones take hours. The lifetime study uses whole ones.

use std::path::{Path, PathBuf};

use super::figures::{Changed, Grid};
use super::rows::{self, Cards};
use super::study::TsClockStudy;
use super::subjects::{PAGE, Subject, subjects, variants};

use crate::error::LabError;
use crate::generate::TraceKind;
use crate::trace::{Trace, TraceOptions, TraceWriter};

/// Changed numbers of clients of the file server.
const CLIENTS: [u32; 2] = [24, 96];
/// Divisors of the server workloads on cards and on the SSD; the first part is used.
const PARTS: [u64; 2] = [20, 5];
/// Page requests read at a time.
const CHUNK: usize = 1 << 16;

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
        directory: &Path,
        watch: &dyn Fn(&str),
    ) -> Result<Vec<Changed>, LabError> {
        let other_seed = TsClockStudy { seed: self.seed + 1, ..*self };
        let other_traces = other_seed.traces(directory, &mut Vec::new())?;
        let mut found = Vec::new();
        for subject in subjects() {
            let changes = variants(&subject);
            if changes.is_empty() {
                continue;
            }
            watch(&format!("sensitivity: {} ({})", subject.profile.name, subject.ftl()));
            found.push(Changed::new(&subject, "", &self.all(traces, &subject)?));
            for (what, changed) in changes {
                watch(&format!("sensitivity: {} ({}) with {what}", subject.profile.name, subject.ftl()));
                found.push(Changed::new(&subject, what, &self.all(traces, &changed)?));
            }
            watch(&format!("sensitivity: {} ({}) with other traces", subject.profile.name, subject.ftl()));
            found.push(Changed::new(&subject, "traces of another seed", &self.all(&other_traces, &subject)?));
            for clients in CLIENTS.into_iter().filter(|_| subject.figure == "2-6") {
                if traces.iter().any(|(kind, _)| *kind == TraceKind::FileServer) {
                    let trace = self.trace(TraceKind::FileServer, directory, Some(clients))?;
                    let traces = [(TraceKind::FileServer, trace)];
                    let what = format!("{clients} clients of the file server");
                    found.push(Changed::new(&subject, &what, &self.all(&traces, &subject)?));
                }
            }
        }
        Ok(found)
    }

    /// Grids of the traces that the subject's rows need.
    fn all(&self, traces: Traces<'_>, subject: &Subject) -> Result<Vec<Grid>, LabError> {
        let is_wanted = |kind: TraceKind| match subject.figure {
            "2-8" => kind == TraceKind::Mixed,
            "2-9" => kind == TraceKind::TpcC,
            _ => true,
        };
        let wanted = traces.iter().filter(|(kind, _)| is_wanted(*kind));
        wanted.map(|(kind, trace)| self.grid(*kind, &part(*kind, trace, subject)?, subject)).collect()
    }
}

/// The part of a trace that runs on the subject.
fn part(kind: TraceKind, trace: &Path, subject: &Subject) -> Result<PathBuf, LabError> {
    let is_server = matches!(kind, TraceKind::FileServer | TraceKind::TpcC);
    let parts = match subject.figure {
        "2-4" if is_server => PARTS[0],
        "2-6" if is_server => PARTS[1],
        _ => return Ok(trace.to_owned()),
    };
    let path = trace.with_extension(format!("{parts}.csv"));
    if !path.exists() {
        let open = || Trace::open(trace, &TraceOptions::default());
        let (mut whole, mut pages) = (open()?, Vec::new());
        while whole.next_pages(PAGE, CHUNK, &mut pages)? {}
        pages.truncate((pages.len() as u64 / parts) as usize);
        let mut writer = TraceWriter::create(&path)?;
        pages.into_iter().try_for_each(|request| writer.page(request))?;
        writer.finish()?;
    }
    Ok(path)
}
