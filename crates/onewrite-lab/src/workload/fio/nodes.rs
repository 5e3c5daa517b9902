//! Nodes: the streams of fio's engines `filecreate`, `filestat` and `filedelete`. They make files, read attributes or
//! remove files, one operation for each file and pass.

use onewrite_block::Nanos;

use super::task::{Task, part};
use crate::error::LabError;
use crate::job::{Options, Work};
use crate::workload::{FileId, Operation, OrderedOperation, Stream, TaskDescriptor};

/// The operations of one clone.
pub(crate) struct NodeStream {
    options: Options,
    files: Vec<FileId>,
    next: usize,
    passes: u64,
    /// The new file must be closed next.
    is_open: bool,
    is_over: bool,
    task: Task,
}

impl NodeStream {
    /// The operations of a job with `options` on `files`.
    pub(super) fn new(options: &Options, files: Vec<FileId>, task: Task) -> NodeStream {
        NodeStream { options: options.clone(), files, next: 0, passes: 1, is_open: false, is_over: false, task }
    }

    /// Whether another pass begins; a file can be made or removed only once.
    fn begins_pass(&mut self) -> bool {
        let is_wanted = self.options.time_based || self.passes < self.options.loops;
        let begins = is_wanted && self.options.work == Work::Stat;
        self.passes += 1;
        self.next = 0;
        begins
    }
}

impl Stream for NodeStream {
    fn next(&mut self, now: Nanos) -> Result<Option<OrderedOperation>, LabError> {
        let slot = TaskDescriptor(0);
        if std::mem::take(&mut self.is_open) {
            return Ok(Some(OrderedOperation::alone(Operation::Close { slot })));
        }
        if !self.is_over {
            let time_is_up = self.options.runtime.is_some_and(|runtime| now >= runtime + self.options.ramp_time);
            let is_ended = time_is_up || self.task.is_ended();
            self.is_over = is_ended || (self.next >= self.files.len() && !self.begins_pass());
            if self.is_over {
                self.task.end(&self.options);
            }
        }
        if self.is_over {
            return Ok(None);
        }
        let file = self.files[self.next];
        self.next += 1;
        Ok(Some(OrderedOperation::alone(match self.options.work {
            Work::Create => {
                self.is_open = true;
                Operation::Create { file, slot }
            }
            Work::Delete => Operation::Unlink { file },
            _ => Operation::Stat { file },
        })))
    }

    fn share(&self, now: Nanos) -> Option<f64> {
        if self.is_over {
            return Some(1.0);
        }
        let options = &self.options;
        let by_time = options.runtime.map(|runtime| part(now.0, (runtime + options.ramp_time).0));
        let count = self.files.len() as u64;
        let done = (self.passes - 1).saturating_mul(count) + self.next as u64;
        let by_count = (!options.time_based).then(|| part(done, count.saturating_mul(options.loops)));
        by_time.into_iter().chain(by_count).reduce(f64::max)
    }
}
