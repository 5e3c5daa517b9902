//! Combinations: which steps of the operations under way may be done.

/// Most combinations tried of the operations under way at one place.
pub(super) const COMBINATIONS_MAX: usize = 256;
/// The same, if some of them failed: they are under way for ever, and where blocks run out each page is a step.
pub(super) const FAILED_COMBINATIONS_MAX: usize = 2_048;

/// Whether there are more than `most` ways to take 0 to `count` of each.
pub(super) fn are_more(counts: &[usize], most: usize) -> bool {
    let all = counts.iter().try_fold(1_usize, |product, count| product.checked_mul(count + 1));
    all.is_none_or(|all| all > most)
}

/// All ways to take 0 to `count` of each. If these are more than `most`: each alone, all, and none.
pub(super) fn combinations(counts: &[usize], most: usize) -> Vec<Vec<usize>> {
    if !are_more(counts, most) {
        return counts.iter().fold(vec![Vec::new()], |ways, count| {
            let more = |way: &Vec<usize>| (0..=*count).map(|taken| [&way[..], &[taken]].concat()).collect::<Vec<_>>();
            ways.iter().flat_map(more).collect()
        });
    }
    let none = vec![0; counts.len()];
    let alone = (0..counts.len()).flat_map(|at| {
        let none = none.clone();
        (1..=counts[at]).map(move |taken| {
            let mut way = none.clone();
            way[at] = taken;
            way
        })
    });
    [none.clone(), counts.to_vec()].into_iter().chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_of_them() {
        assert_eq!(combinations(&[], 9), [Vec::<usize>::new()]);
        assert_eq!(combinations(&[1, 2], 9), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert_eq!(combinations(&[40; 4], COMBINATIONS_MAX).len(), 2 + 4 * 40);
        assert!(are_more(&[1, 2], 5) && !are_more(&[1, 2], 6) && are_more(&[usize::MAX - 1; 2], 6));
    }
}
