//! Storage on images that are named in the paths of databases, as `IMAGE:/PATH`: that of the loadable extension.
//!
//! An image is mounted when its first file opens, and unmounted when its last one closes. What the URI of that first
//! file says of the mount counts: `data=MODE` (`data+async` if it says nothing) and `page-cache=SIZE` (SQLite itself
//! takes `cache`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::Volume;

use crate::names::{normal, split};
use crate::storage::{Failure, Identity, Opening, Promise, Removal, Result, Storage, StoredDraft, StoredFile, Synced};
use crate::vfs::locked;
use crate::volume::{VolumeDraft, VolumeFile, VolumeStorage};

/// Bytes of a page of the cache.
const PAGE_BYTES: usize = 4096;

/// Images that are mounted by their files.
#[derive(Clone, Default)]
pub struct Images {
    mounted: Arc<Mutex<BTreeMap<PathBuf, Mounted>>>,
}

struct Mounted {
    storage: VolumeStorage,
    options: MountOptions,
    users: usize,
}

/// The right to use a mounted image; the last one unmounts it.
struct Lease {
    images: Images,
    image: PathBuf,
    storage: VolumeStorage,
}

/// An open file in an image.
pub struct ImageFile {
    file: VolumeFile,
    lease: Arc<Lease>,
}

/// Changes of a file in an image.
pub struct ImageDraft {
    draft: VolumeDraft,
    lease: Arc<Lease>,
}

impl Images {
    /// The image, mounted.
    fn lease(&self, image: &Path, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Arc<Lease>> {
        let mut mounted = locked(&self.mounted);
        let storage = match mounted.get_mut(image) {
            Some(found) => found.joined(parameter)?,
            None => {
                let made = Mounted::new(image, parameter)?;
                let storage = made.storage.clone();
                mounted.insert(image.to_owned(), made);
                storage
            }
        };
        Ok(Arc::new(Lease { images: self.clone(), image: image.to_owned(), storage }))
    }

    /// Does `work` on an image that is mounted; `None` if it is not.
    fn with<T>(&self, path: &[u8], work: impl FnOnce(&VolumeStorage, &[u8]) -> Result<T>) -> Result<Option<T>> {
        let (image, path) = split(path)?;
        let found = locked(&self.mounted).get(Path::new(OsStr::from_bytes(image))).map(|found| found.storage.clone());
        found.map(|storage| work(&storage, path)).transpose()
    }
}

impl Mounted {
    fn new(image: &Path, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Mounted> {
        let options = options(parameter)?;
        let storage = VolumeStorage::new(Volume::open(image, options)?);
        Ok(Mounted { storage, options, users: 1 })
    }

    /// One more user, who may ask for the same mode only.
    fn joined(&mut self, parameter: &dyn Fn(&str) -> Option<String>) -> Result<VolumeStorage> {
        let asked = options(parameter)?.mode;
        if parameter("data").is_some() && asked != self.options.mode {
            let text = format!("the image is in use with data={}, not {asked}: close it first", self.options.mode);
            return Err(Failure::new(Failure::INVALID, text));
        }
        self.users += 1;
        Ok(self.storage.clone())
    }
}

fn options(parameter: &dyn Fn(&str) -> Option<String>) -> Result<MountOptions> {
    let refused = |text: String| Failure::new(Failure::INVALID, text);
    let mode = parameter("data").map_or(Ok(Mode::DataAsync), |name| name.parse());
    let mut options = MountOptions::for_programs(mode.map_err(|error| refused(error.to_string()))?);
    if let Some(size) = parameter("page-cache") {
        let pages = pages(&size).filter(|pages| *pages >= MountOptions::CACHE_PAGES_MIN);
        let least = (MountOptions::CACHE_PAGES_MIN * PAGE_BYTES) >> 10;
        let wrong =
            || refused(format!("page-cache={size}: a size of {least}K or more is needed, such as page-cache=64M"));
        options.cache_pages = pages.ok_or_else(wrong)?;
    }
    Ok(options)
}

/// Pages in a size such as 64M.
fn pages(size: &str) -> Option<usize> {
    let unit = match size.as_bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return None,
    };
    Some(size[..size.len() - 1].parse::<usize>().ok()?.checked_mul(1 << unit)? / PAGE_BYTES)
}

impl Drop for Lease {
    /// The map stays locked while it unmounts, so that nobody mounts it at the same time.
    fn drop(&mut self) {
        let mut mounted = locked(&self.images.mounted);
        let Some(found) = mounted.get_mut(&self.image) else { return };
        found.users -= 1;
        if found.users == 0 {
            mounted.remove(&self.image);
            self.storage.close();
        }
    }
}

impl Storage for Images {
    type File = ImageFile;
    type Draft = ImageDraft;

    fn full_path(&self, name: &[u8]) -> Result<Vec<u8>> {
        let (image, path) = split(name)?;
        let told = |error: std::io::Error| {
            let image = String::from_utf8_lossy(image);
            let text = format!("{image}: {error}; `onewrite mkfs` makes an image");
            Failure::new(error.raw_os_error().unwrap_or(5), text)
        };
        let mut full = Path::new(OsStr::from_bytes(image)).canonicalize().map_err(told)?.into_os_string().into_vec();
        full.push(b':');
        full.extend_from_slice(&normal(path));
        Ok(full)
    }

