//! Failure: chooses the exit code of an error; no other place does.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the promise was broken, a row differs from its paper, or part of the work could not be done |
//! | 2 | usage or bad input: options, job files, traces, profiles, a damaged or unsupported image |
//! | 3 | the machine: I/O errors, a full disk, no permission, an image or disk in use |
//!
//! `fsck` has the codes of fsck(8) instead.

use std::error::Error;
use std::io::{self, ErrorKind};

use onewrite_block::DeviceError;
use onewrite_fs::FsError;
use onewrite_host::fuse::MountError;
use onewrite_lab::LabError;

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The promise.
    Broken = 1,
    /// The input.
    Input = 2,
    /// The machine.
    Machine = 3,
}

impl Failure {
    /// As [`Failure::of`], for a command that has an option for the size of the device. There a full device is an error
    /// of the input.
    pub fn of_sized(error: &anyhow::Error) -> Failure {
        if error.chain().any(lacks_room) { Failure::Input } else { Failure::of(error) }
    }

    /// The first known cause decides; an error without a known cause is our own and about the input.
    pub fn of(error: &anyhow::Error) -> Failure {
        error.chain().find_map(known).unwrap_or(Failure::Input)
    }
}

fn lacks_room(cause: &(dyn Error + 'static)) -> bool {
    let lab = cause.downcast_ref::<LabError>();
    let within = lab.is_some_and(|error| {
        matches!(
            error,
            LabError::Fs(FsError::NoSpace { .. }) | LabError::Operation { source: FsError::NoSpace { .. }, .. }
        )
    });
    within || matches!(cause.downcast_ref(), Some(FsError::NoSpace { .. }))
}

fn known(cause: &(dyn Error + 'static)) -> Option<Failure> {
    if let Some(error) = cause.downcast_ref::<LabError>() {
        return Some(of_lab(error));
    }
    if let Some(error) = cause.downcast_ref::<FsError>() {
        return Some(of_fs(error));
    }
    if let Some(error) = cause.downcast_ref::<onewrite_device::Error>() {
        return Some(of_setup(error));
    }
    if let Some(error) = cause.downcast_ref::<MountError>() {
        return Some(of_mount(error));
    }
    if cause.is::<DeviceError>() {
        return Some(Failure::Machine);
    }
    cause.downcast_ref::<io::Error>().map(|error| of_kind(error.kind()))
}

fn of_lab(error: &LabError) -> Failure {
    match error {
        LabError::Verify { .. } | LabError::Missed(_) => Failure::Broken,
        LabError::Full { .. } | LabError::WriteFile { .. } | LabError::Raw { .. } | LabError::Halt(_) => {
            Failure::Machine
        }
        LabError::ReadFile { message, .. } if is_broken_medium(message) => Failure::Machine,
        LabError::DeviceSetup(error) => of_setup(error),
        LabError::Operation { source: error, .. } | LabError::Fs(error) => of_fs(error),
        _ => Failure::Input,
    }
}

/// Whether the message is the system's text of EIO.
fn is_broken_medium(message: &str) -> bool {
    message == io::Error::from_raw_os_error(5).to_string()
}

fn of_fs(error: &FsError) -> Failure {
    match error {
        FsError::Device(_) | FsError::NoSpace { .. } | FsError::ReadOnly(_) => Failure::Machine,
        _ => Failure::Input,
    }
}

fn of_setup(error: &onewrite_device::Error) -> Failure {
    match error {
        onewrite_device::Error::Busy { .. } => Failure::Machine,
        onewrite_device::Error::Host { kind, .. } => of_kind(*kind),
        _ => Failure::Input,
    }
}

fn of_mount(error: &MountError) -> Failure {
    match error {
        MountError::Directory { error, .. } => of_kind(error.kind()),
        MountError::NoMount { .. } => Failure::Input,
        _ => Failure::Machine,
    }
}

/// A missing path, or one of the wrong kind, is an error of the input.
fn of_kind(kind: ErrorKind) -> Failure {
    match kind {
        ErrorKind::NotFound
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof => Failure::Input,
        _ => Failure::Machine,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn the_first_cause_that_knows_decides() {
        let code = |error: anyhow::Error| Failure::of(&error);
        let full = io::Error::from(ErrorKind::StorageFull);
        assert_eq!(code(anyhow::Error::from(full).context("cannot write a")), Failure::Machine);
        assert_eq!(code(anyhow!("--modes is empty")), Failure::Input);
        assert_eq!(code(LabError::Missed("a: rate_min=1 was not met".to_owned()).into()), Failure::Broken);
        let device = FsError::Device(DeviceError::FlushFailed);
        assert_eq!(code(LabError::Fs(device).into()), Failure::Machine);
        let none = Err::<(), _>(io::Error::from(ErrorKind::NotFound)).context("job.fio").unwrap_err();
        assert_eq!(code(none), Failure::Input);
        let (path, medium) = ("a".to_owned(), io::Error::from_raw_os_error(5).to_string());
        assert_eq!(code(LabError::ReadFile { path, message: medium }.into()), Failure::Machine);
        let room = || LabError::Fs(FsError::NoSpace { what: "blocks", needed: 2, free: 0 }).into();
        assert_eq!((code(room()), Failure::of_sized(&room())), (Failure::Machine, Failure::Input));
    }
}
