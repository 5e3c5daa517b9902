//! Options: parses the options of `-o`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail};
use onewrite_block::{Nanos, PAGE_SIZE};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::f2fs::F2fsOptions;
use onewrite_fs::{F2fsChoices, PolicyKind};
use onewrite_host::fuse::{Access, MountFlag, NamePattern};

use onewrite_lab::size;

/// Options of fstab and mount(8) that do not concern a file system, or are always on.
const IGNORED: [&str; 17] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "noatime",
    "nodiratime",
    "relatime",
    "norelatime",
    "silent",
    "default_permissions",
    "delalloc",
    "nodirsync",
];

const KNOWN: &str = "data=MODE, ro, rw, cache=SIZE, policy=NAME, commit=SECONDS, max_batch_time=USEC, clean=WAY, \
                     mode=adaptive|lfs, ipu=PAGES, atgc, stage=FILE, discard_stage, atomic=GLOB, nodelalloc, \
                     allow_other, dev, suid, noexec, sync, size=SIZE, nofail, debug";

/// The wanted properties of a mount.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub fs: MountOptions,
    /// What only F2FS has.
    pub f2fs: F2fsChoices,
    /// The file or device of the staging area of F2FS, if it is not behind the image.
    pub stage: Option<PathBuf>,
    pub access: Access,
    pub flags: Vec<MountFlag>,
    /// Size of an emulated device in bytes.
    pub size: Option<u64>,
    pub logs_refusals: bool,
    /// Names of files that are atomic for every program.
    pub atomic_names: Vec<NamePattern>,
    /// A missing image is no error.
    pub may_be_missing: bool,
}

impl Wanted {
    /// Parses options; each is one item between commas. Of two that contradict each other the last one counts, as in
    /// mount(8). After `sloppy` (`mount -s`), unknown options are ignored.
    ///
    /// # Errors
    /// The first option that is unknown or has a wrong value.
    pub fn parse(options: &[String]) -> anyhow::Result<Wanted> {
        let fs = MountOptions::for_programs(Mode::Ordered);
        let (access, flags) = (Access::Owner, Vec::new());
        let mut wanted = Wanted {
            fs,
            f2fs: F2fsChoices::default(),
            stage: None,
            access,
            flags,
            size: None,
            logs_refusals: false,
            atomic_names: Vec::new(),
            may_be_missing: false,
        };
        let is_sloppy = options.iter().any(|option| option == "sloppy");
        for option in options.iter().filter(|option| !option.is_empty() && *option != "sloppy") {
            match wanted.take(option).with_context(|| format!("-o {option}"))? {
                Known::No if !is_sloppy => bail!("-o {option}: no such option; there are {KNOWN}"),
                Known::No | Known::Yes => (),
            }
        }
        Ok(wanted)
    }

    fn take(&mut self, option: &str) -> anyhow::Result<Known> {
        let fs = &mut self.fs;
        match option.split_once('=') {
            Some(("data", name)) => fs.mode = Mode::from_str(name)?,
            Some(("cache", text)) => fs.cache_pages = cache_pages(text)?,
            Some(("policy", name)) => fs.cache_policy = policy(name)?,
            Some(("commit", text)) => fs.commit_interval = seconds(text)?,
            Some(("max_batch_time", text)) => fs.max_batch_time = microseconds(text)?,
            Some(("clean", way)) => self.f2fs.clean = Some(way.parse().map_err(anyhow::Error::msg)?),
            Some(("mode", name)) => self.f2fs.log_mode = Some(name.parse().map_err(anyhow::Error::msg)?),
            Some(("ipu", text)) => self.f2fs.in_place_below = Some(in_place(text)?),
            Some(("stage", path)) => self.stage = Some(PathBuf::from(path)),
            Some(("atomic", names)) => self.atomic_names.push(names.parse().map_err(anyhow::Error::msg)?),
            Some(("size", text)) => self.size = Some(bytes(text)?),
            Some((name, _)) if name.starts_with("x-") || name == "comment" => (),
            Some(_) => return Ok(Known::No),
            None => return self.take_word(option),
        }
        Ok(Known::Yes)
    }

    fn take_word(&mut self, word: &str) -> anyhow::Result<Known> {
        match word {
            "ro" | "rw" => self.fs.read_only = word == "ro",
            "discard_stage" => self.f2fs.discard_stage = true,
            "atgc" => self.f2fs.age_threshold = Some(F2fsOptions::AGE_THRESHOLD),
            "nodelalloc" | "delalloc" => self.fs.delayed_allocation = word == "delalloc",
            "allow_other" => self.access = Access::Everybody,
            "debug" => self.logs_refusals = true,
            "nofail" => self.may_be_missing = true,
            _ if word.starts_with("x-") || IGNORED.contains(&word) => (),
            "data" | "cache" | "policy" | "commit" | "max_batch_time" | "clean" | "mode" | "ipu" | "stage"
            | "atomic" | "size" => bail!("it needs a value: {word}=…"),
            "atime" | "strictatime" | "lazytime" => bail!("times of reading are not kept here; leave it out"),
            "dirsync" => bail!("FUSE tells nobody to make names durable; leave it out, and fsync directories"),
            "remount" => bail!("a mount keeps its options: end it with `onewrite umount`, and mount again"),
            _ => return Ok(self.take_flag(word)),
        }
        Ok(Known::Yes)
    }

