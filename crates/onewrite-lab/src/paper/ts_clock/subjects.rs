//! Subjects: the devices of the figures, and their uncertain values.

use onewrite_block::{GIB, MIB};
use onewrite_device::{Layer, Profile};

/// Cache sizes on cards and on SSDs, in MiB.
pub(super) const CARD_SIZES: [u64; 3] = [4, 16, 64];
const SSD_SIZES: [u64; 3] = [32, 128, 512];
pub(super) const CARD_BLOCK: u64 = 4 * MIB;
const SSD_BLOCK: u64 = 24 * MIB;
pub(super) const PAGE: u64 = 4096;
/// A mapping cache that holds the whole mapping table, which makes a page-level layer.
const WHOLE_MAP: Layer = Layer::Dftl { cache_bytes: Some(GIB) };
const FAST: Layer = Layer::Fast { random_blocks: None };
const BAST: Layer = Layer::Bast { log_blocks: None };

/// A device of the figures.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) figure: &'static str,
    pub(super) profile: Profile,
    pub(super) layer: Layer,
    pub(super) block_bytes: u64,
    pub(super) sizes: [u64; 3],
    pub(super) is_aged: bool,
}

impl Subject {
    fn card(figure: &'static str, profile: Profile, layer: Layer) -> Subject {
        Subject { figure, profile, layer, block_bytes: CARD_BLOCK, sizes: CARD_SIZES, is_aged: figure == "2-8" }
    }

    fn ssd(figure: &'static str, profile: Profile) -> Subject {
        let layer = WHOLE_MAP;
        Subject { figure, profile, layer, block_bytes: SSD_BLOCK, sizes: SSD_SIZES, is_aged: figure == "2-9" }
    }

    /// Name of the layer.
    pub(super) fn ftl(&self) -> &'static str {
        match self.layer {
            Layer::Fast { .. } => "fast",
            Layer::Bast { .. } => "bast",
            Layer::Dftl { .. } | Layer::Open { .. } => "page",
        }
    }
}

/// The devices of the figures: cards twice, the SSD, and the two of the lifetime study.
pub(super) fn subjects() -> Vec<Subject> {
    let named = |name| Profile::named(name).expect("a built-in profile");
    vec![
        Subject::card("2-4", named("microsd-patriot"), FAST),
        Subject::card("2-4", named("microsd-adata"), FAST),
        Subject::card("2-4", named("microsd-patriot"), BAST),
        Subject::card("2-4", named("microsd-adata"), BAST),
        Subject::ssd("2-6", named("ssd-tlc-120g")),
        Subject::card("2-8", over_dies(1), FAST),
        Subject::ssd("2-9", over_dies(6)),
    ]
}

/// `ftl-16g` with this number of dies, over which its blocks of 4 MiB are spread.
fn over_dies(dies: u32) -> Profile {
    let mut profile = Profile::named("ftl-16g").expect("a built-in profile");
    if let Some(flash) = &mut profile.flash {
        (flash.channels, flash.dies, flash.planes) = (dies, dies, 1);
    }
    profile
}

/// Name of a changed value, and the change of the subject.
type Variant = (&'static str, fn(&mut Subject));

/// Sets the log blocks of the profile; a device with fewer spare blocks uses fewer.
fn log_blocks(subject: &mut Subject, count: u32) {
    if let Some(flash) = &mut subject.profile.flash {
        flash.log_blocks = Some(count);
    }
}

fn program(subject: &mut Subject, factor: f64) {
    if let Some(flash) = &mut subject.profile.flash {
        flash.program_us.iter_mut().for_each(|program| *program *= factor);
    }
}

fn spare(subject: &mut Subject, percent: f64) {
    if let Some(flash) = &mut subject.profile.flash {
        flash.spare_percent = percent;
    }
}

fn buffer(subject: &mut Subject, bytes: u64) {
    if let Some(buffer) = &mut subject.profile.buffer {
        (buffer.eviction_begins_bytes, buffer.eviction_certain_bytes) = (bytes, 2 * bytes);
    }
}

const OF_FAST: &[Variant] = &[
    ("2 log blocks", |subject| log_blocks(subject, 2)),
    ("40 log blocks", |subject| log_blocks(subject, 40)),
    ("600 log blocks", |subject| log_blocks(subject, 600)),
    ("commands of 100 µs", |subject| subject.profile.host.command_us = 100.0),
    ("programs of half the time", |subject| program(subject, 0.5)),
    ("programs of twice the time", |subject| program(subject, 2.0)),
];
const OF_BAST: &[Variant] = &[
    ("2 log blocks", |subject| log_blocks(subject, 2)),
    ("10 log blocks", |subject| log_blocks(subject, 10)),
    ("20 log blocks", |subject| log_blocks(subject, 20)),
    ("commands of 100 µs", |subject| subject.profile.host.command_us = 100.0),
];
const OF_SSD: &[Variant] = &[
    ("programs of half the time", |subject| program(subject, 0.5)),
    ("programs of twice the time", |subject| program(subject, 2.0)),
    ("7% spare", |subject| spare(subject, 7.0)),
    ("a buffer of 32 MiB", |subject| buffer(subject, 32 * MIB)),
    ("aged with 16 GiB", |subject| subject.is_aged = true),
    ("commands of 100 µs", |subject| subject.profile.host.command_us = 100.0),
    ("FAST instead of a page map", |subject| subject.layer = FAST),
    ("BAST instead of a page map", |subject| subject.layer = BAST),
];
const OF_LIFETIME_FAST: &[Variant] = &[
    ("5 log blocks", |subject| log_blocks(subject, 5)),
    ("100 log blocks", |subject| log_blocks(subject, 100)),
    ("filled, not aged", |subject| subject.is_aged = false),
    ("runs counted in 512 KiB", |subject| subject.block_bytes = 512 << 10),
    ("runs counted in 128 KiB", |subject| subject.block_bytes = 128 << 10),
];
const OF_LIFETIME_PAGE: &[Variant] = &[("filled, not aged", |subject| subject.is_aged = false)];

/// The subject with each uncertain value at the ends of its range. None for the second card, whose values are those of
/// the first.
pub(super) fn variants(subject: &Subject) -> Vec<(&'static str, Subject)> {
    let known = match (subject.figure, subject.ftl()) {
        _ if subject.profile.name == "microsd-adata" => &[],
        ("2-4", "fast") => OF_FAST,
        ("2-4", _) => OF_BAST,
        ("2-6", _) => OF_SSD,
        ("2-8", _) => OF_LIFETIME_FAST,
        _ => OF_LIFETIME_PAGE,
    };
    let changed = |(what, change): &Variant| {
        let mut subject = subject.clone();
        change(&mut subject);
        (*what, subject)
    };
    known.iter().map(changed).collect()
}
