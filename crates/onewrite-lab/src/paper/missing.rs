//! Missing: the rows that cannot be run, each with the reason, so that none is silently left out. A test holds the list
//! to the scoreboard.

/// Times of the open-channel SSD's flash.
const OPEN_CHANNEL: &str = "the profile ocssd-huawei states this time itself; a row would compare it with itself";

/// Rows of StageFS where there is little room.
const GARBAGE: &str =
    "no experiment: at an eighth of the paper's 8 GB, the records of sqlite-rand-sync1k do not fit on our F2FS";

/// Ids and reasons, in the order of the scoreboard.
pub(super) const MISSING: &[(&str, &str)] = &[
    ("cal-ocssd-read", OPEN_CHANNEL),
    ("cal-ocssd-write", OPEN_CHANNEL),
    ("stage-gc-moved", GARBAGE),
    ("stage-gc-fileserver", GARBAGE),
    ("stage-gc-rs10k", GARBAGE),
    ("stage-gc-throughput", GARBAGE),
];

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
