//! Rows: what is known of each row beside the paper's own words: its experiment, who wins and how long it takes.

use super::{amplification, blocks, calibration, false_recovery, journals, padding, photographs, recovery, ts_clock};
use crate::error::LabError;

/// Measures a row's figure, in the row's unit.
pub(super) type Experiment = fn() -> Result<f64, LabError>;

/// Which side of a row is larger in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Winner {
    /// `a`, if the paper's figure is above one, else `b`.
    ByFigure,
    /// `a`, although the paper gives no number.
    A,
}

/// How long an experiment takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duration {
    /// Seconds.
    Short,
    /// Up to two minutes, at full scale.
    Minutes,
    /// The same, with memory cards, that are measured as FAST here.
    MinutesOnCards,
}

/// A row's id, its experiment, who wins and how long it takes.
pub(super) type Entry = (&'static str, Option<Experiment>, Winner, Duration);

/// One entry for each row that can be run, or whose winner is not in its figure.
pub(super) const ROWS: &[Entry] = &[
    ("afs-blocks-oj", Some(blocks::ordered), Winner::ByFigure, Duration::Short),
    ("afs-blocks-dj", Some(blocks::data), Winner::ByFigure, Duration::Short),
    ("afs-blocks-sdj", Some(blocks::shared_data), Winner::ByFigure, Duration::Short),
    ("ts-waf-full-blocks", Some(amplification::full_blocks), Winner::ByFigure, Duration::Short),
    ("ts-waf-fast-25-16g", Some(amplification::fast_quarter_of_blocks_16g), Winner::ByFigure, Duration::Short),
    ("ts-waf-fast-25-1g", Some(amplification::fast_quarter_of_blocks_1g), Winner::ByFigure, Duration::Short),
    ("ts-waf-page-25-16g", Some(amplification::quarter_of_blocks_16g), Winner::ByFigure, Duration::Short),
    ("ts-waf-page-25-1g", Some(amplification::quarter_of_blocks_1g), Winner::ByFigure, Duration::Short),
    (
        "ts-mixed-storage-a",
        Some(|| ts_clock::measure("ts-mixed-storage-a")),
        Winner::ByFigure,
        Duration::MinutesOnCards,
    ),
    (
        "ts-mixed-storage-b",
        Some(|| ts_clock::measure("ts-mixed-storage-b")),
        Winner::ByFigure,
        Duration::MinutesOnCards,
    ),
    (
        "ts-video-storage-a",
        Some(|| ts_clock::measure("ts-video-storage-a")),
        Winner::ByFigure,
        Duration::MinutesOnCards,
    ),
    (
        "ts-video-storage-b",
        Some(|| ts_clock::measure("ts-video-storage-b")),
        Winner::ByFigure,
        Duration::MinutesOnCards,
    ),
    (
        "ts-fileserver-microsd",
        Some(|| ts_clock::measure("ts-fileserver-microsd")),
        Winner::ByFigure,
        Duration::MinutesOnCards,
    ),
    ("ts-tpcc-microsd", Some(|| ts_clock::measure("ts-tpcc-microsd")), Winner::ByFigure, Duration::MinutesOnCards),
    ("ts-spclock-ssd", Some(|| ts_clock::measure("ts-spclock-ssd")), Winner::ByFigure, Duration::Minutes),
    ("ts-fileserver-ssd", Some(|| ts_clock::measure("ts-fileserver-ssd")), Winner::ByFigure, Duration::Minutes),
    ("ts-tpcc-ssd", Some(|| ts_clock::measure("ts-tpcc-ssd")), Winner::ByFigure, Duration::Minutes),
    ("ts-fab-microsd", Some(|| ts_clock::measure("ts-fab-microsd")), Winner::ByFigure, Duration::MinutesOnCards),
    ("ts-spclock-all", Some(|| ts_clock::measure("ts-spclock-all")), Winner::ByFigure, Duration::MinutesOnCards),
    ("ts-erase-fast", Some(|| ts_clock::measure("ts-erase-fast")), Winner::ByFigure, Duration::Minutes),
    ("ts-erase-page", Some(|| ts_clock::measure("ts-erase-page")), Winner::ByFigure, Duration::Minutes),
    ("zp-fio", Some(padding::fio), Winner::ByFigure, Duration::Short),
    ("zp-fio-notrim-oj", Some(padding::fio_no_trim_ordered), Winner::ByFigure, Duration::Short),
    ("zp-fio-notrim-dj", Some(padding::fio_no_trim_data), Winner::ByFigure, Duration::Short),
    ("zp-varmail", Some(padding::varmail), Winner::ByFigure, Duration::Short),
    ("zp-varmail-notrim-oj", Some(padding::varmail_no_trim_ordered), Winner::ByFigure, Duration::Short),
    ("zp-varmail-notrim-zp", Some(padding::varmail_no_trim), Winner::ByFigure, Duration::Short),
    ("zp-varmail-notrim-dj", Some(padding::varmail_no_trim_data), Winner::ByFigure, Duration::Short),
    ("zp-evict-flush", Some(padding::eviction_over_flush), Winner::ByFigure, Duration::Short),
    ("zp-blocks-varmail-oj", Some(padding::blocks_ordered), Winner::ByFigure, Duration::Short),
    ("zp-blocks-rest", Some(padding::blocks_data), Winner::ByFigure, Duration::Short),
    ("zp-flushes", Some(padding::flushes), Winner::ByFigure, Duration::Short),
    ("afs-fio-sdj-oj-1g", Some(journals::share_large_log), Winner::ByFigure, Duration::Short),
    ("afs-fio-1g-single", Some(journals::share_single_file), Winner::ByFigure, Duration::Short),
    ("afs-fio-oj-drop", Some(journals::ordered_over_data), Winner::ByFigure, Duration::Short),
    ("afs-fio-small-journal", Some(journals::share_small_log), Winner::ByFigure, Duration::Short),
    ("afs-soj-oj", Some(journals::share_ordered), Winner::A, Duration::Short),
    ("afs-filebench", Some(journals::share_filebench), Winner::A, Duration::Short),
    ("ldj-false-recovery", Some(false_recovery::with_self_trimming), Winner::ByFigure, Duration::Short),
    ("ldj-flushes-per-commit", Some(journals::ldj_flushes), Winner::ByFigure, Duration::Short),
    ("ldj-varmail-oj", Some(journals::ldj_varmail_ordered), Winner::ByFigure, Duration::Short),
    ("ldj-varmail-dj", Some(journals::ldj_varmail_data), Winner::ByFigure, Duration::Short),
    ("ldj-fileserver-mf", Some(journals::ldj_fileserver_many_files), Winner::ByFigure, Duration::Short),
    ("ldj-fileserver-nvme", Some(journals::ldj_fileserver_nvme), Winner::ByFigure, Duration::Short),
    ("ldj-fileserver-ssd", Some(journals::ldj_fileserver_ssd), Winner::ByFigure, Duration::Short),
    ("ldj-750-varmail", Some(journals::ldj_varmail_fast_disk), Winner::ByFigure, Duration::Short),
    ("ldj-hdd", Some(journals::ldj_hard_disk), Winner::ByFigure, Duration::Short),
    ("ldj-copy", Some(journals::ldj_copy_data), Winner::ByFigure, Duration::Short),
    ("ldj-copy-oj", Some(journals::ldj_copy_ordered), Winner::ByFigure, Duration::Short),
    ("ldj-recovery-oj", Some(recovery::over_ordered), Winner::ByFigure, Duration::Short),
    ("ldj-recovery-dj", Some(recovery::over_data), Winner::ByFigure, Duration::Short),
    ("ldj-ratio-varmail", Some(journals::ldj_ratio_varmail), Winner::ByFigure, Duration::Short),
    ("ldj-writes-copy", Some(journals::ldj_copy_bytes), Winner::ByFigure, Duration::Short),
    ("ldj-writes-postmark", Some(journals::ldj_postmark_bytes), Winner::ByFigure, Duration::Short),
    ("ldj-ratio-rest", Some(journals::ldj_ratio_postmark), Winner::ByFigure, Duration::Short),
    ("ldj-ratio-jpeg", Some(photographs::compressed_size), Winner::ByFigure, Duration::Short),
    ("cal-zp-buffer-read", Some(calibration::buffer_read_ms), Winner::ByFigure, Duration::Short),
    ("cal-zp-flash-read", Some(calibration::flash_read_ms), Winner::ByFigure, Duration::Short),
    ("cal-zp-eviction-begins", Some(calibration::eviction_begins_mb), Winner::ByFigure, Duration::Short),
    ("cal-zp-eviction-certain", Some(calibration::eviction_certain_mb), Winner::ByFigure, Duration::Short),
    ("cal-fsync-drop-nvme", Some(calibration::sync_drop_nvme), Winner::ByFigure, Duration::Short),
    ("cal-fsync-drop-ssd", Some(calibration::sync_drop_ssd), Winner::ByFigure, Duration::Short),
    ("cal-fsync-drop-hdd", Some(calibration::sync_drop_hdd), Winner::ByFigure, Duration::Short),
    ("cal-share-ssd", Some(calibration::share_write_kiops), Winner::ByFigure, Duration::Short),
    ("cal-share-read", Some(calibration::share_read_kiops), Winner::ByFigure, Duration::Short),
    ("ldj-journal-size", None, Winner::A, Duration::Short),
];

/// The entry of the row `id`.
pub(super) fn entry(id: &str) -> Option<&'static Entry> {
    ROWS.iter().find(|(other, ..)| *other == id)
}
