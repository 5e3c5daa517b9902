//! Moves coins between two accounts, each a file. However the program ends, and whenever the power goes, no coin is
//! lost or made: `cargo run --example atomic_transfer -- bank.img 1000`.
//!
//! Without atomic files a program would write a journal of its own here: the one file changes before the other.

use std::path::Path;
use std::process::ExitCode;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Draft, DraftFile, Volume, VolumeError, make_image};

/// Coins of both accounts together.
pub const COINS: u64 = 1_000;

/// Makes the image, unless there is one, and moves a coin `transfers` times. `after_each` gets the number of transfers
/// that are durable. Returns what the accounts hold.
///
/// # Errors
/// Those of the image.
pub fn run(image: &Path, transfers: u64, mut after_each: impl FnMut(u64)) -> Result<(u64, u64), VolumeError> {
    if !image.exists() {
        make_image(image, 32 << 20)?;
    }
    let volume = Volume::open(image, MountOptions::new(Mode::DataAsync))?;
    if volume.metadata("/alice").is_err_and(|error| error.errno() == 2) {
        open_accounts(&volume)?;
    }
    let draft = volume.atomic()?;
    let (alice, bob) = (draft.claim("/alice")?, draft.claim("/bob")?);
    for count in 1..=transfers {
        transfer(&draft, &alice, &bob)?;
        after_each(count);
    }
    Ok((balance(&alice)?, balance(&bob)?))
}

/// Makes both accounts: both exist from now on, or neither does.
fn open_accounts(volume: &Volume) -> Result<(), VolumeError> {
    let draft = volume.atomic()?;
    set_balance(&draft.create("/alice")?, COINS)?;
    set_balance(&draft.create("/bob")?, 0)?;
    draft.commit()
}

/// Moves one coin from the richer account to the other.
fn transfer(draft: &Draft, alice: &DraftFile, bob: &DraftFile) -> Result<(), VolumeError> {
    let (from, to) = if balance(alice)? >= balance(bob)? { (alice, bob) } else { (bob, alice) };
    set_balance(from, balance(from)? - 1)?;
    set_balance(to, balance(to)? + 1)?; // A crash here: the coin never left.
    draft.commit() // From now on it has arrived.
}

fn balance(account: &DraftFile) -> Result<u64, VolumeError> {
    let mut coins = [0; 8];
    coins.copy_from_slice(&account.read_at(0, 8)?);
    Ok(u64::from_le_bytes(coins))
}

fn set_balance(account: &DraftFile, coins: u64) -> Result<(), VolumeError> {
    account.write_at(0, &coins.to_le_bytes())
}

/// Takes the image's path and the number of transfers.
#[allow(dead_code, reason = "a test calls `run`")]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let transfers = arguments.get(1).and_then(|number| number.to_str()?.parse().ok());
    let (Some(image), Some(transfers)) = (arguments.first(), transfers) else {
        eprintln!("atomic_transfer: which image, and how many transfers?");
        return ExitCode::FAILURE;
    };
    match run(Path::new(image), transfers, |_| ()) {
        Ok((alice, bob)) => println!("alice {alice}, bob {bob}"),
        Err(error) => {
            eprintln!("atomic_transfer: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
