//! StageFS on a RAM disk: what fsyncs staged is there at the next mount, and whatever wrote the image in between is
//! noticed. fsck.f2fs and our checker call every unmounted image clean.

use onewrite_block::{Device, Executor, Geometry, Image, Nanos, RamDisk};
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::f2fs::format::checkpoint::StagePlace;
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{
    Allocation, AnyView, AttributeChanges, AttributeManner, Content, Devices, FileSystem, FileView, FsError, FsResult,
    Ino, Manner, NewNode, Position, RenameManner,
};

use crate::support::f2fs::Editor;
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, new_staged_disk, with_mount};
use crate::support::volume::image;

pub const MIB: u64 = 1 << 20;

/// Gives up what is staged elsewhere.
pub fn discarding() -> F2fsOptions {
    F2fsOptions { discard_stage: true, ..F2fsOptions::default() }
}

/// A disk of 64 MiB with a staging area of `stage_bytes` behind it.
pub fn staged(stage_bytes: u64) -> Box<dyn Device> {
    Box::new(new_staged_disk(64 * MIB + stage_bytes, stage_bytes))
}

/// The same image on another disk.
pub fn again(image: &Image) -> Box<dyn Device> {
    let geometry = Geometry::plain("ram", image.pages());
    Box::new(RamDisk::with_image(image.clone(), geometry))
}

/// The image without the area behind it.
fn without_area(whole: &Image) -> Image {
    let pages = 64 * MIB / 4096;
    let mut alone = Image::new(pages);
    whole.written().filter(|(lpn, _)| lpn.0 < pages).for_each(|(lpn, page)| alone.set(lpn, page.clone()));
    alone
}

pub async fn put(fs: &F2fs, name: &str, offset: u64, bytes: &[u8]) -> FsResult<Ino> {
    let ino = match fs.lookup(fs.root(), name.as_bytes()).await {
        Err(FsError::NotFound(_)) => fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?,
        found => found?,
    };
    fs.write(ino, Position::At(offset), Content::Bytes(bytes), Manner::default()).await?;
    Ok(ino)
}

pub async fn get(fs: &impl FileView, name: &str) -> FsResult<Vec<u8>> {
    let ino = fs.lookup(fs.root(), name.as_bytes()).await?;
    Ok(fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec())
}

async fn resize(fs: &F2fs, ino: Ino, size: u64) -> FsResult<()> {
    fs.set_attributes(ino, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
}

/// Runs `work` on a mount that ends without an unmount; gives the image.
pub fn crashed<F: Future<Output = FsResult<()>> + 'static>(
    disk: Box<dyn Device>,
    work: impl FnOnce(std::rc::Rc<F2fs>) -> F + 'static,
) -> Image {
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, |fs, _| work(fs));
    image(disk)
}

/// Looks at what the next mount shows, unmounts, and has the image checked.
pub fn after<F: Future<Output = FsResult<()>> + 'static>(
    image_left: &Image,
    look: impl FnOnce(std::rc::Rc<F2fs>) -> F + 'static,
) {
    let ((), disk) = with_mount(again(image_left), F2fsOptions::default(), Left::Unmounted, |fs, _| look(fs));
    assert_clean(&image(disk));
}

pub fn refusal(image_left: &Image, options: F2fsOptions) -> Option<String> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(again(image_left));
    let mounted = executor.block_on(async move { F2fs::mount(port, options).await.map(drop) });
    mounted.expect("nothing halts").err().map(|error| error.to_string())
}

/// Opens the image for reading, and looks.
pub fn viewed<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    left: &Image,
    look: impl FnOnce(AnyView) -> F + 'static,
) -> T {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(again(left));
    let found = executor.block_on(async move { look(AnyView::open(&port, ViewOptions::default()).await?).await });
    found.expect("nothing halts").expect("it is shown")
}

