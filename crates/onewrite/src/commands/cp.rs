//! `onewrite cp`

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::ext4::Ext4;
use onewrite_fs::{FileKind, FileSystem, FsError, Ino};
use onewrite_lab::transfer::{Transferred, copy_in, copy_out};

use crate::args::Cp;
use crate::open::{split_place, with_image};

/// Copies everything but the last place to the last place.
pub fn cp(args: &Cp) -> anyhow::Result<()> {
    let (target, sources) = args.places.split_last().expect("clap asks for two places");
    for source in sources {
        let copied = match (split_place(source), split_place(target)) {
            (None, Some((image, path))) => copy_to_image(PathBuf::from(source), &image, path, sources.len() > 1),
            (Some((image, path)), None) => copy_from_image(&image, path, PathBuf::from(target), sources.len() > 1),
            (Some(_), Some(_)) => bail!("both are in images; copy out to the host first, then in"),
            (None, None) => bail!("neither `{source}` nor `{target}` is in an image; write IMAGE:/PATH, or use cp"),
        };
        let Transferred { files, directories, others, bytes } = copied.with_context(|| source.clone())?;
        outln!("{source}: {files} files, {directories} directories, {others} other entries, {bytes} bytes");
    }
    Ok(())
}

fn copy_to_image(source: PathBuf, image: &Path, path: String, into: bool) -> anyhow::Result<Transferred> {
    let source = source.canonicalize().with_context(|| source.display().to_string())?;
    with_image(image, true, async move |fs| {
        let own = source.file_name().map(|name| name.as_bytes().to_vec());
        if let Some(directory) = directory(fs, &path).await? {
            let name = own.context("it has no name to copy it under")?;
            return Ok(copy_in(fs, &source, directory, Some(&name)).await?);
        }
        if into {
            bail!("{path} is not a directory, so it cannot take several things");
        }
        let (parent, name) = split_path(path.as_bytes())?;
        let parent = resolve(fs, parent).await?;
        Ok(copy_in(fs, &source, parent, Some(name)).await?)
    })
}

/// The directory at `path`, if there is one.
async fn directory(fs: &Ext4, path: &str) -> anyhow::Result<Option<Ino>> {
    match resolve(fs, path.as_bytes()).await {
        Ok(ino) => Ok((fs.attributes(ino).await?.kind == FileKind::Directory).then_some(ino)),
        Err(FsError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn copy_from_image(image: &Path, path: String, target: PathBuf, into: bool) -> anyhow::Result<Transferred> {
    if into && !target.is_dir() {
        bail!("{} is not a directory, so it cannot take several things", target.display());
    }
    with_image(image, false, async move |fs| {
        let ino = resolve(fs, path.as_bytes()).await.with_context(|| path.clone())?;
        let own = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let target = match target.is_dir() && !own.is_empty() {
            true => target.join(OsStr::from_bytes(own.as_bytes())),
            false => target,
        };
        Ok(copy_out(fs, ino, &target).await?)
    })
}
