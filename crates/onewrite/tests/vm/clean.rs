//! Images that are unmounted cleanly: Linux takes ours, we take Linux's, in turn.

use crate::listing::listing;
use crate::machine::Kernel;
use crate::place::{Place, assert_same};
use crate::populate::populate;
use crate::work::{Plan, Reach, content, play, steps};

const SIZE: &str = "128MiB";

fn plan(seed: u64) -> Plan {
    Plan { seed, count: 150, reach: Reach::Deep, has_sync: false }
}

/// Linux lists the image, works on it, lists it again and unmounts it. Returns both listings.
fn linux_works_on(kernel: &Kernel, place: &Place, image: &str, work: &str) -> (Vec<String>, Vec<String>) {
    let script = format!(
        "mount -t f2fs /dev/vda /m; guest list /m; tell then\n{work}\nguest list /m; umount /m\n\
         mount -t f2fs /dev/vda /m; tell again; guest list /m; umount /m"
    );
    let told = kernel.run(&place.path(""), &[place.path(image)], &script);
    let mut parts = told.split(|line| line == "then" || line == "again").map(<[String]>::to_vec);
    let (before, after, again) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    assert_same(&after, &again, "Linux, then Linux behind an unmount");
    (before, after)
}

/// Our listing of an image: by `onewrite cp`, and by a mount.
fn listed_by_us(place: &Place, image: &str) -> Vec<String> {
    let mount = place.mount(&place.path(image), "");
    let listed = listing(&mount.root());
    mount.unmount();
    listed
}

#[test]
fn an_empty_f2fs_of_ours_is_filled_by_linux_and_read_back() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    place.onewrite(&format!("mkfs image --fs f2fs --size {SIZE}"));
    let work = format!("guest populate /m; guest play /m {}", plan(1).words());
    let (_, after) = linux_works_on(kernel, &place, "image", &work);
    place.assert_clean_f2fs("image");
    assert!(after.len() > 4_500, "{} lines", after.len());
    assert_same(&after, &listed_by_us(&place, "image"), "Linux, then ours");
    place.assert_clean_f2fs("image");
}

#[test]
fn an_f2fs_that_ours_filled_from_a_tree_is_what_linux_shows() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    let tree = place.path("from");
    std::fs::create_dir(&tree).unwrap();
    populate(&tree);
    place.onewrite(&format!("mkfs image --fs f2fs --size {SIZE} --from from"));
    let work = format!("guest play /m {}", plan(2).words());
    let (before, after) = linux_works_on(kernel, &place, "image", &work);
    assert_same(&listing(&tree), &before, "the tree, then Linux");
    place.assert_clean_f2fs("image");
    assert_same(&after, &listed_by_us(&place, "image"), "Linux, then ours");
}

#[test]
fn an_f2fs_that_a_mount_of_ours_filled_is_what_linux_shows() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    place.onewrite(&format!("mkfs image --fs f2fs --size {SIZE}"));
    let mount = place.mount(&place.path("image"), "");
    populate(&mount.root());
    play(&mount.root(), &steps(plan(3)), |_| ());
    let ours = listing(&mount.root());
    mount.unmount();
    let work = "mkdir /m/more; guest populate /m/more; rm -r /m/tree";
    let (before, after) = linux_works_on(kernel, &place, "image", work);
    assert_same(&ours, &before, "ours, then Linux");
    place.assert_clean_f2fs("image");
    assert_same(&after, &listed_by_us(&place, "image"), "Linux, then ours");
}

#[test]
fn an_f2fs_of_linux_is_read_and_changed_by_us_and_taken_back() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    place.other("truncate", &format!("-s {} image", SIZE.replace("iB", "")));
    place.other("mkfs.f2fs", "-q -f image");
    let (_, linux) = linux_works_on(kernel, &place, "image", "guest populate /m");
    commands_read(&place, &linux);
    let mount = place.mount(&place.path("image"), "");
    assert_same(&linux, &listing(&mount.root()), "Linux, then ours");
    let work = mount.root().join("work");
    std::fs::create_dir(&work).unwrap();
    play(&work, &steps(plan(4)), |_| ());
    change_what_linux_made(&mount.root().join("tree"));
    let ours = listing(&mount.root());
    mount.unmount();
    place.assert_clean_f2fs("image");
    let (before, after) = linux_works_on(kernel, &place, "image", "rm -r /m/tree/large; guest play /m 5 150 1 0");
    assert_same(&ours, &before, "ours, then Linux");
    place.assert_clean_f2fs("image");
    assert_same(&after, &listed_by_us(&place, "image"), "Linux, then ours again");
}

/// `ls`, `cat`, `tree` and `cp` show the image as Linux listed it.
fn commands_read(place: &Place, linux: &[String]) {
    assert_eq!(place.onewrite("ls image:/tree/small").split_whitespace().filter(|word| *word == "name").count(), 5);
    assert_eq!(place.onewrite("cat image:/tree/deep/again"), String::from_utf8_lossy(&content(2, 0, 100)));
    let tree = place.onewrite("tree image:/tree/medium");
    assert!((0..300).all(|number| tree.contains(&format!("name {number} of some length"))), "{tree}");
    std::fs::create_dir(place.path("out")).unwrap();
    place.onewrite("cp -p image:/tree out");
    assert_same(linux, &listing(&place.path("out")), "Linux, then a copy of ours");
    std::fs::remove_dir_all(place.path("out")).unwrap();
}

/// Changes content and names in inodes, large directories, and files with holes.
fn change_what_linux_made(tree: &std::path::Path) {
    for name in ["file of 1", "file of 3000", "file of 3500", "file of 70000", "sparse"] {
        let file = std::fs::File::options().append(true).open(tree.join(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"by ours", 50).unwrap();
        file.sync_all().unwrap();
    }
    for number in 0..5 {
        std::fs::write(tree.join(format!("small/new {number}")), b"new").unwrap();
        std::fs::rename(tree.join(format!("small/name {number} of some length")), tree.join(format!("large/{number}")))
            .unwrap();
    }
    std::fs::remove_dir_all(tree.join("medium")).unwrap();
    std::fs::remove_file(tree.join("file of 5000000")).unwrap();
}
