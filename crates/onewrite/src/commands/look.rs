//! `onewrite ls`, `cat`, `tree` and `stat`: read an image and change nothing.
//!
//! An image may be crafted or damaged. So an unreadable entry is named and the rest is shown, and no directory is shown
//! twice.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, bail};
use onewrite_fs::api::resolve;
use onewrite_fs::{Attributes, FileKind, FileView, FsError, Ino, Manner, Timestamp};
use onewrite_lab::draw;
use onewrite_lab::transfer::{Left, Listed, entries, look};

use super::cp::tell_left;
use crate::args::{Cat, Ls, Stat, Tree};
use crate::escape;
use crate::open::{image_place, named_place, with_view};

/// Deepest level of a tree that is shown.
const DEPTH_MAX: usize = 4096;

/// Lists a directory, or shows a single file.
pub fn ls(args: &Ls) -> anyhow::Result<ExitCode> {
    let (image, path) = image_place(&args.place);
    let mut left = Left::default();
    let viewed = with_view(&image, args.rescue, async move |fs| {
        let found = looked_up(fs, &path).await?;
        match found.attributes.kind {
            FileKind::Directory => Ok(listed(fs, found.attributes.ino).await?),
            _ => Ok(vec![(found.name.clone(), Ok(found))]),
        }
    })?;
    let mut out = std::io::stdout().lock();
    for (name, found) in viewed.told(&mut left) {
        match &found {
            Ok(entry) if args.long => out.write_all(long(entry).as_bytes())?,
            Ok(_) => (),
            Err(problem) => {
                left.add(name.clone(), problem.to_string());
                if args.long {
                    out.write_all(b"?????????? ")?;
                }
            }
        }
        out.write_all(&escape::for_stdout(&name))?;
        if let Some(target) = found.ok().and_then(|entry| entry.target).filter(|_| args.long) {
            out.write_all(b" -> ")?;
            out.write_all(&escape::for_stdout(&target))?;
        }
        out.write_all(b"\n")?;
    }
    Ok(tell_left(&left))
}

/// An entry, or why it cannot be read.
type Found = Result<Listed, FsError>;

async fn listed<F: FileView>(fs: &F, directory: Ino) -> anyhow::Result<Vec<(Vec<u8>, Found)>> {
    let mut listed = Vec::new();
    for entry in entries(fs, directory).await? {
        let found = look(fs, entry.name.clone(), entry.ino).await;
        listed.push((entry.name, found));
    }
    Ok(listed)
}

/// Prints a file.
pub fn cat(args: &Cat) -> anyhow::Result<ExitCode> {
    const CHUNK: u64 = 1 << 20;
    let (image, path) = image_place(&args.place);
    let viewed = with_view(&image, args.rescue, async move |fs| {
        let attributes = looked_up(fs, &path).await?.attributes;
        if attributes.kind != FileKind::Regular {
            bail!("{path} is not a file");
        }
        let mut out = std::io::stdout().lock();
        for offset in (0..attributes.size).step_by(CHUNK as usize) {
            out.write_all(&fs.read(attributes.ino, offset, CHUNK, Manner::default()).await?.to_vec())?;
        }
        Ok(out.flush()?)
    })?;
    let mut left = Left::default();
    viewed.told(&mut left);
    Ok(tell_left(&left))
}

/// Shows a tree.
pub fn tree(args: &Tree) -> anyhow::Result<ExitCode> {
    let (image, path) = image_place(&args.place);
    let viewed = with_view(&image, args.rescue, async move |fs| {
        let root = looked_up(fs, &path).await?.attributes;
        if root.kind != FileKind::Directory {
            bail!("{path} is not a directory; `onewrite ls -l` and `onewrite stat` show it");
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&escape::for_stdout(path.as_bytes()))?;
        out.write_all(b"\n")?;
        let mut forest = Forest { fs, seen: BTreeSet::new(), pending: Vec::new(), damaged: 0 };
        if let Some(problem) = forest.children(&root, "".into(), 0).await {
            out.write_all(problem.as_bytes())?;
        }
        while let Some(branch) = forest.pending.pop() {
            out.write_all(branch.indent.as_bytes())?;
            out.write_all(draw::branch(branch.is_last).as_bytes())?;
            out.write_all(&escape::for_stdout(&branch.name))?;
            if let Ok(Listed { target: Some(target), .. }) = &branch.found {
                out.write_all(b" -> ")?;
                out.write_all(&escape::for_stdout(target))?;
            }
            if let Some(problem) = forest.grow(&branch).await {
                write!(out, " [{}]", escape::message(&problem))?;
            }
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(forest.damaged)
    })?;
    let mut left = Left::default();
    let damaged = viewed.told(&mut left);
    let code = tell_left(&left);
    if damaged > 0 {
        errln!("onewrite: {damaged} entries could not be shown; run `onewrite fsck`");
        return Ok(ExitCode::FAILURE);
    }
    Ok(code)
}

/// An entry, the text before it, and whether it is the last of its directory.
struct Branch {
    name: Vec<u8>,
    found: Found,
    indent: Rc<str>,
    depth: usize,
    is_last: bool,
}

/// A tree that is being shown.
struct Forest<'a, F> {
    fs: &'a F,
    /// Directories already shown.
    seen: BTreeSet<Ino>,
    pending: Vec<Branch>,
    damaged: u64,
}

