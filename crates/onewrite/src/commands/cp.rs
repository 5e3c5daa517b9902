//! `onewrite cp`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use onewrite_block::Runtime;
use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{AnyFs, FileKind, FileSystem, FileView, FsError, Ino};
use onewrite_lab::transfer::{CopyIn, CopyOut, HostNode, HostTree, Keep, Left, Origin, Source, Transferred, Tree};
use onewrite_lab::{LabError, is_same_file};

use crate::args::Cp;
use crate::escape;
use crate::open::{Beside, Changes, beside, split_place, tell_losses, with_image_and, with_view};
use crate::progress::Copying;
use crate::stop::Changing;

/// Most symbolic links followed in a row, as in Linux.
const LINKS_MAX: u32 = 40;

/// Copies all places except the last to the last place.
pub fn cp(args: &Cp) -> anyhow::Result<ExitCode> {
    let (target, sources) = args.places.split_last().expect("clap asks for two places");
    let several = sources.len() > 1;
    let groups = Group::of(sources);
    if let Some((image, path)) = split_place(target) {
        return with_image_and(&image.clone(), Changes::Kept, async move |fs, runtime| {
            let mut report = Report::default();
            let target = Target::of(fs, &path, several).await?;
            for group in groups {
                group.copy_in(fs, runtime, (&image, &target), &mut report).await?;
            }
            Ok(report)
        })?
        .tell();
    }
    // A stop removes incomplete copies on the host.
    let _changing = Changing::begin()?;
    let keep = if args.preserve { Keep::All } else { Keep::Content };
    let target = HostTarget::of(Path::new(target), several, &groups)?;
    let mut whole = Report::default();
    for group in groups {
        let image = group.image.clone().expect("checked above");
        let (target, report) = (target.clone(), std::mem::take(&mut whole));
        let viewed = with_view(&image, args.rescue, async move |fs| group.copy_out(fs, &target, keep, report).await)?;
        let mut left = Left::default();
        whole = viewed.told(&mut left);
        whole.left.append(left);
        if whole.broken.is_some() {
            break;
        }
    }
    whole.tell()
}

/// What was copied, and what was not.
#[derive(Default)]
pub struct Report {
    done: Vec<(String, Transferred)>,
    pub left: Left,
    /// The error that ended the copy.
    pub broken: Option<LabError>,
}

impl Report {
    /// Notes the outcome of one source. False if nothing else can be copied.
    fn file(&mut self, source: &str, outcome: Result<Transferred, LabError>) -> bool {
        match outcome {
            Ok(transferred) => self.done.push((source.to_owned(), transferred)),
            Err(error @ (LabError::ReadFile { .. } | LabError::Option(_))) => {
                self.left.add(source.as_bytes().to_vec(), error.to_string());
            }
            Err(error) => self.broken = Some(error),
        }
        self.broken.is_none()
    }

    fn tell(self) -> anyhow::Result<ExitCode> {
        for (source, Transferred { files, directories, others, bytes }) in &self.done {
            outln!("{source}: {files} files, {directories} directories, {others} other entries, {bytes} bytes");
        }
        let code = tell_left(&self.left);
        self.broken.map_or(Ok(code), |error| Err(error.into()))
    }
}

