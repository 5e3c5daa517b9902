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
        self.groups.check()?;
        let groups = self.groups.all.borrow();
        (0..).zip(groups.iter()).try_for_each(|(number, group)| self.check_group(number, group))
    }

    fn check_group(&self, number: u32, group: &Group) -> Result<(), String> {
        let (block, offset) = self.layout.position_of_descriptor(number);
        if let Some(page) = self.pages.peek(block_key(block)) {
            let mut bytes = *page.bytes();
            group.descriptor.clone().write(&mut bytes[offset..], number, &self.layout);
            if bytes != *page.bytes() {
                return Err(format!("the descriptor of group {number} is another in its block"));
            }
        }
        let Some(page) = self.pages.peek(block_key(group.descriptor.block_bitmap())) else { return Ok(()) };
        self.check_bitmap(number, group, &page.bytes())
    }

    fn check_bitmap(&self, number: u32, group: &Group, bitmap: &Bitmap) -> Result<(), String> {
        let blocks = self.layout.blocks_in_group(number);
        let (clear, counted) = (blocks - count_set(bitmap, 0..blocks), group.descriptor.free_blocks());
        if clear != counted {
            return Err(format!("{clear} blocks of group {number} are free; counted {counted}"));
        }
        let taken = |waiting: &Bitmap| waiting.iter().zip(bitmap).any(|(waiting, taken)| waiting & taken != 0);
        match group.waiting.as_deref().is_some_and(taken) {
            true => Err(format!("a block of group {number} waits to be free and is taken")),
            false => Ok(()),
        }
    }
}

fn ones(bitmap: &Bitmap) -> u32 {
    debug_assert_eq!(bitmap.len(), PAGE_SIZE);
    bitmap.iter().map(|byte| byte.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_waiting_block_that_is_not_counted_is_told() {
        let broken = groups();
        set_bits(broken.all.borrow_mut()[1].waiting.as_mut().unwrap(), 9..10, Bit::Taken);
        assert!(broken.check().unwrap_err().contains("3 blocks of group 1 wait; counted 2"));
    }
}