    fn take_flag(&mut self, word: &str) -> Known {
        let Some(&(_, _, flag)) = FLAGS.iter().find(|(on, off, _)| word == *on || word == *off) else {
            return Known::No;
        };
        self.flags.retain(|one| *one != flag);
        if FLAGS.iter().any(|(on, ..)| word == *on) {
            self.flags.push(flag);
        }
        Known::Yes
    }
}

/// Whether an option is known.
enum Known {
    Yes,
    No,
}

/// Words that set and clear a flag.
const FLAGS: [(&str, &str, MountFlag); 4] = [
    ("dev", "nodev", MountFlag::Dev),
    ("suid", "nosuid", MountFlag::Suid),
    ("noexec", "exec", MountFlag::NoExec),
    ("sync", "async", MountFlag::Sync),
];

/// Most pages of a page cache (`onewrite_cache::CacheShape`).
const CACHE_PAGES_MAX: usize = 1 << 27;

fn cache_pages(text: &str) -> anyhow::Result<usize> {
    let least = MountOptions::CACHE_PAGES_MIN;
    match (bytes(text)? / PAGE_SIZE as u64) as usize {
        pages if pages < least => bail!("the page cache takes at least {} KiB", least * PAGE_SIZE / 1024),
        pages if pages > CACHE_PAGES_MAX => bail!("the page cache takes at most {} GiB", CACHE_PAGES_MAX >> 18),
        pages => Ok(pages),
    }
}

fn bytes(text: &str) -> anyhow::Result<u64> {
    size::bytes(text).map_err(anyhow::Error::msg)
}

fn policy(name: &str) -> anyhow::Result<PolicyKind> {
    crate::args::page_cache_policy(name).map_err(anyhow::Error::msg)
}

fn in_place(text: &str) -> anyhow::Result<u32> {
    text.parse()
        .ok()
        .with_context(|| format!("`{text}` is no number of pages below 2^32; 0 is for never, 9 is Linux's"))
}

fn seconds(text: &str) -> anyhow::Result<Nanos> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Nanos::from_secs(seconds)),
        _ => bail!("`{text}` is no number of seconds from 1 to 86400"),
    }
}

fn microseconds(text: &str) -> anyhow::Result<Nanos> {
    match text.parse() {
        Ok(micros @ 0..=10_000_000) => Ok(Nanos::from_micros(micros)),
        _ => bail!("`{text}` is no number of microseconds from 0 to 10000000"),
    }
}

#[cfg(test)]
mod tests {
    use onewrite_fs::f2fs::{Clean, LogMode};

    use super::*;

    fn parse(text: &str) -> anyhow::Result<Wanted> {
        Wanted::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_fstab_are_understood() {
        let wanted = parse(
            "rw,data=data+async,allow_other,cache=8M,commit=30,max_batch_time=200,x-systemd.automount,nofail,suid",
        )
        .unwrap();
        assert_eq!(wanted.fs.mode.name(), "data+async");
        assert_eq!((wanted.fs.cache_pages, wanted.fs.commit_interval), (2048, Nanos::from_secs(30)));
        assert_eq!(wanted.fs.max_batch_time, Nanos::from_micros(200));
        assert_eq!((wanted.access, wanted.flags), (Access::Everybody, vec![MountFlag::Suid]));
    }

    #[test]
    fn options_of_f2fs_are_understood() {
        let wanted = parse("clean=share,mode=lfs,ipu=9,atgc,stage=/dev/log,discard_stage").unwrap().f2fs;
        assert_eq!((wanted.clean, wanted.log_mode), (Some(Clean::Share), Some(LogMode::Lfs)));
        assert_eq!(wanted.in_place_below, Some(9));
        assert_eq!(wanted.age_threshold, Some(F2fsOptions::AGE_THRESHOLD));
        assert!(wanted.discard_stage);
        assert_eq!(parse("clean=share,clean=copy").unwrap().f2fs.clean, Some(Clean::Copy));
    }

    #[test]
    fn the_last_of_two_options_counts() {
        let wanted = parse("ro,rw,suid,nosuid,dev,exec,nodelalloc,delalloc,nofail").unwrap();
        assert_eq!((wanted.fs.read_only, wanted.fs.delayed_allocation, wanted.may_be_missing), (false, true, true));
        assert_eq!(wanted.flags, [MountFlag::Dev]);
        assert!(parse("rw,ro").unwrap().fs.read_only);
        assert!(parse("sloppy,frobnicate,acl=yes").is_ok());
        assert!(parse("sloppy,commit=0").is_err());
    }

    #[test]
    fn wrong_options_are_named() {
        let told = |text| format!("{:#}", parse(text).unwrap_err());
        assert!(told("ro,acl=yes").starts_with("-o acl=yes: no such option; there are data=MODE"));
        assert!(told("data").contains("needs a value"));
        assert!(told("data=journal").contains("journal"));
        assert!(told("commit=0").contains("from 1 to 86400"));
        assert!(told("max_batch_time=1s").contains("from 0 to 10000000"));
        assert!(told("cache=lots").contains("not"));
        assert!(told("data=data,atomic=a/b").contains("is no pattern of names"));
        assert!(told("data=data,atomic=[").contains("is no pattern of names"));
        assert_eq!(told("cache=8K"), "-o cache=8K: the page cache takes at least 1024 KiB");
        assert!(told("mode=log").contains("adaptive and lfs"));
        assert!(told("ipu=x").contains("is no number of pages"));
        assert_eq!(told("cache=1T"), "-o cache=1T: the page cache takes at most 512 GiB");
        assert!(told("remount").contains("onewrite umount"));
        assert!(told("dirsync").contains("fsync directories"));
    }
}
