//! Failure: errors as Python's exceptions.

use std::path::Path;

use onewrite_host::VolumeError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// `OSError` with the number of Linux; Python makes `FileNotFoundError` and the like of it.
pub fn of_volume(error: VolumeError) -> PyErr {
    PyOSError::new_err((error.errno(), error.to_string()))
}

/// The same of an image that cannot be opened or made; it names the image.
pub fn of_image(image: &Path, error: VolumeError) -> PyErr {
    PyOSError::new_err((error.errno(), error.to_string(), image.to_owned()))
}

/// `ValueError` for an argument that makes no sense.
pub fn of_value(name: &str, problem: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {problem}"))
}
