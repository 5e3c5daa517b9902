//! Host: measures the costs of this machine for a host profile. No other part of the laboratory reads the machine's own
//! clocks.
//!
//! Costs are processor time, so waiting for a disk does not count. The clock of this process is read before and after
//! many repetitions. Delays, switches and wakes are spans of the monotonic clock, one for each repetition, because the
//! rare long ones count.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use onewrite_block::{Choices, HostProfile, PAGE_SIZE, crc32c};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_getres, clock_gettime};

use crate::error::LabError;
use crate::partial::Partial;

const SCRATCH_BYTES: usize = 16 << 20;
const SPANS: usize = 500_000;
const SWITCHES: usize = 100_000;
const WAKES: usize = 2_000;
/// Bytes of a chunk of LDJ.
const PIECE_BYTES: usize = 128 << 10;

/// Measures this machine; block requests go to a scratch file in `directory`.
///
/// # Errors
/// If the scratch file cannot be made, or its file system has no O_DIRECT.
pub fn measure(directory: &Path) -> Result<HostProfile, LabError> {
    let scratch = Scratch::new(directory)?;
    let syscall_ns = scratch.syscall()?;
    let failed = |error| scratch.failed(error);
    let (half_turns, wakes) = (half_turns().map_err(failed)?, wakes().map_err(failed)?);
    let pipe_ns = median(pipe_calls().map_err(failed)?);
    Ok(HostProfile {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        syscall_ns,
        submit_ns: scratch.request()?.saturating_sub(syscall_ns).max(1),
        copy_page_ns: copy_page().max(1),
        checksum_mb_per_s: checksum(),
        compress_mb_per_s: contents().map(|content| compression(&content)),
        decompress_mb_per_s: contents().map(|content| decompression(&content)),
        slice_ns: HostProfile::default().slice_ns,
        delays_ns: over_the_shortest(scratch.syscall_times()?),
        switch_ns: half_turns.iter().min().copied().unwrap_or(0).saturating_sub(2 * pipe_ns).max(1),
        switch_delays_ns: over_the_shortest(half_turns),
        wake_ns: median(wakes).saturating_sub(pipe_ns).max(1),
        tick_ns: tick(),
    })
}

/// The tick of the kernel: the granularity of its coarse clocks, with which it stamps files.
fn tick() -> u64 {
    let tick = clock_getres(ClockId::RealtimeCoarse);
    tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
}

/// Processor time of this process in nanoseconds.
fn processor_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Mean processor time of `count` repetitions, in nanoseconds.
fn time_of(count: u64, mut work: impl FnMut(u64)) -> u64 {
    let begin = processor_ns();
    (0..count).for_each(&mut work);
    (processor_ns() - begin) / count
}

/// Nanoseconds of the monotonic clock that `work` takes.
fn span(work: impl FnOnce()) -> u64 {
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let begin = now();
    work();
    now() - begin
}

/// How much longer than the shortest the spans at the percentiles of [`HostProfile::delays_ns`] are.
fn over_the_shortest(mut spans: Vec<u64>) -> [u64; 5] {
    spans.sort_unstable();
    [5_000, 9_000, 9_900, 9_990, 9_999].map(|part| spans[spans.len() * part / 10_000] - spans[0])
}

fn median(mut spans: Vec<u64>) -> u64 {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

/// Spans of a write of one byte to a pipe where nobody waits.
fn pipe_calls() -> io::Result<Vec<u64>> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut call = || {
        let time = span(|| drop(black_box(writer.write(&[1]))));
        reader.read_exact(&mut [0]).map(|()| time)
    };
    (0..SWITCHES).map(|_| call()).collect()
}

/// Halves of the spans in which one byte goes to another thread and back: a switch, a write and a read.
#[expect(clippy::disallowed_methods, reason = "measures switches between threads")]
fn half_turns() -> io::Result<Vec<u64>> {
    let ((mut here, mut answer), (mut there, mut ask)) = (io::pipe()?, io::pipe()?);
    std::thread::spawn(move || while there.read_exact(&mut [0]).is_ok() && answer.write_all(&[1]).is_ok() {});
    let mut turn = || {
        let mut outcome = Ok(());
        let time = span(|| outcome = ask.write_all(&[1]).and_then(|()| here.read_exact(&mut [0])));
        outcome.map(|()| time / 2)
    };
    (0..SWITCHES).map(|_| turn()).collect()
}

/// Spans of a write of one byte to a pipe where another thread waits.
#[expect(clippy::disallowed_methods, reason = "measures wakes of threads")]
fn wakes() -> io::Result<Vec<u64>> {
    let (mut reader, mut writer) = io::pipe()?;
    std::thread::spawn(move || while reader.read_exact(&mut [0]).is_ok() {});
    let mut wake = || {
        std::thread::sleep(Duration::from_micros(50));
        let mut outcome = Ok(());
        let time = span(|| outcome = writer.write_all(&[1]));
        outcome.map(|()| time)
    };
    (0..WAKES).map(|_| wake()).collect()
}

/// A file that never becomes complete, so that it is removed at the end.
struct Scratch {
    partial: Partial,
    file: File,
}

impl Scratch {
    fn new(directory: &Path) -> Result<Scratch, LabError> {
        let path = directory.join("measure");
        let failed = |error: std::io::Error| LabError::WriteFile {
            path: path.display().to_string(),
            message: error.to_string(),
        };
        let (file, partial) = Partial::create(&path).map_err(failed)?;
        let scratch = Scratch { partial, file };
        let written = scratch.file.write_all_at(&incompressible(SCRATCH_BYTES), 0);
        written.and_then(|()| scratch.file.sync_all()).map_err(failed)?;
        Ok(scratch)
    }

