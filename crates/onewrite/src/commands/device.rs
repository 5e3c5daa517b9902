//! `onewrite device`

use onewrite_block::{PAGE_SIZE, PowerLoss};
use onewrite_device::Profile;

use crate::args::Device;

/// Lists the profiles, or prints one with what its device states.
pub fn device(args: &Device) -> anyhow::Result<()> {
    match &args.profile {
        None => list(),
        Some(name) => show(name),
    }
}

fn list() -> anyhow::Result<()> {
    let width = Profile::names().map(str::len).max().unwrap_or(0);
    for name in Profile::names() {
        println!("{name:width$}  {}", Profile::load(name)?.description);
    }
    Ok(())
}

fn show(name: &str) -> anyhow::Result<()> {
    let profile = Profile::load(name)?;
    let device = profile.device(None)?;
    let geometry = device.geometry();
    let yes = |has: bool| if has { "yes" } else { "no" };
    println!("{name}: {}\n", profile.description);
    println!("capacity by default    {} MiB", (geometry.pages * PAGE_SIZE as u64) >> 20);
    println!("queue depth            {}", geometry.queue_depth);
    println!("largest transfer       {} KiB", (geometry.transfer_pages_max as usize * PAGE_SIZE) >> 10);
    println!("FUA                    {}", yes(geometry.fua));
    println!(
        "SHARE                  {}",
        match geometry.share_pairs_max {
            0 => "no".to_owned(),
            pairs =>
                format!("up to {pairs} pairs, {}", if geometry.share_atomic { "all or none" } else { "not atomic" }),
        }
    );
    if let Some(buffer) = geometry.write_buffer {
        println!(
            "write buffer           {} KiB; the first page may leave after {} KiB",
            buffer.bytes >> 10,
            buffer.eviction_begins_bytes >> 10
        );
    }
    println!(
        "a power cut            {}",
        match geometry.on_power_loss {
            PowerLoss::KeepsCompleted => "loses nothing that completed",
            PowerLoss::AnySubset => "may lose any of what was not flushed",
        }
    );
    Ok(())
}