/// Reports on standard error what was left out. The exit code is 1 if there is anything.
pub fn tell_left(left: &Left) -> ExitCode {
    for out in &left.first {
        errln!("onewrite: {}: {}", escape::name(&out.path), escape::message(&out.problem).replace('\n', "\\n"));
    }
    let more = left.count - left.first.len() as u64;
    if more > 0 {
        errln!("onewrite: and {more} more");
    }
    if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Sources in one image or on the host.
struct Group {
    image: Option<PathBuf>,
    /// Each source as written on the command line, and its path.
    places: Vec<(String, String)>,
}

impl Group {
    /// Groups sources by image, so that files with several names keep their hard links.
    fn of(sources: &[String]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for source in sources {
            let (image, path) = match split_place(source) {
                Some((image, path)) => (Some(image), path),
                None => (None, source.clone()),
            };
            let place = (source.clone(), path);
            match groups.iter_mut().find(|group| group.image == image) {
                Some(group) => group.places.push(place),
                None => groups.push(Group { image, places: vec![place] }),
            }
        }
        groups
    }

    async fn copy_in(
        &self,
        fs: &AnyFs,
        runtime: &Runtime,
        (image, target): (&Path, &Target),
        report: &mut Report,
    ) -> anyhow::Result<()> {
        match &self.image {
            _ if report.broken.is_some() => (),
            None => self.copy_from_host(fs, (image, target), report).await?,
            Some(own) if own == image || is_same_file(own, image) => {
                self.copy_from(&Tree(fs), fs, (target, Origin::Target), report).await;
            }
            Some(other) => match beside(runtime, other).await? {
                Beside::Mounted(other) => {
                    self.copy_from(&Tree(&*other), fs, (target, Origin::Elsewhere), report).await;
                    other.unmount().await?;
                }
                Beside::Viewed(view) => {
                    self.copy_from(&Tree(&view), fs, (target, Origin::Elsewhere), report).await;
                    tell_losses(&other.display().to_string(), view.losses(), &mut report.left);
                }
            },
        }
        Ok(())
    }

    async fn copy_from<F: FileView>(
        &self,
        tree: &Tree<'_, F>,
        fs: &AnyFs,
        (target, origin): (&Target, Origin),
        report: &mut Report,
    ) {
        let found = self.resolved(tree.0).await;
        let mut left = std::mem::take(&mut report.left);
        let mut watcher = Copying::new("cp");
        watcher.weigh(tree, found.iter().flatten().copied()).await;
        let mut copy = CopyIn::new((fs, tree, origin), &mut watcher, &mut left);
        for ((source, path), found) in self.places.iter().zip(found) {
            let outcome = match found {
                Ok(ino) => target.take(&mut copy, &ino, source, own_name(path)).await,
                Err(error) => Err(error),
            };
            if !report.file(source, outcome) {
                break;
            }
        }
        drop(copy);
        report.left.append(left);
    }

    async fn copy_from_host(
        &self,
        fs: &AnyFs,
        (image, target): (&Path, &Target),
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let tree = HostTree::new()?.without(image);
        let found: Vec<_> = self.places.iter().map(|(_, path)| on_host(&tree, path)).collect();
        let mut left = std::mem::take(&mut report.left);
        let mut watcher = Copying::new("cp");
        watcher.weigh(&tree, found.iter().flatten().map(|(node, _)| node.clone())).await;
        let mut copy = CopyIn::new((fs, &tree, Origin::Elsewhere), &mut watcher, &mut left);
        for ((source, _), found) in self.places.iter().zip(found) {
            let outcome = match found {
                Ok((node, own)) => target.take(&mut copy, &node, source, own.as_deref()).await,
                Err(error) => Err(error),
            };
            if !report.file(source, outcome) {
                break;
            }
        }
        drop(copy);
        report.left.append(left);
        Ok(())
    }

    async fn copy_out<F: FileView>(
        &self,
        fs: &F,
        target: &HostTarget,
        keep: Keep,
        mut report: Report,
    ) -> anyhow::Result<Report> {
        let (tree, mut left) = (Tree(fs), std::mem::take(&mut report.left));
        let found = self.resolved(fs).await;
        let mut watcher = Copying::new("cp");
        watcher.weigh(&tree, found.iter().flatten().copied()).await;
        let mut copy = CopyOut::new(&tree, &target.directory, keep, &mut watcher, &mut left)?;
        for ((source, path), found) in self.places.iter().zip(found) {
            let name = target.name.as_deref().or(own_name(path));
            let outcome = match found {
                Ok(ino) => copy.tree(&ino, name).await,
                Err(error) => Err(error),
            };
            if !report.file(source, outcome) {
                break;
            }
        }
        drop(copy);
        report.left.append(left);
        Ok(report)
    }

    /// Inode of each place in the image.
    async fn resolved<F: FileView>(&self, fs: &F) -> Vec<Result<Ino, LabError>> {
        let mut found = Vec::new();
        for (_, path) in &self.places {
            found.push(resolve(fs, path.as_bytes()).await.map_err(|error| LabError::Option(error.to_string())));
        }
        found
    }
}

/// The node at `path` on the host, and its own name; none where [`own_name`] has none.
fn on_host(tree: &HostTree, path: &str) -> Result<(HostNode, Option<Vec<u8>>), LabError> {
    let found = Path::new(path).canonicalize().map_err(|error| LabError::Option(error.to_string()))?;
    let own = own_name(path).and(found.file_name()).map(|name| name.as_encoded_bytes().to_vec());
    Ok((tree.at(&found)?, own))
}

/// The last name of a path; none for the root and for directories named by `.` or `..`, whose content is copied.
fn own_name(path: &str) -> Option<&[u8]> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Some(name.as_bytes()).filter(|name| !matches!(*name, b"" | b"." | b".."))
}

