//! What a reader sees of a tree, as a list to compare: the kernel through a mount, we through a view.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use onewrite_block::{Executor, Geometry, RamDisk, crc32c};
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::{AnyView, DeviceNumber, FileKind, FileView, FsResult, Ino, Losses, Manner};

use crate::support::volume::load;

/// One path: the results of `stat`, `readlink`, `read` and `getxattr`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub path: String,
    pub kind: String,
    pub permissions: u32,
    pub owner: (u32, u32),
    pub links: u64,
    pub size: u64,
    pub sectors: u64,
    pub modified: (i64, u32),
    pub device: DeviceNumber,
    pub content: Vec<u8>,
    pub extended: Vec<(String, Vec<u8>)>,
}

fn is_skipped(path: &str) -> bool {
    path == "/lost+found"
}

/// Everything below the mount point `root`, as the kernel shows it.
pub fn by_kernel(root: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(path) = pending.pop() {
        let host = root.join(path.trim_start_matches('/'));
        let metadata = fs::symlink_metadata(&host).expect("stat");
        let kind = metadata.file_type();
        let mut content = Vec::new();
        if kind.is_dir() {
            let names = fs::read_dir(&host).expect("readdir").map(|entry| entry.expect("entry").file_name());
            pending.extend(
                names.map(|name| format!("{path}/{}", name.to_string_lossy())).filter(|path| !is_skipped(path)),
            );
        } else if kind.is_file() {
            content = crc32c(!0, &fs::read(&host).expect("read")).to_le_bytes().to_vec();
        } else if kind.is_symlink() {
            content = fs::read_link(&host).expect("readlink").as_os_str().as_bytes().to_vec();
        }
        let kind = match () {
            () if kind.is_dir() => FileKind::Directory,
            () if kind.is_symlink() => FileKind::Symlink,
            () if kind.is_fifo() => FileKind::Fifo,
            () if kind.is_socket() => FileKind::Socket,
            () if kind.is_char_device() => FileKind::CharacterDevice,
            () if kind.is_block_device() => FileKind::BlockDevice,
            () => FileKind::Regular,
        };
        let device = match kind {
            FileKind::CharacterDevice | FileKind::BlockDevice => {
                DeviceNumber::new(rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()))
            }
            _ => DeviceNumber::NONE,
        };
        entries.push(Entry {
            path,
            kind: format!("{kind:?}"),
            permissions: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            links: metadata.nlink(),
            size: metadata.size(),
            sectors: metadata.blocks(),
            modified: (metadata.mtime(), metadata.mtime_nsec() as u32),
            device,
            content,
            extended: extended_by_kernel(&host),
        });
    }
    entries.sort();
    entries
}

fn extended_by_kernel(host: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; 1 << 16];
    let length = rustix::fs::llistxattr(host, &mut names).expect("llistxattr");
    let value = |name: &[u8]| {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::lgetxattr(host, name, &mut value).expect("lgetxattr");
        value.truncate(length);
        (String::from_utf8_lossy(name).into_owned(), value)
    };
    let mut all: Vec<_> = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(value).collect();
    all.sort();
    all
}

/// What a view found: the tree, the transactions of the log, and the losses.
pub struct Seen {
    pub entries: Vec<Entry>,
    pub transactions: u64,
    pub warnings: Vec<String>,
    pub losses: Losses,
}

/// Everything in the image at `path`, as a view shows it.
pub fn by_view(path: &Path, is_rescue: bool) -> FsResult<Seen> {
    on_view(path, is_rescue, async |view: &AnyView| {
        let mut entries = Vec::new();
        let mut pending = vec![(String::new(), view.root())];
        while let Some((path, ino)) = pending.pop() {
            let entry = entry(view, path, ino).await?;
            if entry.kind == "Directory" {
                for (name, ino) in names(view, ino).await? {
                    let path = format!("{}/{name}", entry.path);
                    if !is_skipped(&path) {
                        pending.push((path, ino));
                    }
                }
            }
            entries.push(entry);
        }
        entries.sort();
        let transactions = view.recovered().map_or(0, |(recovered, _)| recovered.transactions);
        Ok(Seen { entries, transactions, warnings: view.warnings().to_vec(), losses: view.losses() })
    })
}

/// Runs `work` with a view of the image at `path`; fails if anything is written.
pub fn on_view<T: 'static>(
    path: &Path,
    is_rescue: bool,
    work: impl AsyncFnOnce(&AnyView) -> FsResult<T> + 'static,
) -> FsResult<T> {
    let image = load(path);
    let geometry = Geometry::plain("ram", image.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let door = port.clone();
    let done = executor.block_on(async move {
        let view = AnyView::open(&door, ViewOptions { is_rescue, ..ViewOptions::default() }).await?;
        work(&view).await
    });
    let counters = port.device().counters();
    let changes = counters.host_write_bytes_by_cause.iter().sum::<u64>() + counters.flushes + counters.trims;
    assert_eq!(changes, 0, "a view changes something");
    done.expect("nothing halts")
}

pub async fn names(view: &AnyView, directory: Ino) -> FsResult<Vec<(String, Ino)>> {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        let entries = view.read_directory(directory, cursor).await?;
        let Some(last) = entries.last() else { return Ok(names) };
        assert!(last.next > cursor, "listing {directory} stays at {cursor}");
        cursor = last.next;
        for entry in entries {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            assert_eq!(entry.kind, view.attributes(entry.ino).await?.kind, "{name}");
            if !matches!(name.as_str(), "." | "..") {
                names.push((name, entry.ino));
            }
        }
    }
}

async fn entry(view: &AnyView, path: String, ino: Ino) -> FsResult<Entry> {
    let attributes = view.attributes(ino).await?;
    let content = match attributes.kind {
        FileKind::Regular => {
            let mut sum = !0;
            // An odd step, so that reads begin anywhere.
            for offset in (0..attributes.size).step_by(1_000_003) {
                let data = view.read(ino, offset, 1_000_003, Manner::default()).await?;
                sum = crc32c(sum, &data.to_vec());
            }
            sum.to_le_bytes().to_vec()
        }
        FileKind::Symlink => view.read_link(ino).await?,
        _ => Vec::new(),
    };
    let mut extended = Vec::new();
    for name in view.extended_attributes(ino).await? {
        extended.push((String::from_utf8_lossy(&name).into_owned(), view.extended_attribute(ino, &name).await?));
    }
    extended.sort();
    Ok(Entry {
        path,
        kind: format!("{:?}", attributes.kind),
        permissions: attributes.permissions.into(),
        owner: (attributes.uid, attributes.gid),
        links: attributes.links.into(),
        size: attributes.size,
        sectors: attributes.sectors,
        modified: (attributes.modified.seconds, attributes.modified.nanoseconds),
        device: attributes.device,
        content,
        extended,
    })
}

/// Fails at the first difference.
pub fn assert_same(kernel: &[Entry], ours: &[Entry], what: &str) {
    for (theirs, ours) in kernel.iter().zip(ours) {
        assert_eq!(theirs, ours, "{what}: the kernel, then we");
    }
    assert_eq!(kernel.len(), ours.len(), "{what}");
}
