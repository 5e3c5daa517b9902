//! Rows: the one table of what is known of each row beside the paper's own words: its experiment with the cells in
//! which it runs, who wins and how long it takes. Nothing about a row stands elsewhere in the code.

use onewrite_block::{GIB, MIB, Nanos};
use onewrite_cache::PolicyKind;
use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::Padding;

use super::cell::Work;
use super::claim::{Also, Claim, ClaimTold, Counted};
use super::cleaning::Cleaned;
use super::entry::AmplifiedLayer::{Fast, Page};
use super::entry::DeviceFigure::{
    BufferRead, EvictionBegins, EvictionCertain, FlashRead, RandomReads, RandomWrites, SyncDrop,
};
use super::entry::Duration::{self, Minutes, MinutesOfFiles, MinutesOnCards, Short};
use super::entry::Experiment::{
    self, Blocks, Databases, Device, EvictionOverFlush, FalseRecovery, Git, GitBytes, GitLogs, GitPacked, Innodb, Ldj,
    LdjAndBytes, LdjBytes, LdjFlushes, LdjPacked, LdjRecovery, Oltp, OltpPacked, OverBest, PaddedBlocks, PaddedFlushes,
    PaddedVarmail, PaddedWrites, Photographs, TsClock, Writes, WritesAnd,
};
use super::entry::Told::{Best, Mean};
use super::entry::Winner::{self, A, ByFigure};
use super::entry::{
    Amplified, AmplifiedLayer, Cost, Each, Entry, InnodbSide, Rivalry, Rivals, Side, Sweep, Told, Versus,
};
use super::staging::garbage::Garbage;
use super::staging::sensitivity::Varied;
use super::staging::{Condition, Of, OpenChannel, Rival, Staged};
use crate::generate::TraceKind;
use crate::innodb::Doublewrite;
use crate::sqlite::{Journal, Kind, SqliteJob};
use crate::workload::filebench::{Length, Personality};

const NO_TRIM: Padding = Padding { trims: false, ..Padding::PLAIN };
const ZP: Mode = Mode::Zp(Padding::PLAIN);
const ZP_NO_TRIM: Mode = Mode::Zp(NO_TRIM);
const ZP_DATA: Mode = Mode::ZpData(Padding::PLAIN);
const ZP_DATA_NO_TRIM: Mode = Mode::ZpData(NO_TRIM);

const LDJ_DEVICES: &[&str] = &["hdd-barracuda", "sata-850pro", "nvme-960pro"];
/// Table 2 of `papers/001` gives a ratio of 0.12: this share of the content is left after compression.
const VARMAIL: Work = timed(Personality::Varmail, 30, 88);
/// A ratio of 0.007 in table 2. Not much more can be done with 10,000 files: as in filebench, an open file is not
/// deleted, so they become more until none is missing.
const FILESERVER: Work = Work::Personality {
    personality: Personality::Fileserver,
    files: None,
    length: Length::Operations(400_000),
    compressible_percent: 99,
};
/// Fileserver with 50,000 files.
const FILESERVER_MF: Work = Work::Personality {
    personality: Personality::Fileserver,
    files: Some(50_000),
    length: Length::Operations(20_000),
    compressible_percent: 99,
};
/// An eighth of the paper's.
const COPY: Work = Work::Copy { bytes: 20 * GIB / 8 };
const POSTMARK: Work = Work::PostMark { part: 10 };

const ROLLBACK: Side = Side { mode: Mode::Ordered, works: &sqlite(Journal::Delete) };
const WAL: Side = Side { mode: Mode::Ordered, works: &sqlite(Journal::Wal) };
/// SQLite without a journal, on atomic files.
const SADJ: Side = Side { mode: Mode::Sdj, works: &sqlite(Journal::Off) };

const DOUBLE_OJ: InnodbSide = InnodbSide { mode: Mode::Ordered, doublewrite: Doublewrite::On };
const SINGLE_DJ: InnodbSide = InnodbSide { mode: Mode::Data, doublewrite: Doublewrite::Off };
const SINGLE_SDJ: InnodbSide = InnodbSide { mode: Mode::Sdj, doublewrite: Doublewrite::Off };

