//! The laboratory from outside: jobs, driver and reports on a file system in memory and on RAM disks.

mod cache;
mod docs;
mod driver;
mod examples;
mod fio_judge;
mod fio_keys;
mod goals;
mod group_commit;
mod innodb;
mod memory;
mod mkfs;
mod report;
mod session;
mod sqlite;
mod sqlite_cuts;
mod support;
mod trace;
