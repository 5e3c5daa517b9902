//! Options: parses the options of `-o`.

use std::str::FromStr;

use anyhow::{Context, bail};
use onewrite_block::{Nanos, PAGE_SIZE};
use onewrite_fs::PolicyKind;
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::fuse::{Access, MountFlag};

use crate::size;

/// Options of fstab and mount(8) that do not concern a file system, or are always on.
const IGNORED: [&str; 22] = [
    "defaults",
    "rw",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "exec",
    "nodev",
    "nosuid",
    "async",
    "noatime",
    "nodiratime",
    "relatime",
    "norelatime",
    "silent",
    "default_permissions",
    "delalloc",
];

const KNOWN: &str = "data=MODE, ro, cache=SIZE, policy=NAME, commit=SECONDS, nodelalloc, allow_other, dev, suid, \
                     noexec, sync, dirsync, size=SIZE, debug";

/// The wanted properties of a mount.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub fs: MountOptions,
    pub access: Access,
    pub flags: Vec<MountFlag>,
    /// Size of an emulated device in bytes.
    pub size: Option<u64>,
    pub logs_refusals: bool,
}

impl Wanted {
    /// Parses options; each is one item between commas.
    ///
    /// # Errors
    /// The first option that is unknown or has a wrong value.
    pub fn parse(options: &[String]) -> anyhow::Result<Wanted> {
        let fs = MountOptions::new(Mode::Ordered);
        let mut wanted = Wanted { fs, access: Access::Owner, flags: Vec::new(), size: None, logs_refusals: false };
        for option in options.iter().filter(|option| !option.is_empty()) {
            wanted.take(option).with_context(|| format!("-o {option}"))?;
        }
        Ok(wanted)
    }

    fn take(&mut self, option: &str) -> anyhow::Result<()> {
        let fs = &mut self.fs;
        match option.split_once('=') {
            Some(("data", name)) => fs.mode = Mode::from_str(name)?,
            Some(("cache", text)) => fs.cache_pages = (bytes(text)? / PAGE_SIZE as u64) as usize,
            Some(("policy", name)) => fs.cache_policy = policy(name)?,
            Some(("commit", text)) => fs.commit_interval = seconds(text)?,
            Some(("size", text)) => self.size = Some(bytes(text)?),
            Some((name, _)) if name.starts_with("x-") || name == "comment" => (),
            Some(_) => bail!("no such option; there are {KNOWN}"),
            None => self.take_word(option)?,
        }
        Ok(())
    }

    fn take_word(&mut self, word: &str) -> anyhow::Result<()> {
        let mut flag = |flag| self.flags.push(flag);
        match word {
            "ro" => self.fs.read_only = true,
            "nodelalloc" => self.fs.delayed_allocation = false,
            "allow_other" => self.access = Access::Everybody,
            "debug" => self.logs_refusals = true,
            "dev" => flag(MountFlag::Dev),
            "suid" => flag(MountFlag::Suid),
            "noexec" => flag(MountFlag::NoExec),
            "sync" => flag(MountFlag::Sync),
            "dirsync" => flag(MountFlag::DirSync),
            _ if word.starts_with("x-") || IGNORED.contains(&word) => (),
            "data" | "cache" | "policy" | "commit" | "size" => bail!("it needs a value: {word}=…"),
            "atime" | "strictatime" | "lazytime" => bail!("times of reading are not kept here; leave it out"),
            _ => bail!("no such option; there are {KNOWN}"),
        }
        Ok(())
    }
}

fn bytes(text: &str) -> anyhow::Result<u64> {
    size::bytes(text).map_err(anyhow::Error::msg)
}

fn policy(name: &str) -> anyhow::Result<PolicyKind> {
    crate::args::page_cache_policy(name).map_err(anyhow::Error::msg)
}

fn seconds(text: &str) -> anyhow::Result<Nanos> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Nanos::from_secs(seconds)),
        _ => bail!("`{text}` is no number of seconds from 1 to 86400"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Wanted> {
        Wanted::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_fstab_are_understood() {
        let wanted =
            parse("rw,data=data+async,allow_other,cache=8M,commit=30,x-systemd.automount,nofail,suid").unwrap();
        assert_eq!(wanted.fs.mode.name(), "data+async");
        assert_eq!((wanted.fs.cache_pages, wanted.fs.commit_interval), (2048, Nanos::from_secs(30)));
        assert_eq!((wanted.access, wanted.flags), (Access::Everybody, vec![MountFlag::Suid]));
    }

    #[test]
    fn wrong_options_are_named() {
        let told = |text| format!("{:#}", parse(text).unwrap_err());
        assert!(told("ro,acl=yes").starts_with("-o acl=yes: no such option; there are data=MODE"));
        assert!(told("data").contains("needs a value"));
        assert!(told("data=journal").contains("journal"));
        assert!(told("commit=0").contains("from 1 to 86400"));
        assert!(told("cache=lots").contains("not"));
    }
}