const CARD_FIGURE: &[&str] = &["2-4"];
const SSD_FIGURE: &[&str] = &["2-6"];
const BOTH: &[&str] = &["2-4", "2-6"];
const PATRIOT: &[&str] = &["microsd-patriot"];
const ADATA: &[&str] = &["microsd-adata"];
const CARDS: &[&str] = &["microsd-patriot", "microsd-adata"];
const SSD: &[&str] = &["ssd-tlc-120g"];
const ALL: &[&str] = &["microsd-patriot", "microsd-adata", "ssd-tlc-120g"];
/// The other policies of the figures, without those that evict blocks.
const BY_PAGE: &[PolicyKind] =
    &[PolicyKind::Lru, PolicyKind::Clock, PolicyKind::Linux2q, PolicyKind::Cflru, PolicyKind::SpClock];
const OTHERS: &[PolicyKind] = &[
    PolicyKind::Lru,
    PolicyKind::Clock,
    PolicyKind::Linux2q,
    PolicyKind::Cflru,
    PolicyKind::Fab,
    PolicyKind::LbClock,
    PolicyKind::SpClock,
];

const fn row(id: &'static str, experiment: Option<Experiment>, winner: Winner, duration: Duration) -> Entry {
    Entry { id, experiment, winner, duration, is_input: false }
}

/// A row whose figure its experiment was given.
const fn input(entry: Entry) -> Entry {
    Entry { is_input: true, ..entry }
}

const fn personality(personality: Personality, compressible_percent: u8) -> Work {
    Work::Personality { personality, files: None, length: Length::Operations(20_000), compressible_percent }
}

/// A personality for `seconds` of virtual time.
const fn timed(personality: Personality, seconds: u64, compressible_percent: u8) -> Work {
    let length = Length::Time(Nanos::from_secs(seconds));
    Work::Personality { personality, files: None, length, compressible_percent }
}

/// The three applications of the dissertation with a journal mode of SQLite.
const fn sqlite(journal: Journal) -> [Work; 3] {
    let [a, b, c] = Kind::APPLICATIONS;
    [one_of_sqlite(a, journal), one_of_sqlite(b, journal), one_of_sqlite(c, journal)]
}

const fn one_of_sqlite(kind: Kind, journal: Journal) -> Work {
    Work::Sqlite(SqliteJob { journal: Some(journal), ..SqliteJob::new(kind) })
}

const fn amplified(layers: &'static [AmplifiedLayer], block_percent: u32, range_bytes: u64) -> Experiment {
    Experiment::Amplification(Amplified { layers, block_percent, range_bytes })
}

const fn over(a: Mode, b: Mode) -> Versus {
    Versus { a, b }
}

const fn sweep(modes: Versus, threads: u32, log_bytes: u64, told: Told) -> Sweep {
    Sweep { modes, threads, log_bytes, told }
}

const fn rival(rival: Mode, devices: &'static [&'static str], works: &'static [Work]) -> Rivalry {
    Rivalry { rival, devices, works, each: Each::Shown }
}

/// The same where the row speaks of each device and workload.
const fn each(each: Each, rivalry: Rivalry) -> Rivalry {
    Rivalry { each, ..rivalry }
}

/// StageFS in `work`, with the paper's ratios to ext4 and to F2FS.
const fn staged(work: Work, over_ext4: f64, over_f2fs: f64) -> Staged {
    Staged { work, over_ext4, over_f2fs }
}

/// A claim about elapsed time on cards (figure 2-4) or the SSD (figure 2-6).
const fn time(
    figures: &'static [&'static str],
    devices: &'static [&'static str],
    workloads: &'static [TraceKind],
    rivals: &'static [PolicyKind],
    told: ClaimTold,
) -> Claim {
    Claim { figures, devices, workloads, rivals, counted: Counted::Seconds, told, also: Also::EachDevice }
}

/// A claim about erases in the lifetime study.
const fn lifetime(
    figures: &'static [&'static str],
    workloads: &'static [TraceKind],
    rivals: &'static [PolicyKind],
) -> Claim {
    let (counted, told, also) = (Counted::Erases, ClaimTold::Best, Also::EachDevice);
    Claim { figures, devices: &["ftl-16g"], workloads, rivals, counted, told, also }
}

