//! Job: a load on an engine of InnoDB's shape, by name.

use std::fmt;

use crate::error::LabError;

/// What all names of these jobs begin with.
const PREFIX: &str = "innodb-";

/// Which transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Sysbench's OLTP.
    Sysbench,
    /// LinkBench.
    Linkbench,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 2] = [Load::Sysbench, Load::Linkbench];

    /// Name of the job.
    pub const fn name(self) -> &'static str {
        match self {
            Load::Sysbench => "innodb-sysbench",
            Load::Linkbench => "innodb-linkbench",
        }
    }
}

/// A load on an engine of InnoDB's shape, as a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnodbJob {
    /// The transactions.
    pub load: Load,
    /// Whether pages go to the doublewrite file first; `None` for: unless the mode logs content.
    pub doublewrite: Option<Doublewrite>,
    /// When the redo log is synced.
    pub log_syncs: LogSyncs,
    /// Transactions of all clients; `None` for 50,000.
    pub operations: Option<u32>,
    /// Clients side by side.
    pub clients: u16,
    /// What pages hold.
    pub filling: Filling,
}

/// What the pages of the engine hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// A pattern, half of which compresses; takes no memory.
    Pattern,
    /// Rows of sysbench's tables.
    Rows,
}

/// How the cleaner writes pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doublewrite {
    /// First to the doublewrite file, then in place.
    On,
    /// In place: safe where the file system writes pages whole.
    Off,
}

impl Doublewrite {
    const ALL: [Doublewrite; 2] = [Doublewrite::On, Doublewrite::Off];

    /// Name behind the job's colon.
    pub const fn name(self) -> &'static str {
        match self {
            Doublewrite::On => "double",
            Doublewrite::Off => "single",
        }
    }
}

/// When the redo log is synced (`innodb_flush_log_at_trx_commit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSyncs {
    /// By each commit (1, InnoDB's default).
    EachCommit,
    /// Once a second, and before a page is written (0): the last second of transactions may be lost.
    EachSecond,
}

/// What stands behind the job's colon for [`LogSyncs::EachSecond`].
const LAZY_LOG: &str = "lazy-log";
/// What stands there for [`Filling::Rows`].
const ROWS: &str = "rows";

impl fmt::Display for InnodbJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let writes = self.doublewrite.map(Doublewrite::name);
        let log = (self.log_syncs == LogSyncs::EachSecond).then_some(LAZY_LOG);
        let filling = (self.filling == Filling::Rows).then_some(ROWS);
        writes.into_iter().chain(log).chain(filling).try_for_each(|word| write!(f, ":{word}"))
    }
}

impl InnodbJob {
    /// A load as `papers/000` ran it: 16 clients.
    pub const fn new(load: Load) -> InnodbJob {
        let (doublewrite, log_syncs, operations) = (None, LogSyncs::EachCommit, None);
        InnodbJob { load, doublewrite, log_syncs, operations, clients: 16, filling: Filling::Pattern }
    }

    /// The job called `name`: a load, behind colons `double` or `single`, `lazy-log`, and `rows`, in this order. `None`
    /// if the name is of another kind.
    ///
    /// # Errors
    /// What does not exist; the text lists what does.
    pub fn named(name: &str) -> Option<Result<InnodbJob, LabError>> {
        name.starts_with(PREFIX).then(|| {
            let mut words = name.split(':');
            let load = words.next().and_then(|load| Load::ALL.into_iter().find(|one| one.name() == load));
            let job = load.and_then(|load| words.try_fold(InnodbJob::new(load), InnodbJob::with));
            job.ok_or_else(|| {
                let loads = Load::ALL.map(Load::name).join(", ");
                LabError::Option(format!(
                    "{name}: take one of {loads}, alone or with :double or :single, :{LAZY_LOG}, and :{ROWS}"
                ))
            })
        })
    }

    /// This job with what a word says; `None` if it says nothing, or what was said already.
    fn with(self, word: &str) -> Option<InnodbJob> {
        let doublewrite = Doublewrite::ALL.into_iter().find(|one| one.name() == word);
        let has_log = self.log_syncs == LogSyncs::EachSecond;
        match (self.filling, word) {
            (Filling::Rows, _) => None,
            (_, ROWS) => Some(InnodbJob { filling: Filling::Rows, ..self }),
            (_, LAZY_LOG) if !has_log => Some(InnodbJob { log_syncs: LogSyncs::EachSecond, ..self }),
            _ if has_log || self.doublewrite.is_some() => None,
            _ => doublewrite.map(|_| InnodbJob { doublewrite, ..self }),
        }
    }

    /// Name of the job in all its ways to write.
    pub(crate) const fn name(&self) -> &'static str {
        self.load.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_load_and_a_way_to_write() {
        let job = InnodbJob::named("innodb-sysbench:single").unwrap().unwrap();
        assert_eq!((job.load, job.doublewrite), (Load::Sysbench, Some(Doublewrite::Off)));
        assert_eq!(job.to_string(), "innodb-sysbench:single");
        for name in ["innodb-linkbench:lazy-log", "innodb-sysbench:double:lazy-log", "innodb-sysbench:lazy-log:rows"] {
            let job = InnodbJob::named(name).unwrap().unwrap();
            assert_eq!((job.log_syncs, job.to_string().as_str()), (LogSyncs::EachSecond, name));
        }
        assert!(InnodbJob::named("sqlite-gmail").is_none());
        assert_eq!(InnodbJob::named("innodb-sysbench:single:rows").unwrap().unwrap().filling, Filling::Rows);
        let doubled =
            ["innodb-sysbench:double:single", "innodb-sysbench:lazy-log:lazy-log", "innodb-sysbench:rows:single"];
        for name in ["innodb-tpcc", "innodb-linkbench:triple"].into_iter().chain(doubled) {
            let refused = InnodbJob::named(name).unwrap().unwrap_err().to_string();
            assert!(refused.contains("innodb-linkbench") && refused.contains(":single"), "{refused}");
        }
    }
}