#[test]
fn bytes_names_and_removals_of_the_last_sync_are_there() {
    let left = crashed(staged(MIB), |fs| async move {
        let root = fs.root();
        let old = put(&fs, "old", 0, &[1; 9000]).await?;
        put(&fs, "gone", 0, &[2; 5000]).await?;
        fs.sync().await?;
        put(&fs, "old", 4000, &[3; 200]).await?;
        fs.unlink(root, b"gone").await?;
        let directory = fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        fs.symlink(directory, b"link", b"../old").await?;
        let manner = RenameManner::Replace;
        fs.rename((root, b"old"), (directory, b"moved"), manner).await?;
        fs.fsync(old).await?;
        put(&fs, "too late", 0, b"nobody synced this").await?;
        Ok(())
    });
    after(&left, |fs| async move {
        assert_eq!(fs.recovered().map(|recovered| recovered.transactions), Some(1));
        let directory = fs.lookup(fs.root(), b"directory").await?;
        let link = fs.lookup(directory, b"link").await?;
        assert_eq!(fs.read_link(link).await?, b"../old");
        let moved = fs.lookup(directory, b"moved").await?;
        let mut expected = vec![1; 9000];
        expected[4000..4200].fill(3);
        assert_eq!(fs.read(moved, 0, u64::MAX, Manner::default()).await?.to_vec(), expected);
        for name in ["old", "gone", "too late"] {
            assert!(get(&*fs, name).await.is_err(), "{name}");
        }
        Ok(())
    });
}

#[test]
fn what_a_truncation_cut_off_stays_gone_when_another_file_is_synced() {
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, &[1; 9000]).await?;
        let other = put(&fs, "other", 0, b"x").await?;
        fs.fsync(file).await?;
        resize(&fs, file, 100).await?;
        fs.fsync(other).await?;
        resize(&fs, file, 9000).await?;
        fs.fsync(other).await
    });
    after(&left, |fs| async move {
        let found = get(&*fs, "file").await?;
        assert_eq!((found.len(), &found[..100]), (9000, &[1; 100][..]));
        assert!(found[100..].iter().all(|byte| *byte == 0), "{:?}", found.iter().rposition(|byte| *byte != 0));
        Ok(())
    });
}

/// Ten pages less two, and two more.
const SECTORS: u64 = 8 * (10 - 2 + 2);

/// A checkpoint saves a smaller size without the page on which the file ends. If the log makes the file longer,
/// recovery makes zeros of what lies behind that size, and its checkpoint empties the log.
#[test]
fn what_recovery_made_zeros_stays_zeros_behind_a_second_crash() {
    let options = F2fsOptions { checkpoint_interval: Nanos::from_secs(1), ..F2fsOptions::default() };
    let ((), disk) = with_mount(staged(MIB), options, Left::AsItIs, |fs, port| async move {
        let file = put(&fs, "file", 0, &[7; 6000]).await?;
        fs.sync().await?;
        resize(&fs, file, 5000).await?;
        port.runtime().sleep(Nanos::from_secs(3)).await;
        resize(&fs, file, 6000).await?;
        let other = put(&fs, "other", 0, b"synced").await?;
        fs.fsync(other).await
    });
    let mut left = image(disk);
    for _ in 0..2 {
        left = crashed(again(&left), |fs| async move {
            let file = get(&*fs, "file").await?;
            assert!(file[..5000] == [7; 5000] && file[5000..] == [0; 1000], "{:?}", &file[4990..5010]);
            Ok(())
        });
    }
    after(&left, |_| async { Ok(()) });
}

#[test]
fn holes_reserved_pages_and_moved_pages_are_as_they_were_synced() {
    let content: Vec<u8> = (0..40_960).map(|at| (at / 4096) as u8 + 1).collect();
    let expected = content.clone();
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, &content).await?;
        fs.fsync(file).await?;
        fs.allocate(file, 4096, 8192, Allocation::PunchHole).await?;
        fs.allocate(file, 40_960, 8192, Allocation::Extend).await?;
        assert_eq!(fs.attributes(file).await?.sectors, SECTORS);
        fs.fsync(file).await?;
        let shifted = put(&fs, "shifted", 0, &content).await?;
        fs.fsync(shifted).await?;
        fs.allocate(shifted, 0, 8192, Allocation::CollapseRange).await?;
        // Another file's sync brings the pages that moved.
        fs.fsync(file).await
    });
    after(&left, |fs| async move {
        let found = get(&*fs, "file").await?;
        assert_eq!(found.len(), 49_152);
        assert!(found[4096..12_288].iter().chain(&found[40_960..]).all(|byte| *byte == 0));
        assert_eq!((&found[..4096], &found[12_288..40_960]), (&expected[..4096], &expected[12_288..]));
        assert_eq!(get(&*fs, "shifted").await?, expected[8192..]);
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.attributes(file).await?.sectors, SECTORS);
        Ok(())
    });
}

