//! Terminal: lines and bars of characters.

/// A horizontal rule of `width` characters.
pub(crate) fn rule(width: usize) -> String {
    "─".repeat(width)
}

/// A bar for `value`; `most` has `width` characters, and everything above zero has one.
pub fn bar(value: u64, most: u64, width: u64) -> String {
    "#".repeat((value * width).div_ceil(most.max(1)) as usize)
}

/// What stands before the last entry of a directory in a tree, or before another one.
pub const fn branch(is_last: bool) -> &'static str {
    if is_last { "└── " } else { "├── " }
}

/// What stands below such an entry, before what it contains.
pub const fn below(is_last: bool) -> &'static str {
    if is_last { "    " } else { "│   " }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_fills_the_width_and_the_least_is_seen() {
        assert_eq!([0, 1, 50, 100].map(|value| bar(value, 100, 10).len()), [0, 1, 5, 10]);
        assert_eq!(bar(0, 0, 10), "");
    }

    #[test]
    fn what_is_below_an_entry_lies_below_its_name() {
        for is_last in [false, true] {
            assert_eq!(branch(is_last).chars().count(), below(is_last).chars().count());
        }
    }
}
