//! Of steps: what a step changes, as the judge asks.

use crate::model::{NodeId, Step, Tree};

/// The size of the file that a step may resize; 0 of any other step.
pub(super) fn sized(tree: &Tree, step: &Step) -> u64 {
    match step {
        Step::Write { node, .. } | Step::Truncate { node, .. } | Step::Shift { node, .. } => tree.size(*node),
        _ => 0,
    }
}

/// Whether a sync of `node` has to make `step` durable: the content and creation of `node`, and its names if it is a
/// directory.
pub(crate) fn changes(step: &Step, node: NodeId) -> bool {
    match step {
        Step::Create { directory, node: made, .. } => *made == node || *directory == node,
        Step::Write { node: written, .. }
        | Step::Truncate { node: written, .. }
        | Step::Zero { node: written, .. }
        | Step::Free { node: written, .. }
        | Step::Shift { node: written, .. }
        | Step::SetAttributes { node: written, .. }
        | Step::SetExtended { node: written, .. } => *written == node,
        Step::Remove { directory, .. } | Step::Link { directory, .. } => *directory == node,
        Step::Rename { from, to, .. } => from.0 == node || to.0 == node,
        Step::Atomic(steps) => steps.iter().any(|step| changes(step, node)),
        Step::Share(parts) => parts.iter().any(|part| part.target == node),
    }
}

/// Whether a step changes only attributes; `fdatasync` need not make these durable.
pub(super) fn is_beside_content(step: &Step) -> bool {
    matches!(step, Step::SetAttributes { .. } | Step::SetExtended { .. })
}

/// Whether an operation may continue after the transaction of this step, because later transactions free blocks in many
/// pieces, or because it waits for the commit. Operations that end meanwhile may be in a later transaction too.
pub(super) fn lingers(step: &Step) -> bool {
    let frees = matches!(step, Step::Truncate { .. } | Step::Free { .. } | Step::Remove { .. } | Step::Rename { .. });
    frees || matches!(step, Step::Share(_) | Step::Shift { .. })
}