    fn failed(&self, error: impl std::fmt::Display) -> LabError {
        LabError::ReadFile { path: self.partial.path().display().to_string(), message: error.to_string() }
    }

    /// Time of a system call through the file-system switch: reads one byte from the page cache.
    fn syscall(&self) -> Result<u64, LabError> {
        let mut byte = [0];
        self.file.read_at(&mut byte, 0).map_err(|error| self.failed(error))?;
        Ok(time_of(200_000, |_| drop(black_box(self.file.read_at(&mut byte, 0)))))
    }

    /// Spans of single system calls, as [`Scratch::syscall`] makes them.
    fn syscall_times(&self) -> Result<Vec<u64>, LabError> {
        let mut byte = [0];
        self.file.read_at(&mut byte, 0).map_err(|error| self.failed(error))?;
        Ok((0..SPANS).map(|_| span(|| drop(black_box(self.file.read_at(&mut byte, 0))))).collect())
    }

    /// Time of a system call that goes to the disk: reads a page with O_DIRECT.
    fn request(&self) -> Result<u64, LabError> {
        let flags = OFlags::RDONLY | OFlags::DIRECT;
        let direct = rustix::fs::open(self.partial.path(), flags, rustix::fs::Mode::empty());
        let direct =
            File::from(direct.map_err(|error| self.failed(format!("O_DIRECT: {error}; take --directory on a disk")))?);
        let mut buffer = vec![0; 2 * PAGE_SIZE];
        let start = buffer.as_ptr().align_offset(PAGE_SIZE);
        let page = &mut buffer[start..start + PAGE_SIZE];
        direct.read_exact_at(page, 0).map_err(|error| self.failed(error))?;
        let pages = (SCRATCH_BYTES / PAGE_SIZE) as u64;
        Ok(time_of(10_000, |index| drop(black_box(direct.read_at(page, index * 7 % pages * PAGE_SIZE as u64)))))
    }
}

fn copy_page() -> u64 {
    let source = incompressible(SCRATCH_BYTES);
    let mut target = vec![0_u8; SCRATCH_BYTES];
    let pages = SCRATCH_BYTES / PAGE_SIZE;
    time_of(20 * pages as u64, |index| {
        let place = index as usize * 7 % pages * PAGE_SIZE;
        target[place..place + PAGE_SIZE].copy_from_slice(black_box(&source[place..place + PAGE_SIZE]));
        // Keeps the compiler from leaving the copy out.
        black_box(&mut target);
    })
}

/// MB a second.
fn checksum() -> u64 {
    let bytes = incompressible(4 << 20);
    let time = time_of(20, |_| {
        black_box(crc32c(!0, black_box(&bytes)));
    });
    per_second(bytes.len(), time)
}

/// Content that compresses to nothing, to half and not at all, as [`HostProfile::compress_mb_per_s`] has it. Half is
/// text, as files have it: LZ4 takes many short matches in it, and several times as long as over half a page of zeros.
fn contents() -> [Vec<u8>; 3] {
    [vec![0; 4 << 20], text(4 << 20), incompressible(4 << 20)]
}

/// Words, the commonest of which come most often.
fn text(length: usize) -> Vec<u8> {
    let mut choices = Choices::new(1);
    let letters = |choices: &mut Choices| (0..3 + choices.below(7)).map(|_| b'a' + choices.below(26) as u8).collect();
    let words: Vec<Vec<u8>> = (0..1_000).map(|_| letters(&mut choices)).collect();
    let mut text = Vec::with_capacity(length + 16);
    while text.len() < length {
        let commonest = choices.below(words.len() as u64) + 1;
        text.extend_from_slice(&words[choices.below(commonest) as usize]);
        text.push(b' ');
    }
    text.truncate(length);
    text
}

/// MB of input a second, a piece as large as a chunk of LDJ at a time.
fn compression(content: &[u8]) -> u64 {
    let pack = |piece: &[u8]| drop(black_box(lz4_flex::compress(black_box(piece))));
    per_second(content.len(), time_of(20, |_| content.chunks(PIECE_BYTES).for_each(pack)))
}

/// MB of output a second.
fn decompression(content: &[u8]) -> u64 {
    let packed: Vec<Vec<u8>> = content.chunks(PIECE_BYTES).map(lz4_flex::compress).collect();
    let unpack = |piece: &Vec<u8>| drop(black_box(lz4_flex::decompress(black_box(piece), PIECE_BYTES)));
    per_second(content.len(), time_of(20, |_| packed.iter().for_each(unpack)))
}

fn per_second(bytes: usize, nanoseconds: u64) -> u64 {
    (bytes as u64 * 1000 / nanoseconds.max(1)).max(1)
}

fn incompressible(length: usize) -> Vec<u8> {
    let pages = 0..(length / PAGE_SIZE) as u64;
    pages.flat_map(|page| onewrite_fs::pattern_page(1, 0, page).bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_compress_to_nothing_half_and_not_at_all() {
        let packed = contents().map(|content| {
            let packed = content.chunks(PIECE_BYTES).map(|piece| lz4_flex::compress(piece).len()).sum::<usize>();
            packed * 100 / content.len()
        });
        assert!(packed[0] < 1 && (40..60).contains(&packed[1]) && packed[2] >= 99, "{packed:?}");
    }
}
