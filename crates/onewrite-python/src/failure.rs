//! Failure: errors as Python's exceptions.

use std::path::Path;

use onewrite_host::VolumeError;
use onewrite_lab::LabError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// `OSError` with the number of Linux; Python makes `FileNotFoundError` and the like of it.
pub(crate) fn of_volume(error: VolumeError) -> PyErr {
    PyOSError::new_err((error.errno(), error.to_string()))
}

/// The same of an image that cannot be opened or made; it names the image.
pub(crate) fn of_image(image: &Path, error: VolumeError) -> PyErr {
    PyOSError::new_err((error.errno(), error.to_string(), image.to_owned()))
}

/// `ValueError` for an argument that makes no sense.
pub(crate) fn of_value(name: &str, problem: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {problem}"))
}

/// `ValueError` for what was asked, `OSError` for what the machine refuses, `RuntimeError` for a run that failed.
/// Options are called as in Python: `--cache-size` is `cache_size`.
pub(crate) fn of_lab(error: LabError) -> PyErr {
    let text = in_python(&error.to_string());
    match error {
        LabError::Operation { .. }
        | LabError::Raw { .. }
        | LabError::Verify { .. }
        | LabError::Missed(_)
        | LabError::Stopped
        | LabError::Halt(_) => PyRuntimeError::new_err(text),
        LabError::ReadFile { .. } | LabError::WriteFile { .. } | LabError::Full { .. } => PyOSError::new_err(text),
        LabError::DeviceSetup(error) => match VolumeError::from(error) {
            error if error.errno() == EIO => PyValueError::new_err(text),
            error => PyOSError::new_err((error.errno(), text)),
        },
        LabError::Fs(error) => of_volume(VolumeError::from(error)),
        _ => PyValueError::new_err(text),
    }
}

/// The number of an error that `VolumeError` has no better one for: here one of the profile.
const EIO: i32 = 5;

/// The names of options in `text` as Python has them.
fn in_python(text: &str) -> String {
    let mut words = text.split("--");
    let mut told = words.next().unwrap_or_default().to_owned();
    for word in words {
        let end = word.find(|letter: char| !(letter.is_ascii_lowercase() || letter == '-')).unwrap_or(word.len());
        told += &word[..end].replace('-', "_");
        told += &word[end..];
    }
    told
}
