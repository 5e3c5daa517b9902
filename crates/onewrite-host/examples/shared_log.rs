//! Four threads append to one log on an image of their own and sync each line; then the image is opened again and the
//! lines are counted: `cargo run --example shared_log -- log.img`.

use std::path::Path;
use std::process::ExitCode;
use std::thread;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, VolumeError, make_image};

const THREADS: u32 = 4;
const LINES: u32 = 25;

/// Writes the log on a new image; returns its number of lines after the image was closed and opened again.
///
/// # Errors
/// Those of the image, which must not exist.
pub fn run(image: &Path) -> Result<usize, VolumeError> {
    make_image(image, 32 << 20)?;
    let volume = Volume::open(image, MountOptions::new(Mode::DataAsync))?;
    volume.create("/log")?;
    let writers: Vec<_> = (0..THREADS).map(|number| spawn(volume.clone(), number)).collect();
    for writer in writers {
        writer.join().expect("a writer does not panic")?;
    }
    volume.close()?;

    let volume = Volume::open(image, MountOptions::new(Mode::DataAsync))?;
    let log = volume.open_file("/log")?;
    let content = log.read_at(0, log.metadata()?.size)?;
    Ok(content.iter().filter(|byte| **byte == b'\n').count())
}

#[expect(clippy::disallowed_methods, reason = "calls of several threads overlap and share commits")]
fn spawn(volume: Volume, number: u32) -> thread::JoinHandle<Result<(), VolumeError>> {
    thread::spawn(move || {
        let log = volume.open_file("/log")?;
        for line in 0..LINES {
            log.append(format!("thread {number}, line {line}\n").as_bytes())?;
            log.sync()?; // From now on the line survives a power cut.
        }
        Ok(())
    })
}

/// Takes the image's path.
#[allow(dead_code, reason = "a test calls `run`")]
fn main() -> ExitCode {
    let Some(image) = std::env::args_os().nth(1) else {
        eprintln!("shared_log: which image? It must not exist yet.");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&image)) {
        Ok(lines) => println!("{lines} lines"),
        Err(error) => {
            eprintln!("shared_log: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