impl<F: FileView> Forest<'_, F> {
    /// Queues the entries below a branch; returns what is wrong with it.
    async fn grow(&mut self, branch: &Branch) -> Option<String> {
        let Branch { found, indent, depth, is_last, .. } = branch;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.damaged += 1;
                return Some(error.to_string());
            }
        };
        if found.attributes.kind != FileKind::Directory {
            return None;
        }
        let deeper = format!("{indent}{}", draw::below(*is_last));
        self.children(&found.attributes, deeper.into(), depth + 1).await
    }

    async fn children(&mut self, of: &Attributes, indent: Rc<str>, depth: usize) -> Option<String> {
        let problem = match () {
            () if !self.seen.insert(of.ino) => {
                format!("damaged: {} is a directory with two names; it is shown under the other", of.ino)
            }
            () if depth > DEPTH_MAX => format!("deeper than {DEPTH_MAX} levels"),
            () => match listed(self.fs, of.ino).await {
                Err(error) => error.to_string(),
                Ok(children) => {
                    let last = children.len();
                    let branches = children.into_iter().enumerate().map(|(index, (name, found))| {
                        let (indent, is_last) = (Rc::clone(&indent), index + 1 == last);
                        Branch { name, found, indent, depth, is_last }
                    });
                    self.pending.extend(branches.rev());
                    return None;
                }
            },
        };
        self.damaged += 1;
        Some(problem)
    }
}

/// Shows the attributes of files.
pub fn stat(args: &Stat) -> anyhow::Result<ExitCode> {
    let mut left = Left::default();
    for place in &args.places {
        let (image, path) = named_place(place)?;
        let viewed = with_view(&image, args.rescue, async move |fs| {
            let found = looked_up(fs, &path).await?;
            described(fs, &path, &found).await
        })?;
        out!("{}", viewed.told(&mut left));
    }
    Ok(tell_left(&left))
}

async fn described<F: FileView>(fs: &F, path: &str, found: &Listed) -> anyhow::Result<String> {
    use std::fmt::Write;
    let Attributes { ino, kind, permissions, links, uid, gid, size, sectors, device, .. } = found.attributes;
    let kind = match kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character device",
        FileKind::BlockDevice => "block device",
    };
    let mut text = format!("       File: {}", escape::name(path.as_bytes()));
    if let Some(target) = &found.target {
        write!(text, " -> {}", escape::name(target))?;
    }
    write!(text, "\n       Kind: {kind}")?;
    if matches!(found.attributes.kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        write!(text, " {}, {}", device.major, device.minor)?;
    }
    writeln!(text, "\n       Size: {size} bytes in {sectors} sectors of 512 bytes")?;
    writeln!(text, "      Inode: {}, {links} links", ino.0)?;
    writeln!(text, "Permissions: {permissions:04o} {}, owner {uid}, group {gid}", mode(&found.attributes))?;
    let Attributes { accessed, modified, changed, created, .. } = found.attributes;
    let times = [("Accessed", accessed), ("Modified", modified), ("Changed", changed)];
    for (title, stamp) in times.into_iter().chain(created.map(|created| ("Created", created))) {
        writeln!(
            text,
            "{title:>11}: {}:{:02}.{:09} UTC",
            date(stamp),
            stamp.seconds.rem_euclid(60),
            stamp.nanoseconds
        )?;
    }
    for name in fs.extended_attributes(ino).await? {
        let length = fs.extended_attribute(ino, &name).await?.len();
        writeln!(text, "  Attribute: {} of {length} bytes", escape::name(&name))?;
    }
    Ok(text)
}

async fn looked_up<F: FileView>(fs: &F, path: &str) -> anyhow::Result<Listed> {
    let ino = resolve(fs, path.as_bytes()).await.with_context(|| path.to_owned())?;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(look(fs, name.as_bytes().to_vec(), ino).await?)
}

/// The start of a line such as `drwxr-xr-x  2  0  0  4096  2026-11-21 04:00 `.
fn long(entry: &Listed) -> String {
    let attributes = &entry.attributes;
    let size = match attributes.kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => {
            format!("{}, {}", attributes.device.major, attributes.device.minor)
        }
        _ => attributes.size.to_string(),
    };
    let (uid, gid, links) = (attributes.uid, attributes.gid, attributes.links);
    format!("{} {links:>3} {uid:>5} {gid:>5} {size:>12} {} ", mode(attributes), date(attributes.modified))
}

fn mode(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharacterDevice => 'c',
        FileKind::BlockDevice => 'b',
    };
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::from(kind);
    for (index, (bit, with_x, without_x)) in special.into_iter().enumerate() {
        let bits = attributes.permissions >> (6 - 3 * index) & 7;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (attributes.permissions & bit != 0, bits & 1 != 0) {
            (true, true) => with_x,
            (true, false) => without_x,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A date in UTC (Hinnant's `civil_from_days`).
fn date(time: Timestamp) -> String {
    let (days, second) = (time.seconds.div_euclid(86400), time.seconds.rem_euclid(86400));
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        let date = |seconds| date(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(
            (date(0), date(951_782_400), date(-1)),
            ("1970-01-01 00:00".into(), "2000-02-29 00:00".into(), "1969-12-31 23:59".into())
        );
    }
}
