//! Photographs: copies JPEG files in `ldj` (`papers/001` table 2, `000` table 4-6: row `ldj-ratio-jpeg`).
//!
//! The papers copied 5,000 JPEG files of 4 MB that are not public. Here pictures consist of light and shade at all
//! scales and of sensor grain. They are encoded as in a camera, and written as files of a file system in `ldj`; then
//! the sizes of its compressed frames are counted.

use jpeg_encoder::{ColorType, Encoder};
use onewrite_block::{Choices, Executor, Geometry, KIB, MIB, PAGE_SIZE, RamDisk, TrimRead};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, Manner, NewNode, Position};

use super::false_recovery::formatted;
use crate::error::LabError;

const PICTURES: u64 = 24;
/// Width and height in pixels.
#[derive(Clone, Copy)]
struct Shape {
    width: u16,
    height: u16,
}

const SHAPE: Shape = Shape { width: 1536, height: 1024 };
/// JPEG quality of a camera.
const QUALITY: u8 = 92;
/// Widths in pixels of light and shade and of sensor grain, each with its strength.
const SCALES: [(usize, u64); 6] = [(512, 90), (128, 50), (32, 24), (8, 12), (2, 8), (1, 6)];
const DISK_BYTES: u64 = 256 * MIB;
const LOG_BYTES: u64 = 128 * MIB;
/// Bytes of one write of `cp`.
const CHUNK: u64 = 128 * KIB;

/// Ratio of compressed to raw size of the content and metadata in the log.
pub(super) fn compressed_size() -> Result<f64, LabError> {
    let pictures: Vec<Vec<u8>> = (0..PICTURES).map(|number| picture(number, SHAPE)).collect::<Result<_, LabError>>()?;
    let geometry = Geometry { trim_read: TrimRead::Zeros, ..Geometry::plain("ram", DISK_BYTES / PAGE_SIZE as u64) };
    let disk = RamDisk::with_image(formatted(DISK_BYTES, LOG_BYTES)?, geometry);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let (packed, raw) = executor.block_on(async move {
        let fs = Ext4::mount(port, MountOptions::new(Mode::Ldj)).await?;
        for (number, picture) in pictures.iter().enumerate() {
            let name = format!("{number}.jpg");
            let file = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
            for (part, bytes) in picture.chunks(CHUNK as usize).enumerate() {
                let position = Position::At(part as u64 * CHUNK);
                fs.write(file, position, Content::Bytes(bytes), Manner::default()).await?;
            }
            fs.fsync(file).await?;
        }
        fs.unmount().await?;
        let counters = fs.counters();
        Ok::<_, onewrite_fs::FsError>((counters.packed_bytes, counters.packed_raw_bytes))
    })??;
    Ok(packed as f64 / raw as f64)
}

/// Picture number `number` as a JPEG file.
fn picture(number: u64, Shape { width, height }: Shape) -> Result<Vec<u8>, LabError> {
    let mut chance = Choices::new(number).stream("photograph", 0);
    let mut light = vec![[100; 3]; usize::from(width) * usize::from(height)];
    for (scale, strength) in SCALES {
        shade(&mut light, usize::from(width), (scale, strength), &mut chance);
    }
    let pixels: Vec<u8> = light.into_iter().flatten().map(|value| value.clamp(0, 255) as u8).collect();
    let mut file = Vec::new();
    let encoder = Encoder::new(&mut file, QUALITY);
    encoder.encode(&pixels, width, height, ColorType::Rgb).map_err(|error| LabError::Option(error.to_string()))?;
    Ok(file)
}

/// Adds light and shade of one scale: random at the points of a grid, linear between them.
fn shade(light: &mut [[i64; 3]], columns: usize, (scale, strength): (usize, u64), chance: &mut Choices) {
    let rows = light.len() / columns;
    let across = columns / scale + 2;
    let crossings = across * (rows / scale + 2);
    let grid: Vec<[i64; 3]> = (0..crossings)
        .map(|_| {
            let common = chance.below(2 * strength) as i64 - strength as i64;
            [(); 3].map(|()| common + chance.below(strength) as i64 / 2)
        })
        .collect();
    for (place, pixel) in light.iter_mut().enumerate() {
        let (row, column) = (place / columns, place % columns);
        let first = row / scale * across + column / scale;
        let (right, lower, size) = ((column % scale) as i64, (row % scale) as i64, scale as i64);
        for (colour, value) in pixel.iter_mut().enumerate() {
            let between = |left: usize| grid[left][colour] * (size - right) + grid[left + 1][colour] * right;
            *value += (between(first) * (size - lower) + between(first + across) * lower) / (size * size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape { width: 96, height: 64 };

    #[test]
    fn a_picture_is_a_jpeg_file_and_the_same_each_time() {
        let small = picture(1, SMALL).unwrap();
        assert_eq!(small[..3], [0xff, 0xd8, 0xff]);
        assert_eq!(small[small.len() - 2..], [0xff, 0xd9]);
        assert!((1_000..20_000).contains(&small.len()), "{}", small.len());
        assert_eq!(small, picture(1, SMALL).unwrap());
        assert_ne!(small, picture(2, SMALL).unwrap());
    }
}
