//! Missing: the rows that cannot be run, each with the reason, so that none is silently left out. A test holds the list
//! to the scoreboard.

/// Times of the open-channel SSD's flash.
const OPEN_CHANNEL: &str = "the profile ocssd-huawei states this time itself; a row would compare it with itself";

/// Ids and reasons, in the order of the scoreboard.
pub(super) const MISSING: &[(&str, &str)] = &[("cal-ocssd-read", OPEN_CHANNEL), ("cal-ocssd-write", OPEN_CHANNEL)];

/// The reason for `id`; a test holds that there is one for each row without an experiment.
pub(super) fn reason(id: &str) -> &'static str {
    MISSING.iter().find(|(known, _)| *known == id).map_or("it has no experiment", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::scoreboard;

    #[test]
    fn the_rows_without_an_experiment_are_these_and_no_others() {
        let rows = scoreboard().unwrap();
        let missing: Vec<&str> = rows.iter().filter(|row| !row.can_run()).map(|row| row.id.as_str()).collect();
        assert_eq!(missing, MISSING.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    }
}
