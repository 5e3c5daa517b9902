//! Logs that debugfs writes: we replay them, read them in place, and leave their superblock as e2fsck does.

use std::fs;
use std::path::{Path, PathBuf};

use onewrite_block::{Executor, Geometry, RamDisk};
use onewrite_fs::ext4::replay;
use onewrite_fs::{FileView, Manner};

use super::make;
use crate::seen::{names, on_view};
use crate::support::volume::{image, load, save};
use crate::support::{Scratch, assert_clean, output, run, text};

const BLOCK: usize = 4096;
/// Byte that fills the blocks of `/file`.
const HOME: u8 = b'h';
/// Byte that fills their copies in the log.
const LOGGED: u8 = b'l';

/// An image that holds `/file` of two blocks and a log with these transactions of debugfs. There, `FIRST` and `SECOND`
/// stand for the blocks of the file.
fn logged(scratch: &Scratch, transactions: &[&str]) -> PathBuf {
    let [tree, image, copy, script] = ["tree", "image", "copy", "script"].map(|name| scratch.path(name));
    fs::create_dir_all(&tree).expect("directory");
    fs::write(tree.join("file"), [HOME; 2 * BLOCK]).expect("file");
    fs::write(&copy, [LOGGED; BLOCK]).expect("file");
    make(&image, &format!("-t ext4 -b 4096 -d {}", text(&tree)), "16M");
    let blocks = run("debugfs", &["-R", "blocks /file", text(&image)]);
    let [first, second] = [0, 1].map(|at| blocks.split_whitespace().nth(at).expect("two blocks"));
    // The log is closed behind each transaction: debugfs 1.47.0 writes the next one over the commit block otherwise.
    let write = |what: &&str| format!("jo -c\njw {what} {}\njc\n", text(&copy));
    let lines: String = transactions.iter().map(write).collect();
    fs::write(&script, lines.replace("FIRST", first).replace("SECOND", second)).expect("file");
    run("debugfs", &["-w", "-f", text(&script), text(&image)]);
    image
}

/// The first bytes of both blocks of `/file`, as a view reads them: the log laid over the image, if it waits.
fn file_by_view(path: &Path) -> [u8; 2] {
    let read = on_view(path, false, async |view| {
        let all = names(view, view.root()).await?;
        let ino = all.iter().find(|(name, _)| name == "file").expect("a file").1;
        Ok(view.read(ino, 0, 2 * BLOCK as u64, Manner::default()).await?.to_vec())
    });
    let read = read.expect("a view");
    assert!(read.chunks(BLOCK).all(|block| block.iter().all(|byte| *byte == block[0])), "a torn block");
    [read[0], read[BLOCK]]
}

/// Replays the log as we do.
fn replay_ours(path: &Path) {
    let before = load(path);
    let geometry = Geometry::plain("ram", before.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(before, geometry)));
    let door = port.clone();
    let replayed = executor.block_on(async move { replay(&door).await }).expect("nothing halts");
    assert!(replayed.expect("a sound log").is_some(), "the log does not wait");
    drop(executor);
    save(&image(port.unplug()), path);
}

/// What `dumpe2fs` says of the log: its features, its next sequence, and where it starts.
fn log_superblock(path: &Path) -> [String; 3] {
    let said = run("dumpe2fs", &["-h", text(path)]);
    ["features", "sequence", "start"].map(|what| {
        let found = said.lines().find_map(|line| line.strip_prefix(&format!("Journal {what}:")));
        found.unwrap_or_else(|| panic!("no {what} in {said}")).trim().to_owned()
    })
}

/// Asserts that a view, our replay and e2fsck find `expected` in the blocks of `/file`, and that we leave the log's
/// superblock as e2fsck does. Gives its sequence.
fn assert_alike(name: &str, transactions: &[&str], expected: [u8; 2]) -> String {
    let scratch = Scratch::new(&format!("foreign-log-{name}"));
    let [ours, theirs] = [logged(&scratch, transactions), scratch.path("theirs")];
    fs::copy(&ours, &theirs).expect("copy");
    assert_eq!(file_by_view(&ours), expected, "{transactions:?}: read in place");
    replay_ours(&ours);
    let status = output("e2fsck", &["-fy", text(&theirs)]).status.code();
    assert!(matches!(status, Some(0 | 1)), "e2fsck: {status:?}");
    assert_eq!(file_by_view(&theirs), expected, "{transactions:?}: e2fsck");
    assert_eq!(file_by_view(&ours), expected, "{transactions:?}: our replay");
    assert_clean(&ours);
    let [left, expected] = [&ours, &theirs].map(|path| log_superblock(path));
    assert_eq!(left, expected, "{transactions:?}");
    let [_, sequence, _] = left;
    sequence
}

#[test]
fn a_revoke_wins_over_the_copies_of_its_own_and_of_earlier_transactions_and_loses_to_later_ones() {
    assert_alike("one", &["-b FIRST -r FIRST"], [HOME, HOME]);
    assert_alike("earlier", &["-b FIRST", "-b SECOND -r FIRST"], [HOME, LOGGED]);
    assert_alike("later", &["-b SECOND -r FIRST", "-b FIRST"], [LOGGED, LOGGED]);
}

/// Otherwise our next transaction gets the sequence of the torn one, and blocks of both would make one.
#[test]
fn the_log_goes_on_behind_the_sequence_of_a_torn_transaction() {
    let sequence = assert_alike("torn", &["-b FIRST", "-c -b SECOND"], [LOGGED, HOME]);
    assert_eq!(sequence, "0x00000003", "transaction 1 was whole, transaction 2 torn");
}
