//! Check: compares the allocator's counts with each other and with the bitmaps.

use onewrite_block::PAGE_SIZE;

use super::{Bitmap, Group, Groups, count_set};
use crate::ext4::views::Allocator;
use crate::ext4::volume::block_key;

impl Groups {
    /// Verifies the counts of free and of waiting blocks. Costs one pass over the groups.
    ///
    /// # Errors
    /// The first count that is wrong.
    pub(in crate::ext4) fn check(&self) -> Result<(), String> {
        let groups = self.all.borrow();
        let free: u64 = groups.iter().map(|group| u64::from(group.descriptor.free_blocks())).sum();
        let waiting: u64 = groups.iter().map(|group| u64::from(group.waiting_count)).sum();
        if (free, waiting) != (self.free.get(), self.waiting.get()) {
            let counted = (self.free.get(), self.waiting.get());
            return Err(format!("{free} blocks are free, {waiting} of them wait; counted {counted:?}"));
        }
        for (number, group) in groups.iter().enumerate() {
            let found = group.waiting.as_ref().map_or(0, |waiting| ones(waiting));
            if found != group.waiting_count || group.waiting.is_some() != (found > 0) {
                return Err(format!("{found} blocks of group {number} wait; counted {}", group.waiting_count));
            }
        }
        Ok(())
    }
}

impl Allocator<'_> {
    /// Verifies the allocator's invariants, also against the bitmaps and descriptors in memory. They hold wherever a
    /// task waits, if the image was consistent at mount.
    ///
    /// # Errors
    /// The first broken invariant.
    pub(in crate::ext4) fn check(&self) -> Result<(), String> {
        self.groups().check()?;
        let groups = self.groups().all.borrow();
        (0..).zip(groups.iter()).try_for_each(|(number, group)| self.check_group(number, group))
    }

    /// Debug builds: verifies the allocator's invariants, on damaged images too. A bitmap that contradicted its
    /// descriptor when it was loaded may do so by as many blocks as then. Costs a pass over the bitmaps in memory.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub(in crate::ext4) fn debug_check(&self) {
        if cfg!(debug_assertions)
            && let Err(broken) = self.groups().check().and_then(|()| self.check_changes())
        {
            panic!("block allocation: {broken}");
        }
    }

    /// Notes by how many blocks the bitmap of a group, which was just loaded, contradicts the descriptor.
    pub(super) fn note_contradiction(&self, number: u32) {
        let mut groups = self.groups().all.borrow_mut();
        let group = &mut groups[number as usize];
        if group.contradiction.is_some() {
            return;
        }
        let Some(page) = self.pages().peek(block_key(group.descriptor.block_bitmap())) else { return };
        let contradiction = self.contradiction(number, group, &page.bytes());
        group.contradiction = Some(contradiction);
    }

    /// Free bits of a group's bitmap beyond the count of its descriptor.
    fn contradiction(&self, number: u32, group: &Group, bitmap: &Bitmap) -> i64 {
        i64::from(self.clear_bits(number, bitmap)) - i64::from(group.descriptor.free_blocks())
    }

    /// # Errors
    /// The first group whose bitmap or descriptor the allocator changed without the other.
    fn check_changes(&self) -> Result<(), String> {
        for (number, group) in (0..).zip(self.groups().all.borrow().iter()) {
            let Some(before) = group.contradiction else { continue };
            self.check_descriptor(number, group)?;
            let Some(page) = self.pages().peek(block_key(group.descriptor.block_bitmap())) else { continue };
            check_crowded(number, group, &page.bytes())?;
            let now = self.contradiction(number, group, &page.bytes());
            if now != before {
                return Err(format!("group {number} has {now} more free bits than it counts; {before} when loaded"));
            }
        }
        Ok(())
    }

    fn clear_bits(&self, number: u32, bitmap: &Bitmap) -> u32 {
        let blocks = self.layout().blocks_in_group(number);
        let (whole, rest) = (blocks / 8 * 8, blocks / 8 * 8..blocks);
        let set: u32 = bitmap[..whole as usize / 8].iter().map(|byte| byte.count_ones()).sum();
        blocks - set - count_set(bitmap, rest)
    }

    fn check_group(&self, number: u32, group: &Group) -> Result<(), String> {
        self.check_descriptor(number, group)?;
        let Some(page) = self.pages().peek(block_key(group.descriptor.block_bitmap())) else { return Ok(()) };
        self.check_bitmap(number, group, &page.bytes())
    }

    fn check_descriptor(&self, number: u32, group: &Group) -> Result<(), String> {
        let (block, offset) = self.layout().position_of_descriptor(number);
        if let Some(page) = self.pages().peek(block_key(block)) {
            let mut bytes = *page.bytes();
            group.descriptor.clone().write(&mut bytes[offset..], number, self.layout());
            if bytes != *page.bytes() {
                return Err(format!("the descriptor of group {number} is another in its block"));
            }
        }
        Ok(())
    }

    fn check_bitmap(&self, number: u32, group: &Group, bitmap: &Bitmap) -> Result<(), String> {
        let (clear, counted) = (self.clear_bits(number, bitmap), group.descriptor.free_blocks());
        if clear != counted {
            return Err(format!("{clear} blocks of group {number} are free; counted {counted}"));
        }
        check_crowded(number, group, bitmap)?;
        let taken = |waiting: &Bitmap| waiting.iter().zip(bitmap).any(|(waiting, taken)| waiting & taken != 0);
        match group.waiting.as_deref().is_some_and(taken) {
            true => Err(format!("a block of group {number} waits to be free and is taken")),
            false => Ok(()),
        }
    }
}

