//! Acknowledgements to `onewrite crash --run`.

use pyo3::prelude::*;

/// Acknowledges `token` to `onewrite crash --run`: what is durable now has to be there after each later power cut.
///
/// The token is noted when this returns. FileNotFoundError if nothing listens: ONEWRITE_ACK is not set, or the run is
/// over. ValueError if the token is empty or has a line's end in it.
#[pyfunction]
pub(crate) fn acked(py: Python<'_>, token: &str) -> PyResult<()> {
    py.detach(|| onewrite_host::acked(token)).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => pyo3::exceptions::PyValueError::new_err(error.to_string()),
        std::io::ErrorKind::NotFound => pyo3::exceptions::PyFileNotFoundError::new_err(error.to_string()),
        _ => error.into(),
    })
}
