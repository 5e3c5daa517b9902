//! Warm-up: what fills the log before the tasks begin.

use crate::action::Action;

/// Appends to four files and syncs each append: `syncs` of them.
pub(super) fn fill_log(syncs: u64) -> Vec<Action> {
    let file = |number: u64| format!("/shared/w{}", number % 4);
    let made = (0..syncs.min(4)).map(|number| Action::Create(file(number)));
    let filled = (0..syncs).flat_map(|number| {
        [Action::Append { file: file(number), length: 5000, seed: 1 << 60 | number }, Action::Fsync(file(number))]
    });
    made.chain(filled).collect()
}