#[test]
fn attributes_and_files_without_a_name_are_as_they_were_synced() {
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, b"x").await?;
        for (name, length) in [("user.small", 10), ("user.large", 2000), ("user.gone", 30)] {
            fs.set_extended_attribute(file, name.as_bytes(), Some(&vec![7; length]), AttributeManner::Either).await?;
        }
        fs.fsync(file).await?;
        fs.set_extended_attribute(file, b"user.gone", None, AttributeManner::Either).await?;
        let open = put(&fs, "open", 0, &[5; 20_000]).await?;
        fs.open(open).await?;
        fs.fsync(open).await?;
        fs.unlink(fs.root(), b"open").await?;
        fs.fsync(file).await
    });
    after(&left, |fs| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.extended_attribute(file, b"user.small").await?, vec![7; 10]);
        assert_eq!(fs.extended_attribute(file, b"user.large").await?, vec![7; 2000]);
        assert!(fs.extended_attribute(file, b"user.gone").await.is_err());
        assert!(get(&*fs, "open").await.is_err());
        let space = fs.space().await?;
        let used = space.blocks - space.blocks_free;
        assert_eq!(used, 5, "the root and its names, the file, its page and attributes: \"open\" has left");
        Ok(())
    });
}

#[test]
fn a_full_area_becomes_a_checkpoint_and_many_rounds_follow() {
    let left = crashed(staged(MIB / 4), |fs| async move {
        for round in 0_u64..400 {
            let file = put(&fs, &format!("file {}", round % 7), round * 700, &[(round % 250) as u8 + 1; 700]).await?;
            fs.fsync(file).await?;
        }
        assert!(fs.counters().checkpoints > 2, "{:?}", fs.counters());
        Ok(())
    });
    after(&left, |fs| async move {
        for round in 0_u64..400 {
            let found = get(&*fs, &format!("file {}", round % 7)).await?;
            let part = &found[(round * 700) as usize..][..700];
            assert!(part.iter().all(|byte| *byte == (round % 250) as u8 + 1), "{round}");
        }
        Ok(())
    });
}

#[test]
fn whatever_wrote_the_image_in_between_is_noticed() {
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    // What does not know of the area: the image alone, mounted and changed.
    let alone = without_area(&left);
    let cut_short = refusal(&alone, F2fsOptions::default()).expect("the image knows of its area");
    assert!(cut_short.contains("cut short") && cut_short.contains("discard_stage"), "{cut_short}");
    let ((), disk) = with_mount(again(&alone), discarding(), Left::Unmounted, |fs, _| async move {
        put(&fs, "stranger", 0, b"written without the area").await.map(drop)
    });
    let mut mixed = left.clone();
    image(disk).written().for_each(|(lpn, page)| mixed.set(lpn, page.clone()));
    let said = refusal(&mixed, F2fsOptions::default()).expect("it is noticed");
    assert!(said.contains("something else wrote") && said.contains("discard_stage"), "{said}");
    assert_eq!(refusal(&mixed, discarding()), None);
    assert_eq!(refusal(&left, F2fsOptions::default()), None);
}

#[test]
fn an_unmounted_image_may_be_written_by_others() {
    let ((), disk) = with_mount(staged(MIB), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    let left = image(disk);
    let alone = without_area(&left);
    assert_clean(&alone);
    let ((), disk) = with_mount(again(&alone), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        put(&fs, "stranger", 0, b"written without the area").await.map(drop)
    });
    let mut mixed = left.clone();
    image(disk).written().for_each(|(lpn, page)| mixed.set(lpn, page.clone()));
    after(&mixed, |fs| async move {
        assert_eq!(get(&*fs, "file").await?, b"staged");
        assert_eq!(get(&*fs, "stranger").await?, b"written without the area");
        Ok(())
    });
}

#[test]
fn those_who_only_read_see_what_is_staged() {
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    assert_eq!(viewed(&left, |view| async move { get(&view, "file").await }), b"staged");
}

/// A disk with an image, and one for its staging area.
pub type Disks = (Box<dyn Device>, Box<dyn Device>);

/// Mounts both disks; gives them back as they are.
pub fn with_both<F: Future<Output = FsResult<()>> + 'static>(
    (image_disk, staging): Disks,
    work: impl FnOnce(F2fs) -> F + 'static,
) -> Result<(Image, Image), String> {
    with_both_at(Nanos::ZERO, (image_disk, staging), work)
}