    fn open(&self, path: &[u8], opening: Opening, parameter: &dyn Fn(&str) -> Option<String>) -> Result<ImageFile> {
        let (image, path) = split(path)?;
        let lease = self.lease(Path::new(OsStr::from_bytes(image)), parameter).map_err(|error| error.at(image))?;
        let file = lease.storage.open(path, opening, parameter)?;
        Ok(ImageFile { file, lease })
    }

    fn remove(&self, path: &[u8], removal: Removal) -> Result<()> {
        let absent = || Failure::new(Failure::NO_ENTRY, "the image is not mounted");
        self.with(path, |storage, path| storage.remove(path, removal))?.ok_or_else(absent)
    }

    fn size_at(&self, path: &[u8]) -> Result<Option<u64>> {
        Ok(self.with(path, |storage, path| storage.size_at(path))?.flatten())
    }

    /// One step for each image: two images have two logs.
    fn commit(&self, drafts: &[&ImageDraft]) -> Result<()> {
        let mut images: BTreeMap<&Path, (&VolumeStorage, Vec<&VolumeDraft>)> = BTreeMap::new();
        for draft in drafts {
            let group = images.entry(&draft.lease.image).or_insert((&draft.lease.storage, Vec::new()));
            group.1.push(&draft.draft);
        }
        images.into_values().try_for_each(|(storage, drafts)| storage.commit(&drafts))
    }
}

impl StoredFile for ImageFile {
    type Draft = ImageDraft;

    fn identity(&self) -> Identity {
        self.file.identity()
    }

    fn promise(&self) -> Promise {
        self.file.promise()
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.file.read(offset, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write(offset, bytes)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.file.set_size(size)
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn sync(&self, what: Synced) -> Result<()> {
        self.file.sync(what)
    }

    fn draft(&self) -> Result<ImageDraft> {
        Ok(ImageDraft { draft: self.file.draft()?, lease: Arc::clone(&self.lease) })
    }
}

impl StoredDraft for ImageDraft {
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.draft.read(offset, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.draft.write(offset, bytes)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.draft.set_size(size)
    }

    fn size(&self) -> Result<u64> {
        self.draft.size()
    }

    fn abort(&self) -> Result<()> {
        self.draft.abort()
    }
}

#[cfg(test)]
mod tests {
    use onewrite_host::make_image;

    use super::*;

    /// Drop removes the image.
    struct Scratch(std::path::PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn scratch(name: &str) -> (Scratch, Vec<u8>) {
        let path = std::env::temp_dir().join(format!("onewrite-images-{name}-{}.img", std::process::id()));
        make_image(&path, 32 << 20).unwrap();
        let place = [path.as_os_str().as_bytes(), b":/"].concat();
        (Scratch(path), place)
    }

    fn open(images: &Images, path: &[u8], parameter: &dyn Fn(&str) -> Option<String>) -> Result<ImageFile> {
        images.open(path, Opening::OrNew, parameter)
    }

    /// A draft that is named twice is refused with all others; one by one the first would be committed.
    #[test]
    fn drafts_of_one_image_are_one_step() {
        let (_scratch, root) = scratch("step");
        let images = Images::default();
        let [one, two] = [b"one", b"two"].map(|name| open(&images, &[&root[..], name].concat(), &|_| None).unwrap());
        let drafts = [&one, &two].map(|file| file.draft().unwrap());
        drafts.iter().for_each(|draft| draft.write(0, b"new").unwrap());
        assert!(images.commit(&[&drafts[0], &drafts[1], &drafts[1]]).is_err());
        assert_eq!((one.size().unwrap(), two.size().unwrap()), (0, 0));
        images.commit(&[&drafts[0], &drafts[1]]).unwrap();
        assert_eq!((one.read(0, 9).unwrap(), two.read(0, 9).unwrap()), (b"new".to_vec(), b"new".to_vec()));
    }

    #[test]
    fn refusals_name_the_image_or_the_file() {
        let (scratch, root) = scratch("names");
        let (images, database) = (Images::default(), [&root[..], b"db"].concat());
        let image = scratch.0.to_str().unwrap();
        let told = |parameter: &dyn Fn(&str) -> Option<String>| open(&images, &database, parameter).err().unwrap().text;
        let wrong_size = told(&|name| (name == "page-cache").then(|| "8K".to_owned()));
        assert!(wrong_size.contains(image) && wrong_size.contains("page-cache=64M"), "{wrong_size}");
        let _open = open(&images, &database, &|_| None).unwrap();
        let other_mode = told(&|name| (name == "data").then(|| "ordered".to_owned()));
        assert!(other_mode.contains(image) && other_mode.contains("close it first"), "{other_mode}");
        let absent = images.open(&[&root[..], b"absent"].concat(), Opening::Existing, &|_| None).err().unwrap();
        assert!(absent.number == Failure::NO_ENTRY && absent.text.contains("/absent"), "{absent}");
        let beside = open(&Images::default(), &database, &|_| None).err().unwrap();
        assert!(beside.number == Failure::BUSY && beside.text.contains(image), "{beside}");
    }
}
