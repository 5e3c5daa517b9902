//! Identities of new file systems.

use onewrite_block::Choices;

/// A UUID of version 4 (RFC 9562).
pub(crate) fn random_uuid(choices: &mut Choices) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&choices.bits().to_le_bytes());
    uuid[8..].copy_from_slice(&choices.bits().to_le_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
