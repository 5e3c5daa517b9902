//! `onewrite ls`, `cat` and `tree`: looks that change nothing.

use std::io::Write;

use anyhow::{Context, bail};
use onewrite_fs::api::resolve;
use onewrite_fs::ext4::Ext4;
use onewrite_fs::{Attributes, FileKind, FileSystem, Manner, Timestamp};
use onewrite_lab::transfer::{Listed, list, look};

use crate::args::{Cat, Ls, Tree};
use crate::open::{image_place, with_image};

/// Lists a directory, or shows a single file.
pub fn ls(args: &Ls) -> anyhow::Result<()> {
    let (image, path) = image_place(&args.place);
    let listed = with_image(&image, false, async move |fs| {
        let found = looked_up(fs, &path).await?;
        match found.attributes.kind {
            FileKind::Directory => Ok(list(fs, found.attributes.ino).await?),
            _ => Ok(vec![found]),
        }
    })?;
    let mut out = std::io::stdout().lock();
    for entry in listed {
        if args.long {
            out.write_all(long(&entry).as_bytes())?;
        }
        out.write_all(&entry.name)?;
        if let Some(target) = entry.target.as_ref().filter(|_| args.long) {
            out.write_all(b" -> ")?;
            out.write_all(target)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Prints a file.
pub fn cat(args: &Cat) -> anyhow::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let (image, path) = image_place(&args.place);
    with_image(&image, false, async move |fs| {
        let attributes = looked_up(fs, &path).await?.attributes;
        if attributes.kind != FileKind::Regular {
            bail!("{path} is not a file");
        }
        let mut out = std::io::stdout().lock();
        for offset in (0..attributes.size).step_by(CHUNK as usize) {
            out.write_all(&fs.read(attributes.ino, offset, CHUNK, Manner::default()).await?.to_vec())?;
        }
        Ok(out.flush()?)
    })
}

/// Shows a tree.
pub fn tree(args: &Tree) -> anyhow::Result<()> {
    let (image, path) = image_place(&args.place);
    with_image(&image, false, async move |fs| {
        let root = looked_up(fs, &path).await?.attributes;
        let mut out = std::io::stdout().lock();
        out.write_all(path.as_bytes())?;
        out.write_all(b"\n")?;
        let mut pending = Vec::new();
        push_children(fs, &root, "", &mut pending).await?;
        while let Some((entry, indent, is_last)) = pending.pop() {
            write!(out, "{indent}{}", if is_last { "└── " } else { "├── " })?;
            out.write_all(&entry.name)?;
            if let Some(target) = &entry.target {
                out.write_all(b" -> ")?;
                out.write_all(target)?;
            }
            out.write_all(b"\n")?;
            let deeper = format!("{indent}{}", if is_last { "    " } else { "│   " });
            push_children(fs, &entry.attributes, &deeper, &mut pending).await?;
        }
        Ok(())
    })
}

/// An entry with what stands before it, and whether it is the last of its directory.
type Branch = (Listed, String, bool);

async fn push_children(fs: &Ext4, of: &Attributes, indent: &str, pending: &mut Vec<Branch>) -> anyhow::Result<()> {
    if of.kind != FileKind::Directory {
        return Ok(());
    }
    let children = list(fs, of.ino).await?;
    let last = children.len();
    let branches = children.into_iter().enumerate().map(|(index, child)| (child, indent.to_owned(), index + 1 == last));
    pending.extend(branches.rev());
    Ok(())
}

async fn looked_up(fs: &Ext4, path: &str) -> anyhow::Result<Listed> {
    let ino = resolve(fs, path.as_bytes()).await.with_context(|| path.to_owned())?;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(look(fs, name.as_bytes().to_vec(), ino).await?)
}

/// `drwxr-xr-x  2  0  0  4096  2026-11-21 04:00 `
fn long(entry: &Listed) -> String {
    let attributes = &entry.attributes;
    let size = match attributes.kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => {
            format!("{}, {}", attributes.device.0, attributes.device.1)
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