/// Where copies in an image go.
enum Target {
    /// Into a directory, each under its own name.
    Into(Ino),
    /// Into a directory under this name.
    As(Ino, Vec<u8>),
}

impl Target {
    async fn of(fs: &AnyFs, path: &str, several: bool) -> anyhow::Result<Target> {
        if let Some(directory) = directory(fs, path).await? {
            return Ok(Target::Into(directory));
        }
        if several {
            bail!("{path} is not a directory, so it cannot take several things; `onewrite mkdir` makes one");
        }
        let (parent, name) = split_path(path.as_bytes())?;
        let parent =
            resolve(fs, parent).await.with_context(|| format!("{path}: `onewrite mkdir -p` makes directories"))?;
        Ok(Target::As(parent, name.to_vec()))
    }

    /// Copies `node` here. A `node` without a name is a directory; its content goes into the target directory itself.
    async fn take<F: FileSystem, S: Source>(
        &self,
        copy: &mut CopyIn<'_, F, S>,
        node: &S::Node,
        shown: &str,
        own: Option<&[u8]>,
    ) -> Result<Transferred, LabError> {
        match self {
            Target::Into(directory) => copy.tree(node, shown.as_bytes(), *directory, own).await,
            Target::As(directory, name) => copy.tree(node, shown.as_bytes(), *directory, Some(name)).await,
        }
    }
}

/// The directory at `path`, or at the target of a link; `None` if there is none.
pub async fn directory<F: FileView>(fs: &F, path: &str) -> Result<Option<Ino>, FsError> {
    let mut path = path.as_bytes().to_vec();
    for _ in 0..LINKS_MAX {
        let ino = match resolve(fs, &path).await {
            Err(FsError::NotFound(_) | FsError::NotDirectory(_)) => return Ok(None),
            other => other?,
        };
        match fs.attributes(ino).await?.kind {
            FileKind::Directory => return Ok(Some(ino)),
            FileKind::Symlink => (),
            _ => return Ok(None),
        }
        let target = fs.read_link(ino).await?;
        path = match target.starts_with(b"/") {
            true => target,
            false => [split_path(&path)?.0, b"/", &target].concat(),
        };
    }
    Err(FsError::Loop(String::from_utf8_lossy(&path).into_owned()))
}

/// Where copies on the host go: a directory, and a name in it if the copy gets a new one.
#[derive(Clone)]
struct HostTarget {
    directory: PathBuf,
    name: Option<Vec<u8>>,
}

impl HostTarget {
    fn of(target: &Path, several: bool, groups: &[Group]) -> anyhow::Result<HostTarget> {
        if let Some(group) = groups.iter().find(|group| group.image.is_none()) {
            let (source, target) = (&group.places[0].0, target.display());
            bail!("neither `{source}` nor `{target}` is in an image; write IMAGE:/PATH, or use cp");
        }
        if target.is_dir() {
            return Ok(HostTarget { directory: target.to_owned(), name: None });
        }
        if several {
            bail!("{} is not a directory, so it cannot take several things", target.display());
        }
        let shown = target.display();
        // A link that the user names is followed; links met during the copy are not.
        let target = match target.is_symlink() {
            true => target.canonicalize().with_context(|| format!("{shown} is a link that leads to no file"))?,
            false => target.to_owned(),
        };
        let name = target.file_name().with_context(|| format!("{shown} names no file"))?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(HostTarget { directory: parent.to_owned(), name: Some(name.as_encoded_bytes().to_vec()) })
    }
}