/// The same claim with more to it.
const fn and(also: Also, claim: Claim) -> Claim {
    Claim { also, ..claim }
}

/// One entry for each row that can be run, or whose winner is not in its figure. The columns are the id, the experiment
/// with its cells, the winner, and how long it takes.
pub(super) const ROWS: &[Entry] = &[
    row("afs-blocks-oj", Some(Blocks(Mode::Ordered)), ByFigure, Short),
    row("afs-blocks-dj", Some(Blocks(Mode::Data)), ByFigure, Short),
    row("afs-blocks-sdj", Some(Blocks(Mode::Sdj)), ByFigure, Short),
    row("ts-waf-full-blocks", Some(amplified(&[Page, Fast], 100, 16 * GIB)), ByFigure, Short),
    row("ts-waf-fast-25-16g", Some(amplified(&[Fast], 25, 16 * GIB)), ByFigure, Short),
    row("ts-waf-fast-25-1g", Some(amplified(&[Fast], 25, GIB)), ByFigure, Short),
    row("ts-waf-page-25-16g", Some(amplified(&[Page], 25, 16 * GIB)), ByFigure, Short),
    row("ts-waf-page-25-1g", Some(amplified(&[Page], 25, GIB)), ByFigure, Short),
    row(
        "ts-mixed-storage-a",
        Some(TsClock(time(CARD_FIGURE, PATRIOT, &[TraceKind::Mixed], OTHERS, ClaimTold::Best))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-mixed-storage-b",
        Some(TsClock(time(CARD_FIGURE, ADATA, &[TraceKind::Mixed], OTHERS, ClaimTold::Best))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-video-storage-a",
        Some(TsClock(time(CARD_FIGURE, PATRIOT, &[TraceKind::Video], OTHERS, ClaimTold::Mean))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-video-storage-b",
        Some(TsClock(time(CARD_FIGURE, ADATA, &[TraceKind::Video], OTHERS, ClaimTold::Mean))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-fileserver-microsd",
        Some(TsClock(time(CARD_FIGURE, CARDS, &[TraceKind::FileServer], BY_PAGE, ClaimTold::Best))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-tpcc-microsd",
        Some(TsClock(time(CARD_FIGURE, CARDS, &[TraceKind::TpcC], BY_PAGE, ClaimTold::Best))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-spclock-ssd",
        Some(TsClock(time(SSD_FIGURE, SSD, &[TraceKind::Video], &[PolicyKind::SpClock], ClaimTold::Best))),
        ByFigure,
        Minutes,
    ),
    row(
        "ts-fileserver-ssd",
        Some(TsClock(time(SSD_FIGURE, SSD, &[TraceKind::FileServer], OTHERS, ClaimTold::Mean))),
        ByFigure,
        Minutes,
    ),
    row(
        "ts-tpcc-ssd",
        Some(TsClock(time(SSD_FIGURE, SSD, &[TraceKind::TpcC], OTHERS, ClaimTold::Mean))),
        ByFigure,
        Minutes,
    ),
    row(
        "ts-fab-microsd",
        Some(TsClock(and(
            Also::AheadButWriteMore(&[PolicyKind::Fab, PolicyKind::LbClock]),
            time(
                CARD_FIGURE,
                CARDS,
                &[TraceKind::FileServer, TraceKind::TpcC],
                &[PolicyKind::Fab],
                ClaimTold::Quotient,
            ),
        ))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-spclock-all",
        Some(TsClock(and(
            Also::EveryCombination,
            time(BOTH, ALL, &TraceKind::ALL, &[PolicyKind::SpClock], ClaimTold::Mean),
        ))),
        ByFigure,
        MinutesOnCards,
    ),
    row(
        "ts-erase-fast",
        Some(TsClock(lifetime(&["2-8"], &[TraceKind::Mixed], &[PolicyKind::Cflru]))),
        ByFigure,
        Minutes,
    ),
    row("ts-erase-page", Some(TsClock(lifetime(&["2-9"], &[TraceKind::TpcC], &[PolicyKind::Fab]))), ByFigure, Minutes),
    row("zp-fio", Some(PaddedWrites(over(ZP, Mode::Ordered))), ByFigure, Short),
    row("zp-fio-notrim-oj", Some(PaddedWrites(over(ZP_NO_TRIM, Mode::Ordered))), ByFigure, Short),
    row("zp-fio-notrim-dj", Some(PaddedWrites(over(ZP_NO_TRIM, Mode::Data))), ByFigure, Short),
    row("zp-varmail", Some(PaddedVarmail(over(ZP, Mode::Ordered))), ByFigure, Short),
    row("zp-varmail-notrim-oj", Some(PaddedVarmail(over(ZP_NO_TRIM, Mode::Ordered))), ByFigure, Short),
    row("zp-varmail-notrim-zp", Some(PaddedVarmail(over(ZP_NO_TRIM, ZP))), ByFigure, Short),
    row("zp-varmail-notrim-dj", Some(PaddedVarmail(over(ZP_DATA_NO_TRIM, Mode::Data))), ByFigure, Short),
    row("zp-evict-flush", Some(EvictionOverFlush("sata-850pro")), ByFigure, Short),
    row("zp-blocks-varmail-oj", Some(PaddedBlocks(Mode::Ordered)), ByFigure, Short),
    row("zp-blocks-rest", Some(PaddedBlocks(Mode::Data)), ByFigure, Short),
    row("zp-flushes", Some(PaddedFlushes(&[ZP, ZP_DATA, ZP_NO_TRIM, ZP_DATA_NO_TRIM])), ByFigure, Short),
    row("afs-fio-sdj-oj-1g", Some(Writes(sweep(over(Mode::Sdj, Mode::Ordered), 10, GIB, Best))), ByFigure, Short),
    row("afs-fio-1g-single", Some(Writes(sweep(over(Mode::Sdj, Mode::Ordered), 1, GIB, Mean))), ByFigure, Short),
    row("afs-fio-oj-drop", Some(Writes(sweep(over(Mode::Ordered, Mode::Data), 10, GIB, Mean))), ByFigure, Short),
    row(
        "afs-fio-small-journal",
        Some(Writes(sweep(over(Mode::Sdj, Mode::Ordered), 10, 128 * MIB, Mean))),
        ByFigure,
        Short,
    ),
    row(
        "afs-soj-oj",
        Some(WritesAnd(
            sweep(over(Mode::Soj, Mode::Ordered), 10, 128 * MIB, Mean),
            personality(Personality::Varmail, 0),
        )),
        A,
        Short,
    ),
    row(
        "afs-filebench",
        Some(OverBest(Rivals {
            mode: Mode::Sdj,
            rivals: [Mode::Ordered, Mode::Data],
            works: &[personality(Personality::Varmail, 0), personality(Personality::Webserver, 0)],
        })),
        A,
        Short,
    ),
    row("afs-mysql-oj", Some(Innodb(Cost::Speed, SINGLE_SDJ, DOUBLE_OJ)), ByFigure, Minutes),
    row("afs-mysql-dj", Some(Innodb(Cost::Speed, SINGLE_SDJ, SINGLE_DJ)), ByFigure, Minutes),
    row("afs-mysql-flushes", Some(Innodb(Cost::Flushes, DOUBLE_OJ, SINGLE_SDJ)), ByFigure, Minutes),
    row("afs-sqlite-rbj", Some(Databases(Cost::Speed, SADJ, ROLLBACK)), ByFigure, Short),
    row("afs-sqlite-wal", Some(Databases(Cost::Speed, SADJ, WAL)), ByFigure, Short),
    row("afs-sqlite-writes", Some(Databases(Cost::Bytes, ROLLBACK, SADJ)), ByFigure, Short),
    row("afs-sqlite-flushes", Some(Databases(Cost::Flushes, ROLLBACK, SADJ)), ByFigure, Short),
    row("ldj-false-recovery", Some(FalseRecovery), ByFigure, Short),
    row("ldj-flushes-per-commit", Some(LdjFlushes(over(Mode::Ldj, Mode::Data))), ByFigure, Short),
    row("ldj-varmail-oj", Some(Ldj(rival(Mode::Ordered, LDJ_DEVICES, &[VARMAIL]))), ByFigure, Short),
    row("ldj-varmail-dj", Some(Ldj(rival(Mode::Data, LDJ_DEVICES, &[VARMAIL]))), ByFigure, Short),
    row(
        "ldj-fileserver-mf",
        Some(Ldj(rival(Mode::Ordered, &["sata-850pro"], &[FILESERVER_MF]))),
        ByFigure,
        MinutesOfFiles,
    ),
    row(
        "ldj-fileserver-nvme",
        Some(Ldj(each(Each::AsRow, rival(Mode::Ordered, &["nvme-960pro"], &[FILESERVER, FILESERVER_MF])))),
        ByFigure,
        MinutesOfFiles,
    ),
    row("ldj-fileserver-ssd", Some(Ldj(rival(Mode::Ordered, &["sata-850pro"], &[FILESERVER]))), ByFigure, Short),
    row("ldj-750-varmail", Some(LdjAndBytes(rival(Mode::Ordered, &["nvme-750"], &[VARMAIL]), 0.19)), ByFigure, Short),
    row(
        "ldj-hdd",
        Some(Ldj(each(Each::Wins, rival(Mode::Ordered, &["hdd-barracuda"], &[VARMAIL, FILESERVER, FILESERVER_MF])))),
        ByFigure,
        MinutesOfFiles,
    ),
    row("ldj-copy", Some(Ldj(rival(Mode::Data, &["nvme-750", "nvme-p3600", "sata-850pro"], &[COPY]))), ByFigure, Short),
    row("ldj-copy-oj", Some(Ldj(each(Each::AsRow, rival(Mode::Ordered, LDJ_DEVICES, &[COPY])))), ByFigure, Short),
    row(
        "ldj-recovery-oj",
        Some(LdjRecovery(rival(Mode::Ordered, LDJ_DEVICES, &[VARMAIL, FILESERVER_MF]))),
        ByFigure,
        MinutesOfFiles,
    ),
    row(
        "ldj-recovery-dj",
        Some(LdjRecovery(rival(Mode::Data, LDJ_DEVICES, &[VARMAIL, FILESERVER_MF]))),
        ByFigure,
        MinutesOfFiles,
    ),
    // VARMAIL's content is made to compress as this row says.
    input(row("ldj-ratio-varmail", Some(LdjPacked(VARMAIL)), ByFigure, Short)),
    row("ldj-writes-copy", Some(LdjBytes(over(Mode::Ldj, Mode::Ordered), COPY)), ByFigure, Short),
    row("ldj-writes-postmark", Some(LdjBytes(over(Mode::Data, Mode::Ordered), POSTMARK)), ByFigure, Short),
    row("ldj-ratio-rest", Some(LdjPacked(POSTMARK)), ByFigure, Short),
    row("ldj-ratio-jpeg", Some(Photographs), ByFigure, Short),
    row("cal-zp-buffer-read", Some(Device("sata-850pro", BufferRead)), ByFigure, Short),
    row("cal-zp-flash-read", Some(Device("sata-850pro", FlashRead)), ByFigure, Short),
    row("cal-zp-eviction-begins", Some(Device("sata-850pro", EvictionBegins)), ByFigure, Short),
    row("cal-zp-eviction-certain", Some(Device("sata-850pro", EvictionCertain)), ByFigure, Short),
    row("cal-fsync-drop-nvme", Some(Device("nvme-960pro", SyncDrop)), ByFigure, Short),
    row("cal-fsync-drop-ssd", Some(Device("sata-850pro", SyncDrop)), ByFigure, Short),
    row("cal-fsync-drop-hdd", Some(Device("hdd-barracuda", SyncDrop)), ByFigure, Short),
    row("cal-share-ssd", Some(Device("nvme-share", RandomWrites)), ByFigure, Short),
    row("cal-share-read", Some(Device("nvme-share", RandomReads)), ByFigure, Short),
    row("ldj-oltp", Some(Oltp(Cost::Speed, over(Mode::Ldj, Mode::Ordered), LDJ_DEVICES)), ByFigure, Minutes),
    row("ldj-ratio-oltp", Some(OltpPacked), ByFigure, Minutes),
    row(
        "ldj-writes-oltp",
        Some(Oltp(Cost::Bytes, over(Mode::Ldj, Mode::Ordered), &["sata-850pro"])),
        ByFigure,
        Minutes,
    ),
    row("zp-sysbench", Some(Oltp(Cost::Speed, over(ZP, Mode::Ordered), &["sata-850pro"])), ByFigure, Minutes),
    row("ssc-fio-low", Some(Experiment::Cleaned(Cleaned::LeastGain)), ByFigure, Minutes),
    row("ssc-fio-high", Some(Experiment::Cleaned(Cleaned::MostGain)), ByFigure, Minutes),
    row("ssc-moved", Some(Experiment::Cleaned(Cleaned::Copied)), ByFigure, Minutes),
    row("ssc-ipu", Some(Experiment::Cleaned(Cleaned::InPlace)), ByFigure, Minutes),
    row("ldj-git", Some(Git(LDJ_DEVICES)), A, Minutes),
    row("ldj-ratio-git", Some(GitPacked), ByFigure, Minutes),
    row("ldj-writes-git-ssd", Some(GitBytes(over(Mode::Ldj, Mode::Data))), ByFigure, Minutes),
    row("ldj-writes-git-oj", Some(GitBytes(over(Mode::Ldj, Mode::Ordered))), ByFigure, Minutes),
    row("ldj-writes-dj-git", Some(GitBytes(over(Mode::Data, Mode::Ordered))), ByFigure, Minutes),
    row("ldj-journal-size", Some(GitLogs("sata-850pro")), A, Minutes),
    row("stage-530-varmail", Some(Experiment::Staged(&[staged(MAIL, 2.426, 1.996)])), A, Short),
    row(
        "stage-530-sync",
        Some(Experiment::Staged(&[staged(RAND_SYNC, 2.041, 1.109), staged(SEQ_SYNC, 2.031, 1.107)])),
        A,
        Short,
    ),
    open_row("stage-varmail-ext4", MAIL, Rival::Ext4, Of::Speed),
    open_row("stage-varmail-f2fs", MAIL, Rival::F2fs, Of::Speed),
    open_row("stage-seqsync-f2fs", SEQ_SYNC, Rival::F2fs, Of::Speed),
    server("stage-webproxy", Personality::Webproxy),
    server("stage-fileserver", Personality::Fileserver),
    Entry { duration: Minutes, ..open_row("stage-randasync-traffic", RAND_ASYNC, Rival::F2fs, Of::FlashBytes) },
    synced_puts("stage-seqsync", SEQ_SYNC, Of::Speed),
    synced_puts("stage-randsync", RAND_SYNC, Of::Speed),
    open_row("stage-waf-varmail", MAIL, Rival::Ext4, Of::FlashBytes),
    synced_puts("stage-waf-seqsync", SEQ_SYNC, Of::FlashBytes),
    synced_puts("stage-waf-randsync", RAND_SYNC, Of::FlashBytes),
    mobibench("stage-mobibench", Rival::Ext4, Of::Speed),
    mobibench("stage-mobibench-f2fs", Rival::F2fs, Of::Speed),
    mobibench("stage-waf-mobibench", Rival::Ext4, Of::FlashBytes),
    open_rows(
        "stage-op-append",
        OpenChannel { rival: Rival::F2fs, also: &[RANDWRITE, SEQWRITE], ..OpenChannel::plain(APPEND) },
    ),
    row("stage-gc-moved", Some(Experiment::Garbage(Garbage::Moved)), ByFigure, Minutes),
    row("stage-gc-fileserver", Some(Experiment::Garbage(Garbage::OfFiles)), ByFigure, Minutes),
    row("stage-gc-rs10k", Some(Experiment::Garbage(Garbage::OfRecords)), ByFigure, Minutes),
    row("stage-gc-throughput", Some(Experiment::Garbage(Garbage::Speed)), A, Minutes),
    row("stage-recovery", Some(Experiment::Remount), ByFigure, Short),
    row("stage-size", Some(Experiment::Varied(Varied::Size)), A, Minutes),
    row("stage-channels", Some(Experiment::Varied(Varied::Units)), A, Minutes),
];

const MAIL: Work = timed(Personality::Varmail, 30, 0);
const SEQ_SYNC: Work = puts(Kind::SeqSync, 10_000);
const RAND_SYNC: Work = puts(Kind::RandSync, 10_000);
const RAND_ASYNC: Work = puts(Kind::RandAsync, 1_000_000);

const fn puts(kind: Kind, operations: u32) -> Work {
    Work::Sqlite(SqliteJob { journal: Some(Journal::Wal), operations: Some(operations), ..SqliteJob::new(kind) })
}

/// Synced accesses of 4 KiB to a file that is there before.
const MOBIBENCH: Work =
    Work::Fio { name: "mobibench", text: "rw=randrw\nrwmixread=1\nbs=4k\nsize=64m\nio_size=64m\nfsync=1\n" };
/// The same without fsyncs but for the last.
const MOBIBENCH_ASYNC: Work = Work::Fio {
    name: "synced at the end only",
    text: "rw=randrw\nrwmixread=1\nbs=4k\nsize=64m\nio_size=64m\nend_fsync=1\n",
};
/// Synced writes to a file whose blocks are reserved, but not written.
const MOBIBENCH_RESERVED: Work = Work::Fio {
    name: "file reserved only",
    text: "rw=randwrite\nbs=4k\nsize=64m\nio_size=64m\nfallocate=native\nfsync=1\n",
};
const APPEND: Work = Work::Fio { name: "append", text: "rw=write\nbs=512\nsize=8m\nfallocate=none\nfsync=1\n" };
const SEQWRITE: Work =
    Work::Fio { name: "seqwrite", text: "rw=write\noverwrite=1\nbs=512\nsize=64m\nio_size=8m\nfsync=1\n" };
const RANDWRITE: Work = Work::Fio { name: "randwrite", text: "rw=randwrite\nbs=512\nsize=64m\nio_size=8m\nfsync=1\n" };

/// A row of StageFS on the open-channel SSD.
const fn open_row(id: &'static str, work: Work, rival: Rival, of: Of) -> Entry {
    open_rows(id, OpenChannel { rival, of, ..OpenChannel::plain(work) })
}

/// The same of a server's speed beside ext4's.
const fn server(id: &'static str, personality: Personality) -> Entry {
    let length = Length::Operations(1_000_000);
    let work = Work::Personality { personality, files: None, length, compressible_percent: 0 };
    open_rows(id, OpenChannel { under: Some(Condition::LittleMemory), ..OpenChannel::plain(work) })
}

/// The same of synced puts of SQLite beside ext4.
const fn synced_puts(id: &'static str, work: Work, of: Of) -> Entry {
    open_rows(id, OpenChannel { of, under: Some(Condition::ShortTicksAndFsync), ..OpenChannel::plain(work) })
}

/// The same of mobibench, which can be read in three ways.
const fn mobibench(id: &'static str, rival: Rival, of: Of) -> Entry {
    let beside = &[MOBIBENCH_ASYNC, MOBIBENCH_RESERVED];
    let under = Some(Condition::ShortTicks);
    open_rows(id, OpenChannel { rival, of, beside, under, ..OpenChannel::plain(MOBIBENCH) })
}

const fn open_rows(id: &'static str, what: OpenChannel) -> Entry {
    row(id, Some(Experiment::OpenChannel(what)), ByFigure, Short)
}

/// The entry of the row `id`.
pub(super) fn entry(id: &str) -> Option<&'static Entry> {
    ROWS.iter().find(|entry| entry.id == id)
}

/// The claims about TS-CLOCK, by id.
pub(super) fn claims() -> impl Iterator<Item = (&'static str, &'static Claim)> {
    ROWS.iter().filter_map(|entry| match &entry.experiment {
        Some(TsClock(claim)) => Some((entry.id, claim)),
        _ => None,
    })
}