/// The same, so long after the beginning of time.
pub fn with_both_at<F: Future<Output = FsResult<()>> + 'static>(
    time: Nanos,
    disks: Disks,
    work: impl FnOnce(F2fs) -> F + 'static,
) -> Result<(Image, Image), String> {
    run_on_both(time, disks, work).map(|(disk, staging)| (image(disk), image(staging)))
}

/// The same; gives the disks.
pub fn run_on_both<F: Future<Output = FsResult<()>> + 'static>(
    time: Nanos,
    disks: Disks,
    work: impl FnOnce(F2fs) -> F + 'static,
) -> Result<Disks, String> {
    run_on_both_with(F2fsOptions::default(), time, disks, work)
}

/// The same, with these options.
pub fn run_on_both_with<F: Future<Output = FsResult<()>> + 'static>(
    options: F2fsOptions,
    time: Nanos,
    (image_disk, staging): Disks,
    work: impl FnOnce(F2fs) -> F + 'static,
) -> Result<Disks, String> {
    let executor = Executor::ideal();
    let (port, stage) = (executor.runtime().attach(image_disk), executor.runtime().attach(staging));
    let devices = Devices { image: port.clone(), log: None, staging: Some(stage.clone()) };
    let outcome = executor.block_on(async move {
        devices.image.runtime().sleep(time).await;
        let fs = F2fs::mount(devices, options).await?;
        work(fs).await
    });
    drop(executor);
    outcome.expect("nothing halts").map_err(|error| error.to_string())?;
    Ok((port.unplug(), stage.unplug()))
}

/// Why an image is not mounted with this staging device, if it is not.
pub fn refused_with((image, staging): (&Image, Box<dyn Device>)) -> Option<String> {
    with_both((again(image), staging), |_| async { Ok(()) }).err()
}

/// An empty device for a staging area.
pub fn empty() -> Box<dyn Device> {
    Box::new(RamDisk::volatile(MIB / 4096))
}

#[test]
fn an_image_knows_of_an_area_on_a_device_of_its_own() {
    let both = with_both((Box::new(new_disk(64 * MIB)), empty()), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    let (left, area) = both.expect("a mount");
    let alone = refusal(&left, F2fsOptions::default()).expect("its area is missing");
    assert!(alone.contains("`-o stage=FILE`") && alone.contains("discard_stage"), "{alone}");
    let other = refused_with((&left, empty())).expect("an empty device is another area");
    assert!(other.contains("with an empty staging area"), "{other}");

    // Readers see the checkpoint, and a warning.
    let read_only = F2fsOptions { read_only: true, ..F2fsOptions::default() };
    let (warnings, _) = with_mount(again(&left), read_only, Left::AsItIs, |fs, _| async move {
        assert!(matches!(get(&*fs, "file").await, Err(FsError::NotFound(_))));
        Ok(fs.warnings().to_vec())
    });
    assert!(warnings.iter().any(|warning| warning.contains("`-o stage=FILE`")), "{warnings:?}");
    let warnings = viewed(&left, |view| async move { Ok(view.warnings().to_vec()) });
    assert!(warnings.iter().any(|warning| warning.contains("`-o stage=FILE`")), "{warnings:?}");

    // Whoever gives the area up goes on without it, and it is noticed when it comes back.
    let ((), disk) = with_mount(again(&left), discarding(), Left::Unmounted, |fs, _| async move {
        assert!(matches!(get(&*fs, "file").await, Err(FsError::NotFound(_))));
        put(&fs, "later", 0, b"without the area").await.map(drop)
    });
    let given_up = image(disk);
    assert_clean(&given_up);
    assert_eq!(refusal(&given_up, F2fsOptions::default()), None);
    let back = refused_with((&given_up, again(&area))).expect("it is noticed");
    assert!(back.contains("something else wrote"), "{back}");

    // An unmount ends it: the image is whole alone.
    let (unmounted, _) = with_both((again(&left), again(&area)), |fs| async move { fs.unmount().await }).expect("both");
    let ((), _) = with_mount(again(&unmounted), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        assert_eq!(get(&*fs, "file").await?, b"staged");
        Ok(())
    });
}

