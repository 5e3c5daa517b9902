//! `onewrite mv`, `rm` and `mkdir`: change names in an image.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{AnyFs, FileSystem, FsError, FsResult, NewNode, RenameManner};
use onewrite_lab::transfer::{Left, remove};
use onewrite_lab::{LabError, is_same_file};

use super::cp::{directory, tell_left};
use crate::args::{Mkdir, Mv, Rm};
use crate::open::{Changes, named_place, with_image};
use crate::progress::Copying;

/// Moves all places except the last to the last place.
pub fn mv(args: &Mv) -> anyhow::Result<ExitCode> {
    let places = taken_apart(&args.places)?;
    let ((image, target), sources) = places.split_last().expect("clap asks for two places");
    if let Some((other, _)) = sources.iter().find(|(other, _)| other != image && !is_same_file(other, image)) {
        let (other, image) = (other.display(), image.display());
        bail!("{other} and {image} are two images; copy with `onewrite cp`, then `onewrite rm`");
    }
    let (target, sources) = (target.clone(), sources.to_vec());
    let left = with_image(image, Changes::Kept, async move |fs| {
        let directory = directory(fs, &target).await?;
        if sources.len() > 1 && directory.is_none() {
            bail!("{target} is not a directory, so it cannot take several things; `onewrite mkdir` makes one");
        }
        let mut left = Left::default();
        for (_, path) in &sources {
            let moved = async {
                let (parent, name) = split_path(path.as_bytes())?;
                let parent = resolve(fs, parent).await?;
                let (into, new_name) = match directory {
                    Some(directory) => (directory, name),
                    None => {
                        let (into, new_name) = split_path(target.as_bytes())?;
                        (resolve(fs, into).await?, new_name)
                    }
                };
                fs.rename((parent, name), (into, new_name), RenameManner::Replace).await
            };
            note(&mut left, path, moved.await.map_err(LabError::from))?;
        }
        Ok(left)
    })?;
    Ok(tell_left(&left))
}

/// Removes every place.
pub fn rm(args: &Rm) -> anyhow::Result<ExitCode> {
    let recursive = args.recursive;
    change_each(&args.places, async move |fs, path| remove_one(fs, path, recursive).await)
}

async fn remove_one<F: FileSystem>(fs: &F, path: &str, recursive: bool) -> Result<(), LabError> {
    let (parent, name) = split_path(path.as_bytes())?;
    if name == b"." || name == b".." {
        return Err(LabError::Option("`.` and `..` cannot be removed; name the directory".into()));
    }
    let parent = resolve(fs, parent).await?;
    match fs.unlink(parent, name).await {
        Err(FsError::IsDirectory(_)) if recursive => remove(fs, parent, name, &mut Copying::new("rm")).await,
        Err(FsError::IsDirectory(_)) => {
            Err(LabError::Option("it is a directory; -r removes it with all that lies below".into()))
        }
        other => Ok(other?),
    }
}

/// Makes a directory at every place.
pub fn mkdir(args: &Mkdir) -> anyhow::Result<ExitCode> {
    let parents = args.parents;
    change_each(&args.places, async move |fs, path| {
        let made = if parents { make_all(fs, path).await } else { make(fs, path).await };
        made.map_err(LabError::from)
    })
}

/// Applies `change` to every place, image by image, and reports the failures.
fn change_each<C>(places: &[String], change: C) -> anyhow::Result<ExitCode>
where
    C: AsyncFn(&AnyFs, &str) -> Result<(), LabError> + Clone + 'static,
{
    let mut left = Left::default();
    for (image, paths) in by_image(places)? {
        let (so_far, change) = (std::mem::take(&mut left), change.clone());
        left = with_image(&image, Changes::Kept, async move |fs| {
            let mut left = so_far;
            for path in &paths {
                note(&mut left, path, change(fs, path).await)?;
            }
            Ok(left)
        })?;
    }
    Ok(tell_left(&left))
}

async fn make<F: FileSystem>(fs: &F, path: &str) -> FsResult<()> {
    let (parent, name) = split_path(path.as_bytes())?;
    let parent = resolve(fs, parent).await.map_err(|error| match error {
        FsError::NotFound(name) => FsError::NotFound(format!("{name}; -p makes the directories above, too")),
        other => other,
    })?;
    fs.create(parent, name, NewNode::DIRECTORY).await.map(drop)
}

async fn make_all<F: FileSystem>(fs: &F, path: &str) -> FsResult<()> {
    let ends = path.bytes().enumerate().filter(|&(at, byte)| at > 0 && byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let part = &path[..end];
        if directory(fs, part).await?.is_none() {
            make(fs, part).await?;
        }
    }
    Ok(())
}

/// Notes a failure of one place; returns an error if it also prevents all others.
fn note(left: &mut Left, path: &str, outcome: Result<(), LabError>) -> anyhow::Result<()> {
    match outcome {
        Err(error @ LabError::Fs(FsError::Device(_) | FsError::ReadOnly(_) | FsError::NoSpace { .. })) => {
            Err(error).with_context(|| path.to_owned())
        }
        Err(error @ LabError::Stopped) => Err(error.into()),
        Err(error) => {
            left.add(path.as_bytes().to_vec(), error.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn taken_apart(places: &[String]) -> anyhow::Result<Vec<(PathBuf, String)>> {
    places.iter().map(|place| named_place(place)).collect()
}

/// The paths in each image; images are in the order in which they were named.
fn by_image(places: &[String]) -> anyhow::Result<Vec<(PathBuf, Vec<String>)>> {
    let mut images: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for (image, path) in taken_apart(places)? {
        match images.iter_mut().find(|(known, _)| *known == image) {
            Some((_, paths)) => paths.push(path),
            None => images.push((image, vec![path])),
        }
    }
    Ok(images)
}
