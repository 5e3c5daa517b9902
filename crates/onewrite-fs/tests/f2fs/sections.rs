//! Sections of several segments, on an ordinary disk and as zones: logs go through them in order, cleaning empties them
//! as a whole, and fsck.f2fs is content.

use onewrite_block::{Choices, Device, Executor, Geometry, Image, RamDisk};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};

use crate::support::f2fs_volume::{Left, assert_clean, new_failing_disk, new_zoned_disk, with_mount};
use crate::support::volume::{image, load};
use crate::support::{Scratch, run};

const MIB: u64 = 1 << 20;

/// An empty image of mkfs.f2fs with sections of `segments`.
fn foreign(name: &str, bytes: u64, segments: u32) -> Image {
    let scratch = Scratch::new(name);
    let path = scratch.path("image");
    std::fs::File::create(&path).expect("image").set_len(bytes).expect("size");
    run("mkfs.f2fs", &["-q", "-s", &segments.to_string(), path.to_str().expect("a path")]);
    load(&path)
}

fn disk(image: &Image) -> Box<dyn Device> {
    Box::new(RamDisk::with_image(image.clone(), Geometry::plain("ram", image.pages())))
}

const CHUNK: u64 = MIB / 4;

/// Writes `chunks` pieces of a file, then pieces of it again and again, at random places.
async fn churn(fs: &F2fs, chunks: u64, rounds: u64) -> FsResult<Vec<u8>> {
    let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
    let (mut newest, mut choices) = (vec![0; chunks as usize], Choices::new(1));
    for number in 0..chunks * rounds {
        let (place, byte) = (if number < chunks { number } else { choices.below(chunks) }, (number % 251) as u8 + 1);
        let content = vec![byte; CHUNK as usize];
        fs.write(file, Position::At(place * CHUNK), Content::Bytes(&content), Manner::default()).await?;
        newest[place as usize] = byte;
        if number % 8 == 0 {
            fs.fsync(file).await?;
        }
    }
    Ok(newest)
}

async fn assert_holds(fs: &F2fs, newest: &[u8]) -> FsResult<()> {
    let file = fs.lookup(fs.root(), b"f").await?;
    for (place, byte) in (0..).zip(newest) {
        let found = fs.read(file, place * CHUNK, CHUNK, Manner::default()).await?.to_vec();
        assert!(found.iter().all(|other| other == byte), "piece {place}");
    }
    Ok(())
}

#[test]
fn an_image_with_sections_is_written_cleaned_and_clean() {
    let before = foreign("f2fs-sections", 256 * MIB, 4);
    let ((newest, cleaned), left) =
        with_mount(disk(&before), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
            let newest = churn(&fs, 240, 6).await?;
            Ok((newest, fs.counters().cleaning.segments))
        });
    let after = image(left);
    assert_clean(&after);
    assert!(cleaned > 0, "nothing was cleaned");
    let ((), left) = with_mount(disk(&after), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        assert_holds(&fs, &newest).await
    });
    assert_clean(&image(left));
}

/// The device refuses each write that is not at the write pointer of its zone.
#[test]
fn zones_are_written_in_order_cleaned_and_reset() {
    let (sized, options) = (new_zoned_disk(256 * MIB, 0), F2fsOptions::default());
    let ((newest, cleaned), left) = with_mount(sized, options, Left::Unmounted, |fs, _| async move {
        let newest = churn(&fs, 300, 8).await?;
        Ok((newest, fs.counters().cleaning.segments))
    });
    assert!(cleaned > 0, "nothing was cleaned");
    assert!(left.counters().erases > 50, "{} zones were reset", left.counters().erases);
    let ((), left) =
        with_mount(left, options, Left::Unmounted, |fs, _| async move { assert_holds(&fs, &newest).await });
    assert_clean(&image(left));
}

/// Moves of zones whose block failed, by F2FS and its cleaning beside them.
#[test]
fn failing_blocks_of_the_flash_are_replaced_below_the_file_system() {
    let (sized, options) = (new_failing_disk(256 * MIB, 0, 60_000, 250), F2fsOptions::default());
    let ((newest, moved), left) = with_mount(sized, options, Left::Unmounted, |fs, port| async move {
        let newest = churn(&fs, 300, 8).await?;
        Ok((newest, port.device().counters().moved_pages))
    });
    assert!(moved > 100, "{moved} pages of failing blocks were moved");
    let ((), left) =
        with_mount(left, options, Left::Unmounted, |fs, _| async move { assert_holds(&fs, &newest).await });
    assert_clean(&image(left));
}

/// What was synced can still be read, and the refusal names the cause.
#[test]
fn a_worn_out_device_ends_writing_and_not_reading() {
    let options = F2fsOptions::default();
    let (synced, left) =
        with_mount(new_failing_disk(256 * MIB, 0, 400, 0), options, Left::AsItIs, |fs, _| async move {
            let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
            let mut synced = 0_u64;
            let error = loop {
                let content = vec![synced as u8 + 1; CHUNK as usize];
                let write =
                    fs.write(file, Position::At(synced * CHUNK), Content::Bytes(&content), Manner::default()).await;
                match write.map(drop) {
                    Ok(()) => match fs.fsync(file).await {
                        Ok(()) => synced += 1,
                        Err(error) => break error,
                    },
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains("worn out"), "{error}");
            assert!(
                synced > 0 && fs.read(file, 0, CHUNK, Manner::default()).await?.to_vec().iter().all(|byte| *byte == 1)
            );
            Ok(synced)
        });
    let options = F2fsOptions { read_only: true, ..options };
    with_mount(left, options, Left::AsItIs, move |fs, _| async move {
        let newest: Vec<u8> = (1..=synced as u8).collect();
        assert_holds(&fs, &newest).await
    });
}

/// Behind an unmount nothing says that a zone was written since, unless the mount says it first.
#[test]
fn zones_that_were_written_without_a_checkpoint_are_not_gone_on_with() {
    let options = F2fsOptions::default();
    let ((), left) = with_mount(new_zoned_disk(192 * MIB, 0), options, Left::AsItIs, |fs, _| async move {
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        let direct = Manner { direct: true, once: false };
        fs.write(file, Position::At(0), Content::Bytes(&[1; 65_536]), direct).await.map(drop)
    });
    let (_, left) = with_mount(left, options, Left::Unmounted, |fs, _| async move {
        assert!(fs.lookup(fs.root(), b"f").await.is_err(), "nobody synced it");
        churn(&fs, 8, 2).await
    });
    assert_clean(&image(left));
}

#[test]
fn an_image_without_such_sections_is_refused_on_zones() {
    let executor = Executor::ideal();
    let zones = new_zoned_disk(192 * MIB, 0).geometry().zones;
    let image = foreign("f2fs-no-zones", 192 * MIB, 1);
    let geometry = Geometry { zones, ..Geometry::plain("zoned", image.pages()) };
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let mounted = executor.block_on(async move { F2fs::mount(port, F2fsOptions::default()).await.map(drop) });
    let error = mounted.expect("nothing halts").unwrap_err().to_string();
    assert!(error.contains("zones") && error.contains("mkfs"), "{error}");
}
