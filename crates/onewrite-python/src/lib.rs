//! The Python door: `onewrite._native`, on which the package `onewrite` stands. `docs/python.md` shows it in use.
//!
//! Its one idea: little is native. An image is a [`Volume`](volume::Volume) with blocking calls; what Python programs
//! see of it (an fsspec file system, data frames) is written in Python.
//!
//! # Invariants
//! - No call holds the interpreter's lock while it waits or computes.
//! - An error is an exception with the text of the command line; `OSError` has the number of Linux.
#![deny(unreachable_pub)]

mod acked;
mod draft;
mod failure;
mod file;
mod lab;
mod metadata;
mod options;
mod stop;
mod volume;

use pyo3::prelude::*;

/// The native part of the package `onewrite`; use that instead.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::acked::acked;
    #[pymodule_export]
    use crate::draft::{Draft, DraftFile};
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::lab::{cache, crash, run};
    #[pymodule_export]
    use crate::metadata::Metadata;
    #[pymodule_export]
    use crate::volume::{Volume, mkfs};
}
