//! Volume: an image in this process, by blocking calls. Paths are bytes, from the root of the image.

use std::path::PathBuf;

use onewrite_block::{Nanos, PAGE_SIZE};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{AttributeChanges, NewNode, RenameManner, Timestamp};
use onewrite_host::{SharedRange, Volume as HostVolume, VolumeError, make_image};
use onewrite_lab::size;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::draft::Draft;
use crate::failure::{of_image, of_value, of_volume};
use crate::file::File;
use crate::metadata::Metadata;

/// A name of a directory, and what it names.
type Entry = (Py<PyBytes>, Metadata);

/// A range to share: source, byte there, target, byte there, length.
type Range = (Py<File>, u64, Py<File>, u64, u64);

/// Makes an image of `size` ("64MiB") at `path` with an empty ext4 in it. Refuses a path that is taken.
#[pyfunction]
pub(crate) fn mkfs(py: Python<'_>, path: PathBuf, size: &str) -> PyResult<()> {
    let bytes = size::bytes(size).map_err(|problem| of_value("size", problem))?;
    py.detach(|| make_image(&path, bytes)).map_err(|error| of_image(&path, error))
}

/// An open image. Any thread may use it; calls of several threads overlap, and their syncs share commits.
#[pyclass(frozen, module = "onewrite._native")]
pub struct Volume(HostVolume);

#[pymethods]
impl Volume {
    /// Opens the image or disk at `path` in journal mode `mode`; `cache` is the size of the page cache ("64MiB"),
    /// `commit_seconds` the age at which changes commit by themselves.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        read_only: bool,
        cache: &str,
        commit_seconds: u32,
    ) -> PyResult<Volume> {
        let mode: Mode = mode.parse().map_err(|problem| of_value("mode", problem))?;
        let options = MountOptions {
            read_only,
            cache_pages: cache_pages(cache)?,
            commit_interval: interval(commit_seconds)?,
            ..MountOptions::for_programs(mode)
        };
        py.detach(|| HostVolume::open(&path, options)).map(Volume).map_err(|error| of_image(&path, error))
    }

    /// Opens a file.
    fn open_file(&self, py: Python<'_>, path: &[u8]) -> PyResult<File> {
        call(py, || self.0.open_file(path)).map(File)
    }

    /// Opens a file; makes it if it is not there.
    fn open_or_create(&self, py: Python<'_>, path: &[u8]) -> PyResult<File> {
        call(py, || self.0.open_or_create(path, NewNode::FILE)).map(File)
    }

    /// Makes a file that is not there, and opens it.
    fn create(&self, py: Python<'_>, path: &[u8]) -> PyResult<File> {
        call(py, || self.0.create(path)).map(File)
    }

    /// Makes a directory.
    fn create_directory(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        call(py, || self.0.create_directory(path))
    }

    /// Gives what lies at `path` a second name.
    fn link(&self, py: Python<'_>, path: &[u8], link: &[u8]) -> PyResult<()> {
        call(py, || self.0.link(path, link))
    }

    /// Makes a symbolic link at `path` that leads to `target`.
    fn symlink(&self, py: Python<'_>, path: &[u8], target: &[u8]) -> PyResult<()> {
        call(py, || self.0.symlink(path, target))
    }

    /// Where the symbolic link at `path` leads.
    fn read_link<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &call(py, || self.0.read_link(path))?))
    }

    /// Removes a name of anything but a directory.
    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        call(py, || self.0.remove(path))
    }

    /// Removes an empty directory.
    fn remove_directory(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        call(py, || self.0.remove_directory(path))
    }

    /// Moves a name in one step, and replaces what has the new one.
    fn rename(&self, py: Python<'_>, source: &[u8], target: &[u8]) -> PyResult<()> {
        call(py, || self.0.rename(source, target, RenameManner::Replace))
    }

    /// What is known of what lies at `path`; symbolic links are followed if `follows`.
    fn metadata(&self, py: Python<'_>, path: &[u8], follows: bool) -> PyResult<Metadata> {
        let found = call(py, || match follows {
            true => self.0.metadata_followed(path),
            false => self.0.metadata(path),
        });
        found.map(Metadata::from)
    }

    /// The names in a directory, each with what is known of it. A name that goes meanwhile is left out.
    fn read_directory(&self, py: Python<'_>, path: &[u8]) -> PyResult<Vec<Entry>> {
        let found = call(py, || {
            let entries = self.0.read_directory(path)?.into_iter();
            let known = entries.map(|entry| {
                let metadata = self.0.metadata([path, b"/", &entry.name].concat());
                (entry.name, metadata)
            });
            Ok(known.collect::<Vec<_>>())
        })?;
        let told = found.into_iter().filter(|(_, metadata)| !matches!(metadata, Err(error) if error.errno() == 2));
        told.map(|(name, metadata)| Ok((PyBytes::new(py, &name).unbind(), metadata.map_err(of_volume)?.into())))
            .collect()
    }

    /// Sets when content was last changed, in nanoseconds since 1970.
    fn set_modified(&self, py: Python<'_>, path: &[u8], nanoseconds: u64) -> PyResult<()> {
        let time = Some(Timestamp::from_nanos(Nanos(nanoseconds)));
        let changes = AttributeChanges { accessed: time, modified: time, ..AttributeChanges::default() };
        call(py, || self.0.set_attributes(path, changes))
    }

    /// Room for content and files: bytes, free bytes, inodes, free inodes.
    fn space(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let space = call(py, || self.0.space())?;
        let bytes = |blocks: u64| blocks * PAGE_SIZE as u64;
        Ok((bytes(space.blocks), bytes(space.blocks_free), space.inodes, space.inodes_free))
    }

    /// Begins a draft.
    fn atomic(&self, py: Python<'_>) -> PyResult<Draft> {
        Draft::begin(py, &self.0)
    }

    /// Makes the target of every range (source, byte there, target, byte there, length) read as its source does, as one
    /// durable step.
    fn share(&self, py: Python<'_>, ranges: Vec<Range>) -> PyResult<()> {
        let ranges: Vec<_> = ranges
            .iter()
            .map(|(source, source_offset, target, target_offset, length)| SharedRange {
                source: &source.get().0,
                source_offset: *source_offset,
                target: &target.get().0,
                target_offset: *target_offset,
                length: *length,
            })
            .collect();
        call(py, || self.0.share(&ranges))
    }

    /// Makes everything durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.sync())
    }

    /// Unmounts: the image is clean, and free for others. Every other call fails from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.clone().close())
    }
}

/// Calls the volume without the interpreter's lock.
fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, VolumeError> + Send) -> PyResult<T> {
    py.detach(work).map_err(of_volume)
}

fn cache_pages(text: &str) -> PyResult<usize> {
    let bytes = size::bytes(text).map_err(|problem| of_value("cache", problem))?;
    let (pages, least) = (usize::try_from(bytes).unwrap_or(usize::MAX) / PAGE_SIZE, MountOptions::CACHE_PAGES_MIN);
    match pages < least {
        true => Err(of_value("cache", format!("{bytes} bytes are too few; at least {}", least * PAGE_SIZE))),
        false => Ok(pages),
    }
}

fn interval(seconds: u32) -> PyResult<Nanos> {
    match seconds {
        1..=86_400 => Ok(Nanos::from_secs(seconds.into())),
        _ => Err(of_value("commit_seconds", format!("{seconds} is not from 1 to 86400"))),
    }
}