/// # Errors
/// If a byte is wholly free of which the group remembers that it is not.
fn check_crowded(number: u32, group: &Group, bitmap: &Bitmap) -> Result<(), String> {
    let is_free = |byte: &u32| {
        let byte = *byte as usize;
        bitmap[byte] == 0 && group.waiting.as_ref().is_none_or(|waiting| waiting[byte] == 0)
    };
    match group.crowded.get().bytes().find(is_free) {
        Some(byte) => Err(format!("byte {byte} of the bitmap of group {number} is free; remembered as crowded")),
        None => Ok(()),
    }
}

fn ones(bitmap: &Bitmap) -> u32 {
    debug_assert_eq!(bitmap.len(), PAGE_SIZE);
    bitmap.iter().map(|byte| byte.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext4::balloc::room::Crowded;
    use crate::ext4::balloc::{Bit, set_bits};
    use crate::ext4::format::RawGroupDescriptor;

    fn groups() -> Groups {
        let descriptor = |free| {
            let mut descriptor: RawGroupDescriptor = zerocopy::FromZeros::new_zeroed();
            descriptor.set_free_blocks(free);
            descriptor
        };
        let groups = Groups::new(vec![descriptor(100), descriptor(20)]);
        {
            let mut all = groups.all.borrow_mut();
            let mut waiting = Box::new([0; PAGE_SIZE]);
            set_bits(&mut waiting, 3..5, Bit::Taken);
            (all[1].waiting, all[1].waiting_count) = (Some(waiting), 2);
        }
        groups.waiting.set(2);
        groups
    }

    #[test]
    fn counts_that_are_right_are_told_so() {
        assert_eq!(groups().check(), Ok(()));
    }

    #[test]
    fn a_wrong_sum_of_free_or_waiting_blocks_is_told() {
        let broken = groups();
        broken.free.set(119);
        assert!(broken.check().unwrap_err().contains("120 blocks are free"));
        let broken = groups();
        broken.waiting.set(1);
        assert!(broken.check().unwrap_err().contains("2 of them wait"));
    }

    #[test]
    fn room_that_is_remembered_as_crowded_is_told() {
        let broken = groups();
        let group = &broken.all.borrow()[0];
        let mut bitmap = [0xff; PAGE_SIZE];
        group.crowded.set(Crowded::default().with(3..10));
        assert_eq!(check_crowded(0, group, &bitmap), Ok(()));
        bitmap[9] = 0;
        assert!(check_crowded(0, group, &bitmap).unwrap_err().contains("byte 9 of the bitmap of group 0 is free"));
    }

    #[test]
    fn a_waiting_block_that_is_not_counted_is_told() {
        let broken = groups();
        set_bits(broken.all.borrow_mut()[1].waiting.as_mut().unwrap(), 9..10, Bit::Taken);
        assert!(broken.check().unwrap_err().contains("3 blocks of group 1 wait; counted 2"));
    }
}
