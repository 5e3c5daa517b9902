//! File: an open file of an image, at the level of system calls; Python buffers.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::of_volume;

/// An open file of a `Volume`. It lives without a name until this object goes.
#[pyclass(frozen, module = "onewrite._native")]
pub struct File(pub onewrite_host::File);

/// Most bytes of one call, so that none keeps the others of the image waiting for long.
const PIECE_BYTES: usize = 1 << 20;

#[pymethods]
impl File {
    /// Up to `length` bytes from `offset`, at most 1 MiB; none only at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let length = length.min(PIECE_BYTES) as u64;
        let bytes = py.detach(|| self.0.read_at(offset, length)).map_err(of_volume)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes what it takes of `data` at `offset`: at most 1 MiB. Returns the number of bytes.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<usize> {
        let piece = &data[..data.len().min(PIECE_BYTES)];
        py.detach(|| self.0.write_at(offset, piece)).map_err(of_volume)?;
        Ok(piece.len())
    }

    /// Writes `data` behind the end, in one piece. Returns where it begins, in bytes.
    fn append(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        py.detach(|| self.0.append(data)).map_err(of_volume)
    }

    /// Cuts the file to `size` bytes, or extends it with zeros.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        py.detach(|| self.0.set_size(size)).map_err(of_volume)
    }

    /// Size in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(py.detach(|| self.0.metadata()).map_err(of_volume)?.size)
    }

    /// Makes content, attributes and name durable: they survive a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.sync()).map_err(of_volume)
    }
}
