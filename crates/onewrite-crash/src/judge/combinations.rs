//! Combinations: which steps of the operations under way may be done.

/// Most combinations tried of the operations under way at one place.
const COMBINATIONS_MAX: usize = 256;

/// All ways to take 0 to `count` of each. If there are too many: each alone, all, and none.
pub(super) fn combinations(counts: &[usize]) -> Vec<Vec<usize>> {
    let all = counts.iter().try_fold(1_usize, |product, count| product.checked_mul(count + 1));
    if all.is_some_and(|all| all <= COMBINATIONS_MAX) {
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
        assert_eq!(combinations(&[]), [Vec::<usize>::new()]);
        assert_eq!(combinations(&[1, 2]), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert_eq!(combinations(&[40; 4]).len(), 2 + 4 * 40);
    }
}
