//! Sound images: the checker finds nothing where e2fsck finds nothing.

use std::path::Path;

use onewrite_block::{Choices, MIB};
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};

use crate::support::patient::{Memory, Patient, check_memory};
use crate::support::{LoopMount, Scratch, assert_clean, fill_by_kernel, make_image, many, populate, run, text};

fn assert_no_finding(path: &Path) -> onewrite_fs::check::Report {
    assert_clean(path);
    let report = check_memory(&Memory::new(&std::fs::read(path).expect("image")));
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{}", findings.join("\n"));
    report
}

fn check_with(name: &str, names: u32, extra: &[&str]) {
    let scratch = Scratch::new(name);
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    populate(&tree);
    many(&tree.join("many"), names, 40);
    make_image(&path, Some(&tree), "128M", extra);
    let report = assert_no_finding(&path);
    assert!(report.used_inodes > u64::from(names) + 300 && report.directories > 5, "{report:?}");
}

#[test]
fn an_image_with_default_features_gives_no_finding() {
    check_with("clean-default", 5_000, &[]);
}

#[test]
fn images_with_other_features_give_no_finding() {
    check_with("clean-plain", 600, &["-O", "^metadata_csum,^64bit,^flex_bg", "-I", "128"]);
    check_with("clean-crc16", 600, &["-O", "^metadata_csum,uninit_bg,^resize_inode"]);
    check_with("clean-groups", 600, &["-O", "metadata_csum_seed,^huge_file", "-g", "4096"]);
    check_with("clean-map", 600, &["-O", "^extent,^64bit,^dir_index"]);
}

#[test]
fn a_directory_with_two_index_levels_gives_no_finding() {
    let scratch = Scratch::new("clean-levels");
    let path = scratch.path("image");
    make_image(&path, None, "128M", &[]);
    if fill_by_kernel(&path, |root| many(&root.join("many"), 8_500, 250)) {
        assert_no_finding(&path);
    }
}

#[test]
fn what_the_kernel_wrote_gives_no_finding() {
    let scratch = Scratch::new("clean-kernel");
    let path = scratch.path("image");
    make_image(&path, None, "160M", &[]);
    let Some(mount) = LoopMount::new(&path) else { return };
    populate(&mount.path().join("tree"));
    many(&mount.path().join("many"), 5_000, 60);
    let file = mount.path().join("tree/hello");
    for name in ["user.short", "user.größe", "trusted.long"] {
        let program = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())";
        run("python3", &["-c", program, text(&file), name, &"value ".repeat(name.len() * 10)]);
    }
    for number in (0..5_000).step_by(3) {
        std::fs::remove_file(mount.path().join("many").join(format!("{number:060}"))).expect("unlink");
    }
    std::fs::rename(mount.path().join("tree/sub"), mount.path().join("moved")).expect("rename");
    std::fs::write(mount.path().join("kept"), b"x").expect("file");
    run("fallocate", &["-l", "3M", "-n", text(&mount.path().join("kept"))]);
    drop(mount);
    assert_no_finding(&path);
}

#[test]
fn new_file_systems_give_no_finding() {
    for size in [8 * MIB, 32 * MIB, 300 * MIB] {
        let options = MkfsOptions::new(size, &mut Choices::new(size));
        let scratch = Scratch::new(&format!("clean-mkfs-{size}"));
        let path = scratch.path("image");
        let mut bytes = vec![0; size as usize];
        for (block, page) in plan(&options).expect("plan") {
            bytes[block.0 as usize * 4096..][..4096].copy_from_slice(&page.bytes()[..]);
        }
        std::fs::write(&path, bytes).expect("image");
        assert_eq!(assert_no_finding(&path).directories, 2);
    }
}

#[test]
fn a_log_to_replay_is_no_finding() {
    use std::io::Write;
    let scratch = Scratch::new("clean-replay");
    let (path, cut) = (scratch.path("image"), scratch.path("cut"));
    make_image(&path, None, "32M", &[]);
    let Some(mount) = LoopMount::new(&path) else { return };
    let mut file = std::fs::File::create(mount.path().join("orphan")).expect("file");
    file.write_all(&[1; 50_000]).expect("write");
    file.sync_all().expect("sync");
    std::fs::remove_file(mount.path().join("orphan")).expect("unlink");
    run("sync", &["-f", text(mount.path())]);
    // The image that a power cut would leave now.
    std::fs::copy(&path, &cut).expect("copy");
    drop((file, mount));
    let report = check_memory(&Memory::new(&std::fs::read(&cut).expect("image")));
    assert!(report.needs_recovery, "{report:?}");
    run("e2fsck", &["-E", "journal_only", "-y", text(&cut)]);
    let report = check_memory(&Memory::new(&std::fs::read(&cut).expect("image")));
    assert!(report.is_clean() && !report.needs_recovery, "{report:?}");
}

#[test]
fn unlinked_files_on_the_orphan_list_are_no_findings() {
    let scratch = Scratch::new("clean-orphan");
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    many(&tree, 3, 5);
    std::fs::create_dir(tree.join("removed")).expect("directory");
    std::fs::write(tree.join("truncated"), vec![1; 20_000]).expect("file");
    make_image(&path, Some(&tree), "32M", &[]);
    let mut patient = Patient::new(&path);
    let (removed, truncated) = (patient.inode_of("/removed"), patient.inode_of("/truncated"));
    patient.change_entry(InodeNo(2), "removed", |record| record[..4].fill(0));
    patient.change_inode(InodeNo(2), |root| root.links -= 1);
    patient.change_inode(removed, |inode| (inode.links, inode.size, inode.dtime) = (0, 0, truncated.0));
    patient.change_inode(truncated, |inode| inode.size = 100);
    let names = ["00000", "00001"];
    let orphans = names.map(|name| patient.inode_of(&format!("/{name}")));
    for (name, inode, next) in [(names[0], orphans[0], orphans[1]), (names[1], orphans[1], removed)] {
        patient.change_entry(InodeNo(2), name, |record| record[..4].fill(0));
        patient.change_inode(inode, |inode| (inode.links, inode.dtime) = (0, next.0));
    }
    patient.superblock(|raw| raw.last_orphan.set(orphans[0].0));
    patient.write();
    let report = patient.report();
    assert!(report.is_clean() && report.orphans == 4, "{report:?}");
    patient.change_inode(orphans[1], |inode| inode.dtime = orphans[0].0);
    patient.write();
    assert!(patient.report().findings[0].problem.contains("twice"), "a list that turns in a circle");
}
