//! Damage: a view gives an error that names its place. A rescue reads everything else and names its losses.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{fill, make};
use crate::seen::{assert_same, by_view};
use crate::support::{Scratch, run, text};

fn overwrite(image: &Path, offset: u64, bytes: &[u8]) {
    fs::OpenOptions::new().write(true).open(image).and_then(|file| file.write_all_at(bytes, offset)).expect("write");
}

/// An image filled by mke2fs; needs no kernel mount.
fn filled(scratch: &Scratch, arguments: &str) -> std::path::PathBuf {
    let (image, tree) = (scratch.path("image"), scratch.path("tree"));
    fs::create_dir(&tree).expect("directory");
    fill(&tree, 20 << 20);
    fs::remove_file(tree.join("sub/s")).expect("rm");
    make(&image, &format!("{arguments} -d {}", text(&tree)), "64M");
    image
}

/// Block number `which` of file `path`, in the list of debugfs's `blocks`.
fn block_of(image: &Path, path: &str, which: usize) -> u64 {
    let said = run("debugfs", &["-R", &format!("blocks {path}"), text(image)]);
    said.split_whitespace().nth(which).and_then(|block| block.parse().ok()).expect("a block")
}

fn number_of(image: &Path, path: &str) -> u64 {
    let said = run("debugfs", &["-R", &format!("stat {path}"), text(image)]);
    said.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_rescue_reads_all_without_superblock_and_descriptors() {
    for (arguments, size) in [("-t ext4 -b 4096 -g 4096", 4096), ("-t ext4 -b 1024", 1024), ("-t ext3 -b 2048", 2048)] {
        let scratch = Scratch::new(&format!("view-rescue-{size}"));
        let image = filled(&scratch, arguments);
        let sound = by_view(&image, false).expect("a view");
        overwrite(&image, 1024, &[0xaa; 1024]);
        let descriptors = if size == 1024 { 2 } else { 1 };
        overwrite(&image, descriptors * size, &vec![0x77; size as usize]);
        let refusal = by_view(&image, false).err().expect("refused").to_string();
        assert!(refusal.contains("superblock"), "{arguments}: {refusal}");
        let rescued = by_view(&image, true).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert_same(&sound.entries, &rescued.entries, arguments);
        let told = rescued.losses.told.join("\n");
        assert!(told.contains("superblock") && told.contains("group 0"), "{arguments}: {told}");
    }
}

#[test]
fn a_wrong_checksum_is_an_error_that_names_its_place_and_a_rescue_reads_on() {
    let scratch = Scratch::new("view-checksum");
    let image = filled(&scratch, "-t ext4 -b 1024");
    let sound = by_view(&image, false).expect("a view");
    // A byte behind the last record of a directory's block; only the checksum covers it.
    let block = block_of(&image, "/of-20-names", 0);
    overwrite(&image, block * 1024 + 1024 - 20, b"x");
    let number = number_of(&image, "/of-20-names");
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    let place = format!("block 0 of inode {number}");
    assert!(refusal.contains("checksum") && refusal.contains(&place), "{refusal}");
    let rescued = by_view(&image, true).expect("a rescue");
    assert_same(&sound.entries, &rescued.entries, "a rescue");
}

#[test]
fn a_rescue_names_what_is_lost_and_keeps_the_rest() {
    let scratch = Scratch::new("view-lost");
    let image = filled(&scratch, "-t ext4 -b 1024");
    let sound = by_view(&image, false).expect("a view");
    // A file with a senseless map, an inode without a kind, and a directory of random bytes.
    let (hurt, gone) = ("/sub/of-5000", "/sub/of-1025");
    run("debugfs", &["-w", "-R", &format!("set_inode_field {hurt} block[0] 0x12345678"), text(&image)]);
    run("debugfs", &["-w", "-R", &format!("set_inode_field {gone} mode 0"), text(&image)]);
    let noise = block_of(&image, "/of-6-names", 0);
    overwrite(&image, noise * 1024, &[0xee; 1024]);
    assert!(by_view(&image, false).is_err());
    let rescued = by_view(&image, true).expect("a rescue");
    let told = rescued.losses.told.join("\n");
    for (path, word) in [(hurt, "bytes 0 to 5000"), (gone, "`of-1025`"), ("/of-6-names", "directory inode")] {
        let number = match path == gone {
            true => word.to_owned(),
            false => format!("inode {}", number_of(&image, path)),
        };
        assert!(told.contains(word) && told.contains(&number), "{path}: {told}");
    }
    let expected =
        sound.entries.into_iter().filter(|entry| entry.path != gone && !entry.path.starts_with("/of-6-names/"));
    let expected: Vec<_> = expected.filter(|entry| entry.path != hurt).collect();
    let kept: Vec<_> = rescued.entries.into_iter().filter(|entry| entry.path != hurt).collect();
    assert_same(&expected, &kept, "the rest");
}

#[test]
fn a_truncated_image_is_refused_and_rescued() {
    let scratch = Scratch::new("view-truncated");
    let image = filled(&scratch, "-t ext2 -b 1024");
    fs::OpenOptions::new().write(true).open(&image).and_then(|file| file.set_len(40 << 20)).expect("truncate");
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    assert!(refusal.contains("65536 blocks of 1024 bytes"), "{refusal}");
    let rescued = by_view(&image, true).expect("a rescue");
    assert!(rescued.losses.told[0].contains("the end of the image"), "{:?}", rescued.losses);
    assert!(rescued.entries.iter().any(|entry| entry.path == "/sub/of-5000"));
}

#[test]
fn an_encrypted_file_is_refused_by_name_and_the_rest_is_read() {
    let scratch = Scratch::new("view-encrypted");
    let image = filled(&scratch, "-t ext4 -b 4096 -O encrypt");
    let number = number_of(&image, "/sub/of-5000");
    run("debugfs", &["-w", "-R", "set_inode_field /sub/of-5000 flags 0x80800", text(&image)]);
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    assert!(refusal.contains(&format!("inode {number} is encrypted")), "{refusal}");
    let rescued = by_view(&image, true).expect("a rescue");
    let told = rescued.losses.told.join("\n");
    assert!(rescued.losses.count == 1 && told.contains("`of-5000`") && told.contains("encrypted"), "{told}");
}

#[test]
fn a_mounted_image_with_protection_is_read_with_a_warning() {
    let scratch = Scratch::new("view-protected");
    let image = filled(&scratch, "-t ext4 -b 4096 -O mmp");
    assert!(by_view(&image, false).expect("a view").warnings.is_empty());
    let said = run("debugfs", &["-R", "stats", text(&image)]);
    let block = said.lines().find_map(|line| line.strip_prefix("MMP block number:")).expect("a block");
    let block: u64 = block.trim().parse().expect("a number");
    overwrite(&image, block * 4096 + 4, &7_u32.to_le_bytes());
    let warnings = by_view(&image, false).expect("a view").warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("may be mounted"), "{warnings:?}");
}

#[test]
fn a_value_in_an_inode_is_checked_against_its_checksum() {
    let scratch = Scratch::new("view-value");
    let image = filled(&scratch, "-t ext4 -b 4096 -O ea_inode");
    fs::write(scratch.path("value"), vec![0xc5; 10_000]).expect("value");
    let set = format!("ea_set -f {} /sub/of-5000 user.large", text(&scratch.path("value")));
    run("debugfs", &["-w", "-R", &set, text(&image)]);
    assert!(by_view(&image, false).is_ok(), "a sound value");
    let bytes = fs::read(&image).expect("image");
    let block = bytes.chunks(4096).position(|block| block.iter().all(|&byte| byte == 0xc5)).expect("the value");
    overwrite(&image, block as u64 * 4096 + 100, b"x");
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    let owner = format!("an attribute of inode {}", number_of(&image, "/sub/of-5000"));
    assert!(refusal.contains("checksum") && refusal.contains(&owner), "{refusal}");
    assert!(by_view(&image, true).is_ok(), "a rescue reads on");
}
