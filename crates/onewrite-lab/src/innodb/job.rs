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

impl fmt::Display for InnodbJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.doublewrite {
            None => f.write_str(self.name()),
            Some(doublewrite) => write!(f, "{}:{}", self.name(), doublewrite.name()),
        }
    }
}

impl InnodbJob {
    /// A load as `papers/000` ran it: 16 clients.
    pub const fn new(load: Load) -> InnodbJob {
        InnodbJob { load, doublewrite: None, operations: None, clients: 16, filling: Filling::Pattern }
    }

    /// The job called `name`: a load, and behind a colon `double` or `single`. `None` if the name is of another kind.
    ///
    /// # Errors
    /// What does not exist; the text lists what does.
    pub fn named(name: &str) -> Option<Result<InnodbJob, LabError>> {
        name.starts_with(PREFIX).then(|| {
            let (load, writes) = name.split_once(':').map_or((name, None), |(load, writes)| (load, Some(writes)));
            let found = Load::ALL.into_iter().find(|one| one.name() == load);
            let writes = writes.map(|writes| Doublewrite::ALL.into_iter().find(|one| one.name() == writes).ok_or(()));
            match (found, writes.transpose()) {
                (Some(load), Ok(doublewrite)) => Ok(InnodbJob { doublewrite, ..InnodbJob::new(load) }),
                _ => {
                    let loads = Load::ALL.map(Load::name).join(", ");
                    Err(LabError::Option(format!("{name}: take one of {loads}, alone or with :double or :single")))
                }
            }
        })
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
        assert!(InnodbJob::named("sqlite-gmail").is_none());
        for name in ["innodb-tpcc", "innodb-linkbench:triple"] {
            let refused = InnodbJob::named(name).unwrap().unwrap_err().to_string();
            assert!(refused.contains("innodb-linkbench") && refused.contains(":single"), "{refused}");
        }
    }
}
