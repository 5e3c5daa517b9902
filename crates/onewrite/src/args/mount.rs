//! Arguments of the commands around a mount.

use std::path::PathBuf;

use clap::Args;

use super::names::mode_help;

/// Columns of the help of `-o`.
const COLUMNS: usize = 78;
/// Where its texts begin.
const TEXT_AT: usize = 19;

/// What `-o` takes; `commands/mount/options.rs` parses it.
fn options_help() -> String {
    let modes = wrapped(&format!("{} [ordered]", mode_help()));
    format!("Options of -o:\n  data=MODE        {modes}\n  {OPTIONS}")
}

/// Breaks a text at blanks; lines after the first are indented.
fn wrapped(text: &str) -> String {
    let (mut whole, mut column) = (String::new(), TEXT_AT);
    for word in text.split(' ') {
        if column + word.len() > COLUMNS {
            whole += &format!("\n{:TEXT_AT$}", "");
            column = TEXT_AT;
        } else if !whole.is_empty() {
            whole.push(' ');
        }
        whole += word;
        column += word.len() + 1;
    }
    whole
}

/// The other options; the indent of the first stands before them.
const OPTIONS: &str = "\
  ro, rw           refuse changes (a log is replayed in memory), or not; the
                   last of two options that contradict each other counts
  cache=SIZE       page cache of the file system [64MiB]
  policy=NAME      which page leaves it [lru]; see `onewrite run --help`
  commit=SECONDS   age at which a transaction commits by itself [5; F2FS: a
                   checkpoint, 60]; content that waits for its blocks (see
                   nodelalloc) is written 30 s after its change
  max_batch_time=USEC  longest time for which a commit waits for others that
                   sync, so that they share it; 0: never [15000]
  clean=WAY        how F2FS cleans: copy, or share by SHARE [copy]
  mode=adaptive|lfs  which blocks F2FS's logs take: whole segments, then free
                   blocks of used ones; or whole segments only [adaptive]
  atgc             F2FS cleans in quiet times what has not changed for seven
                   days of mounted time, not by cost and benefit
  ipu=PAGES        an fsync of fewer pages of an F2FS file writes them over
                   their blocks, and is not atomic [0: never; 9 is Linux's]
  stage=FILE       file or device of F2FS's staging area, of 256 KiB or more,
                   its first page zeros when it is new (truncate -s 32M FILE)
                   [behind the image, if mkfs made one]
  discard_stage    give up what fsyncs staged, if something else wrote since
                   or the staging area is damaged or not there
  atomic=GLOB      files whose name fits (*.db) are atomic: fsync commits
                   their changes, the last close drops what it left;
                   may be given more than once
  nodelalloc       allocate blocks when files are written to
  allow_other      let other users in, as permissions say
  dev, suid        let device nodes and set-user-ID programs work (root only)
  noexec, sync     as mount(8) has them; sync for content, not for names
  size=SIZE        of an emulated device, which is formatted [1GiB]
  nofail           a missing image is no error, and nothing is mounted
  debug            log every refusal
Times of reading are not kept (noatime). Options of fstab that mean nothing
here (defaults, noauto, user, _netdev, x-...) are ignored.

fstab: IMAGE DIR fuse.onewrite data=ordered,allow_other 0 0
(`make install` puts the helpers of mount and umount beside the others).";

/// `onewrite mount`
#[derive(Debug, Args)]
#[command(after_help = options_help())]
pub struct Mount {
    /// Image file, block device, or emulated device by name (see `onewrite device`), which is formatted and works in
    /// real time.
    #[arg(value_name = "IMAGE|DISK|PROFILE")]
    pub source: String,
    /// Directory to mount on.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Options, separated by commas.
    #[arg(short, value_name = "OPTIONS", value_delimiter = ',')]
    pub options: Vec<String>,
    /// Stay in the foreground, and log to standard error (without --log).
    #[arg(short, long)]
    pub foreground: bool,
    /// Log to this file, which is new, empty or a log of a mount [default: one named after DIR in /var/log/onewrite, or
    /// in ~/.local/state/onewrite].
    #[arg(long, value_name = "FILE", conflicts_with = "foreground")]
    pub log: Option<PathBuf>,
}

/// `onewrite umount`
#[derive(Debug, Args)]
pub struct Umount {
    /// Directory that `onewrite mount` mounted on.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Detach the mount even while programs use it, and do not wait for them.
    #[arg(short, long)]
    pub lazy: bool,
}

/// `onewrite stats`
#[derive(Debug, Args)]
pub struct Stats {
    /// Directory that `onewrite mount` mounted on.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use onewrite_fs::ext4::Mode;

    use super::*;

    #[test]
    fn the_help_names_every_mode_and_is_narrow() {
        let help = options_help();
        let words: Vec<&str> = help.split([' ', ',', ';', '\n']).collect();
        assert!(Mode::ALL.iter().all(|mode| words.contains(&mode.name())), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= COLUMNS), "{help}");
        let indent = |line: &str| line.len() - line.trim_start().len();
        assert!(help.lines().all(|line| [0, 2, TEXT_AT].contains(&indent(line))), "{help}");
    }
}