#[test]
fn an_area_on_a_device_does_not_stand_for_the_one_behind_the_image() {
    let (unmounted, area) =
        with_both((staged(MIB), empty()), |fs| async move { fs.unmount().await }).expect("an area of its own");
    let left = crashed(again(&unmounted), |fs| async move {
        let file = put(&fs, "file", 0, b"staged behind").await?;
        fs.fsync(file).await
    });
    let refused = refused_with((&left, again(&area))).expect("it is not what continues the checkpoint");
    assert!(refused.contains("without its staging area"), "{refused}");
    after(&left, |fs| async move {
        assert_eq!(get(&*fs, "file").await?, b"staged behind");
        Ok(())
    });
}

#[test]
fn a_checkpoint_of_linux_is_not_continued_by_an_area() {
    let left = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    let mut bytes = vec![0; 64 * MIB as usize];
    for (lpn, page) in without_area(&left).written() {
        bytes[lpn.0 as usize * 4096..][..4096].copy_from_slice(&page.bytes()[..]);
    }
    let mut editor = Editor::of(bytes);
    assert_eq!(editor.checkpoint.stage.map(|mark| mark.place), Some(StagePlace::Behind));
    // Linux keeps the bytes of the head that it does not know, and raises the version.
    let next = editor.checkpoint.version() + 1;
    editor.edit_checkpoint(|head| head[..8].copy_from_slice(&next.to_le_bytes()));
    let later = Editor::of(editor.bytes);
    assert_eq!((later.checkpoint.version(), later.checkpoint.stage), (next, None));
}

#[test]
fn an_older_area_of_the_image_is_not_taken_for_its_own() {
    let disks = (Box::new(new_disk(64 * MIB)) as Box<dyn Device>, empty());
    let (image_before, older) = with_both(disks, |fs| async move { fs.unmount().await }).expect("a mount");
    let both = with_both((again(&image_before), empty()), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    let (left, area) = both.expect("a mount");
    let refused = refused_with((&left, again(&older))).expect("it is the older one");
    assert!(refused.contains("another one does") && refused.contains("discard_stage"), "{refused}");
    let own = with_both((again(&left), again(&area)), |fs| async move {
        assert_eq!(get(&fs, "file").await?, b"staged");
        Ok(())
    });
    own.expect("its own area");
}

#[test]
fn an_area_of_the_same_version_is_not_taken_for_another_one() {
    // The image comes back as it was, and both areas continue one version of its checkpoint.
    let disks = (Box::new(new_disk(64 * MIB)) as Box<dyn Device>, empty());
    let (image_before, _) = with_both(disks, |fs| async move { fs.unmount().await }).expect("a mount");
    let staged = |second, content: &'static [u8]| {
        let disks = (again(&image_before), empty());
        let both = with_both_at(Nanos::from_secs(second), disks, move |fs| async move {
            let file = put(&fs, "file", 0, content).await?;
            fs.fsync(file).await
        });
        both.expect("a mount")
    };
    let ((first, first_area), (second, second_area)) = (staged(1, b"first"), staged(2, b"second"));
    for (image, area, other, content) in
        [(&first, &first_area, &second_area, &b"first"[..]), (&second, &second_area, &first_area, b"second")]
    {
        let refused = refused_with((image, again(other))).expect("it is another one");
        assert!(refused.contains("another staging area") && refused.contains("discard_stage"), "{refused}");
        let own = with_both((again(image), again(area)), move |fs| async move {
            assert_eq!(get(&fs, "file").await?, content);
            Ok(())
        });
        own.expect("its own area");
    }
}

#[test]
fn an_area_on_a_device_of_its_own_holds_what_was_staged() {
    let first = with_both((Box::new(new_disk(64 * MIB)), empty()), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        put(&fs, "whole", 0, &[1; 8192]).await?;
        fs.fsync(file).await
    });
    let (left, area) = first.expect("a mount");
    let second = with_both((again(&left), again(&area)), |fs| async move {
        assert_eq!(get(&fs, "file").await?, b"staged");
        fs.unmount().await
    });
    assert_clean(&second.expect("a mount").0);
    let mut held = area.clone();
    held.set(onewrite_block::Lpn(0), onewrite_block::Page::from_slice(b"something"));
    let refused = refused_with((&left, again(&held))).expect("refused");
    assert!(refused.contains("holds something else"), "{refused}");
    let mut torn = area.clone();
    let mut label = area.page(onewrite_block::Lpn(0)).clone();
    label.bytes_mut()[100] = 1;
    torn.set(onewrite_block::Lpn(0), label);
    let refused = refused_with((&left, again(&torn))).expect("refused");
    assert!(refused.contains("belongs to another image"), "{refused}");
}
