//! `onewrite mkfs --from` beside `mke2fs -d`: trees of small files, a thousand in each directory. Beside them what the
//! kernel takes alone: a loop that opens, reads and closes each file and writes a page of a new file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::{OURS, ROUNDS, is_there, median, own_seconds, seconds};

const FILES_IN_DIRECTORY: u64 = 1000;
/// Most microseconds for each file of a million.
const WANTED_MICROS: f64 = 25.0;
/// Most that a file of a larger tree takes of one of a smaller tree.
const WANTED_GROWTH: f64 = 1.5;

fn make_tree(root: &Path, files: u64) {
    for directory in 0..files / FILES_IN_DIRECTORY {
        let path = root.join(format!("d{directory}"));
        fs::create_dir_all(&path).expect("room");
        for file in 0..FILES_IN_DIRECTORY {
            fs::write(path.join(format!("file-{file}")), vec![b'x'; file as usize % 200]).expect("room");
        }
    }
}

fn ours(tree: &Path, image: &Path, size: &str) -> f64 {
    let mut command = Command::new(OURS);
    seconds(command.args(["-q", "mkfs", "--force", "--size", size, "--from"]).args([tree, image]))
}

fn rival(tree: &Path, image: &Path, size: &str) -> f64 {
    let mut command = Command::new("mke2fs");
    seconds(command.args(["-q", "-F", "-t", "ext4", "-d"]).args([tree, image]).arg(size))
}

/// Reads each file of the tree and writes a page for it; gives processor seconds.
fn kernel(tree: &Path, image: &Path, _: &str) -> f64 {
    let before = own_seconds();
    let mut pages = File::create(image).expect("room");
    for directory in fs::read_dir(tree).expect("the tree is there") {
        for file in fs::read_dir(directory.expect("it stays").path()).expect("a directory") {
            let mut page = [0; 4096];
            let mut source = File::open(file.expect("it stays").path()).expect("it stays");
            let length = source.read(&mut page).expect("it can be read");
            assert_eq!(source.read(&mut page[length..]).expect("it ends"), 0, "files are smaller than a page");
            pages.write_all(&page).expect("room");
        }
    }
    own_seconds() - before
}

pub fn compare(scratch: &Path) {
    let has_rival = is_there("mke2fs");
    let mut least = f64::INFINITY;
    let more = std::env::var("FILES").ok().map(|files| files.parse().expect("FILES is a number"));
    for files in [10_000, 100_000].into_iter().chain(more) {
        assert!(files > 0 && files % FILES_IN_DIRECTORY == 0, "FILES={files}: give thousands");
        let (tree, image) = (scratch.join("tree"), scratch.join("tree.img"));
        make_tree(&tree, files);
        let size = if files > 200_000 { "16G" } else { "2G" };
        let rounds = if files > 200_000 { 1 } else { ROUNDS };
        let (mut own, mut other, mut least_of_kernel) = (Vec::new(), Vec::new(), Vec::new());
        // Each image is a new file: blocks of the host that are there already cost less.
        let made_anew = |make: fn(&Path, &Path, &str) -> f64| {
            let _ = fs::remove_file(&image);
            make(&tree, &image, size)
        };
        for _ in 0..rounds {
            own.push(made_anew(ours));
            other.extend(has_rival.then(|| made_anew(rival)));
            least_of_kernel.push(made_anew(kernel));
        }
        let each = |seconds: f64| seconds * 1e6 / files as f64;
        let own = each(median(&mut own));
        let of_kernel = each(median(&mut least_of_kernel));
        print!("tree of {files} files: onewrite {own:.1} µs a file, reading and a page each alone {of_kernel:.1}");
        if !other.is_empty() {
            print!(", mke2fs -d {:.1}", each(median(&mut other)));
        }
        let is_reached = own <= least * WANTED_GROWTH && (files < 1_000_000 || own <= WANTED_MICROS);
        println!(": {}", verdict(is_reached));
        least = least.min(own);
        fs::remove_dir_all(&tree).expect("the tree is still there");
        let _ = fs::remove_file(&image);
    }
}
