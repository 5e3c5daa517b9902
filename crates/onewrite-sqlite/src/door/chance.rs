//! Chance: SQLite has one generator for the whole process (rollback journals, the salt of logs, `randomblob`). It is
//! seeded from the host when it is first used, not from the VFS of a database. [`Seeded`] gives it a seed.

use std::ffi::c_int;
use std::num::NonZeroI32;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libsqlite3_sys::{self as ffi, sqlite3};

/// One has the generator at a time.
static GENERATOR: Mutex<()> = Mutex::new(());

/// SQLite's generator starts from a seed as long as this lives: the same calls of SQLite give the same bytes. Another
/// `Seeded` of the process waits meanwhile. Dropped, the generator starts from the host's chance again.
///
/// Whoever uses SQLite beside it in the same process draws from the same generator, and disturbs it.
#[derive(Debug)]
pub struct Seeded {
    _alone: MutexGuard<'static, ()>,
}

impl Seeded {
    /// Waits for the generator and seeds it.
    pub fn new(seed: NonZeroI32) -> Seeded {
        let alone = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        set_seed(seed.get());
        Seeded { _alone: alone }
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        set_seed(0);
    }
}

/// Seeds the generator; with 0 from the host, at its next use.
fn set_seed(seed: c_int) {
    // SAFETY: it may be called any number of times; without a connection the control takes the seed alone.
    unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PRNG_SEED, seed, null_mut::<sqlite3>());
    }
}
