//! Draft: changes of several files as one step, at the level of system calls.

use std::sync::{Mutex, PoisonError};

use onewrite_host::{Draft as HostDraft, DraftFile as HostDraftFile, Volume as HostVolume, VolumeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::of_volume;

/// A draft of a `Volume`; empty after its end.
#[pyclass(frozen, module = "onewrite._native")]
pub struct Draft(Mutex<Option<HostDraft>>);

/// A file as its draft has it.
#[pyclass(frozen, module = "onewrite._native")]
pub struct DraftFile(HostDraftFile);

impl Draft {
    /// Begins a draft of `volume`.
    pub fn begin(py: Python<'_>, volume: &HostVolume) -> PyResult<Draft> {
        let draft = py.detach(|| volume.atomic()).map_err(of_volume)?;
        Ok(Draft(Mutex::new(Some(draft))))
    }

    /// Calls the draft without the interpreter's lock.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&HostDraft) -> Result<T, VolumeError> + Send,
    ) -> PyResult<T> {
        let called = py.detach(|| {
            let draft = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            draft.as_ref().map_or(Err(VolumeError::Closed), work)
        });
        called.map_err(of_volume)
    }
}

#[pymethods]
impl Draft {
    /// Gives the draft the right to change a regular file.
    fn claim(&self, py: Python<'_>, path: &[u8]) -> PyResult<DraftFile> {
        self.call(py, |draft| draft.claim(path)).map(DraftFile)
    }

    /// Makes a file that gets its name with the commit.
    fn create(&self, py: Python<'_>, path: &[u8]) -> PyResult<DraftFile> {
        self.call(py, |draft| draft.create(path)).map(DraftFile)
    }

    /// Removes a name of a file with the commit.
    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.call(py, |draft| draft.remove(path))
    }

    /// Moves a name of a file with the commit, and replaces what has the new one.
    fn rename(&self, py: Python<'_>, source: &[u8], target: &[u8]) -> PyResult<()> {
        self.call(py, |draft| draft.rename(source, target))
    }

    /// Makes all changes visible and durable, as one step.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, HostDraft::commit)
    }

    /// Whether there is anything to commit.
    fn is_changed(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, HostDraft::is_changed)
    }

    /// Drops the changes since the last commit.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, HostDraft::abort)
    }

    /// Drops what was not committed and gives up the files. Does nothing the second time.
    fn end(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

#[pymethods]
impl DraftFile {
    /// Up to `length` bytes from `offset`; none only at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.read_at(offset, length as u64)).map_err(of_volume)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes all of `data` at `offset`. Returns the number of bytes.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<usize> {
        py.detach(|| self.0.write_at(offset, data)).map_err(of_volume)?;
        Ok(data.len())
    }

    /// Writes `data` behind the end. Returns where it begins, in bytes.
    fn append(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        py.detach(|| self.0.append(data)).map_err(of_volume)
    }

    /// Cuts the file to `size` bytes, or extends it with zeros.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        py.detach(|| self.0.set_size(size)).map_err(of_volume)
    }

    /// Size in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.0.size()).map_err(of_volume)
    }
}
