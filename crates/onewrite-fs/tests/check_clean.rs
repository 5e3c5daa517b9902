//! Sound images: the checker finds nothing where e2fsck finds nothing.

mod support;

use std::path::Path;

use onewrite_block::{Choices, MIB};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use support::patient::{Memory, check_memory};
use support::{LoopMount, Scratch, assert_clean, fill_by_kernel, make_image, many, populate, run, text};

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
            bytes[block as usize * 4096..][..4096].copy_from_slice(&page.bytes()[..]);
        }
        std::fs::write(&path, bytes).expect("image");
        assert_eq!(assert_no_finding(&path).directories, 2);
    }
}
