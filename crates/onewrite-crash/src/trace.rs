//! Trace: lists the events of a run by number, to explain a state's address.

use std::rc::Rc;

use onewrite_block::Operation;
use onewrite_block::layer::RecordedEvent;

use crate::action::Workload;
use crate::error::CrashError;
use crate::history::{Happening, History};
use crate::options::ExploreOptions;
use crate::run::run;
use crate::subject::Subject;

/// A line for each event of the run of `workload`: submission and completion of requests, beginning and end of
/// operations.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn trace<S: Subject>(subject: S, workload: &Workload, options: &ExploreOptions) -> Result<Vec<String>, CrashError> {
    let run = run(&Rc::new(subject), workload, options)?;
    Ok(run.events.iter().enumerate().map(|(number, event)| line(number, event, &run.history)).collect())
}

fn line(number: usize, event: &RecordedEvent, history: &History) -> String {
    let what = match event {
        RecordedEvent::Submitted(token, request) => {
            let place = match &request.operation {
                Operation::Write { start, pages, durable } => {
                    format!(" {start} + {}{}", pages.len(), if durable.is_fua() { " FUA" } else { "" })
                }
                Operation::Trim { start, count } => format!(" {start} + {count}"),
                Operation::Share(pairs) => format!(" {} pairs", pairs.len()),
                Operation::Read { .. } | Operation::Flush => String::new(),
            };
            format!("#{} {}{place} ({})", token.0, request.operation.name(), request.cause.name())
        }
        RecordedEvent::Completed(token) => format!("#{} done", token.0),
        RecordedEvent::Failed(token) => format!("#{} failed", token.0),
        RecordedEvent::Mark(mark) => match history.happenings[*mark as usize] {
            Happening::Begin(operation) => format!("begin `{}`", history.operations[operation].action),
            Happening::End(operation) => {
                let operation = &history.operations[operation];
                let error = operation.error.as_ref().map(|error| format!(": {error}"));
                format!("end `{}`{}", operation.action, error.unwrap_or_default())
            }
        },
    };
    format!("{number:6} {what}")
}
