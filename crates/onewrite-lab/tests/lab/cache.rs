//! Cache studies: runs traces through policies, files and devices.

use std::path::Path;

use onewrite_block::Choices;
use onewrite_cache::PolicyKind;
use onewrite_device::{Layer, Profile};
use onewrite_lab::cache::{CacheFigures, CacheStudy, DevicePlan, HELD_MAX};
use onewrite_lab::size::SizeOrShare;
use onewrite_lab::trace::{Trace, TraceOptions, summarise};

use crate::trace::Scratch;

const PAGE: u64 = 4096;

/// A trace whose requests go half to an eighth of the pages and half to all pages; some are in runs.
fn trace(requests: u64, pages: u64) -> Scratch {
    let mut choices = Choices::new(3);
    let mut text = String::new();
    while (text.len() as u64) < requests * 7 {
        let range = pages / if choices.chance(1, 2) { 8 } else { 1 };
        let (start, run) = (choices.below(range), 1 + choices.below(12));
        let letter = if choices.chance(1, 2) { 'w' } else { 'r' };
        (start..start + run).for_each(|page| text.push_str(&format!("{letter},{page}\n")));
    }
    Scratch::new("trace.csv", text.as_bytes())
}

fn study(trace: &Path, policies: &[PolicyKind]) -> CacheStudy {
    CacheStudy {
        trace: trace.to_owned(),
        options: TraceOptions::default(),
        policies: policies.to_vec(),
        sizes: vec![SizeOrShare::Bytes(64 * PAGE), SizeOrShare::Bytes(512 * PAGE)],
        page_bytes: PAGE,
        flash_block_bytes: 64 * PAGE,
        after: None,
        device: None,
        threads: 1,
        held_max: HELD_MAX,
        is_timed: false,
    }
}

fn run(study: &CacheStudy) -> CacheFigures {
    study.run(&|_| Ok(())).unwrap()
}

#[test]
fn results_depend_neither_on_cores_nor_on_whether_the_trace_is_held() {
    let trace = trace(20_000, 4_000);
    let one = run(&study(&trace.0, &PolicyKind::ALL));
    assert_eq!(one.cells.len(), 2 * PolicyKind::ALL.len());
    for (threads, held_max) in [(3, HELD_MAX), (2, 100)] {
        assert_eq!(run(&CacheStudy { threads, held_max, ..study(&trace.0, &PolicyKind::ALL) }), one);
    }
    for cell in &one.cells {
        assert_eq!(cell.hits + cell.misses, cell.requests, "{}", cell.policy);
        assert!(cell.evicted_clean + cell.evicted_dirty <= cell.misses, "{}", cell.policy);
        assert_eq!(cell.utilization.pages.iter().sum::<u64>(), cell.evicted_dirty, "{}", cell.policy);
    }
}

#[test]
fn the_after_cache_trace_holds_the_read_misses_and_the_dirty_evictions() {
    let trace = trace(5_000, 2_000);
    let after = Some(trace.beside("after.csv.zst"));
    let figures = run(&CacheStudy { after, ..study(&trace.0, &[PolicyKind::Lru, PolicyKind::TsClock]) });
    for cell in &figures.cells {
        let path = trace.beside(&format!("after-{}-{}.csv.zst", cell.policy, cell.size_bytes));
        let mut open = Trace::open(&path, &TraceOptions::default()).unwrap();
        let found = summarise(&mut open, PAGE, |_| ()).unwrap();
        assert_eq!((found.reads, found.writes), (cell.after_reads, cell.after_writes));
    }
    let after = trace.beside("one.csv");
    let sizes = vec![SizeOrShare::Bytes(64 * PAGE)];
    run(&CacheStudy { after: Some(after.clone()), sizes, ..study(&trace.0, &[PolicyKind::Fab]) });
    assert!(after.exists(), "a single cell writes the very file");
}

#[test]
fn a_device_tells_time_and_wear_of_what_is_left() {
    let trace = trace(10_000, 20_000);
    let device = |name: &str| {
        let profile = Profile::load(name).unwrap();
        Some(DevicePlan { profile, layer: None, size_bytes: Some(128 << 20), is_blank: false, age_bytes: 0 })
    };
    let plain = study(&trace.0, &[PolicyKind::Lru, PolicyKind::TsClock]);
    let figures = run(&CacheStudy { device: device("sata-850pro"), ..plain.clone() });
    for cell in &figures.cells {
        let found = cell.device.as_ref().unwrap();
        assert_eq!(found.host_write_bytes, cell.after_writes * PAGE);
        assert_eq!(found.host_read_bytes, cell.after_reads * PAGE);
        assert!(found.elapsed_seconds > 0.0 && found.waf.unwrap() >= 1.0, "{found:?}");
        assert!(found.flash_program_bytes >= found.moved_pages * PAGE && found.queue_depth == 32, "{found:?}");
    }
    let (small, large) = (figures.cells[0].device.as_ref().unwrap(), figures.cells[2].device.as_ref().unwrap());
    assert!(small.elapsed_seconds > large.elapsed_seconds, "a larger cache leaves less to do");
    assert_eq!(run(&CacheStudy { device: device("sata-850pro"), threads: 4, ..plain.clone() }), figures);
    let disk = run(&CacheStudy { device: device("hdd-barracuda"), ..plain });
    assert_eq!(disk.cells[0].device.as_ref().unwrap().waf, None);
}

#[test]
fn what_cannot_be_run_is_refused_with_the_cure() {
    let trace = trace(100, 200);
    let base = study(&trace.0, &[PolicyKind::Lru]);
    let far = Scratch::new("far.csv", b"w,99999999\n");
    let plan = |size_bytes| {
        let profile = Profile::load("ideal").unwrap();
        Some(DevicePlan { profile, layer: None, size_bytes, is_blank: true, age_bytes: 0 })
    };
    for (study, word) in [
        (CacheStudy { flash_block_bytes: 5000, ..base.clone() }, "whole pages"),
        (CacheStudy { page_bytes: 0, ..base.clone() }, "whole pages"),
        (CacheStudy { sizes: vec![SizeOrShare::Bytes(100)], ..base.clone() }, "holds no page"),
        (CacheStudy { sizes: vec![SizeOrShare::Bytes(1 << 50)], ..base.clone() }, "from 1 to"),
        (CacheStudy { policies: vec![], ..base.clone() }, "at least one"),
        (CacheStudy { page_bytes: 512, device: plan(None), ..base.clone() }, "--page-size"),
        (CacheStudy { trace: far.0.clone(), device: plan(Some(1 << 30)), ..base.clone() }, "--device-size"),
    ] {
        let error = study.run(&|_| Ok(())).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_layer_tells_merges_and_an_estimate_of_time() {
    let trace = trace(10_000, 20_000);
    let plain = study(&trace.0, &[PolicyKind::Lru, PolicyKind::Fab]);
    let on = |layer, age_bytes, threads| {
        let profile = Profile::load("ftl-16g").unwrap();
        let plan = DevicePlan { profile, layer, size_bytes: Some(128 << 20), is_blank: false, age_bytes };
        run(&CacheStudy { device: Some(plan), threads, ..plain.clone() })
    };
    let fast = Some(Layer::Fast { random_blocks: None });
    let figures = on(fast, 0, 1);
    for cell in &figures.cells {
        let found = cell.device.as_ref().unwrap();
        let layer = found.layer.as_ref().unwrap();
        assert_eq!(found.host_write_bytes, cell.after_writes * PAGE);
        assert_eq!(found.host_read_bytes, cell.after_reads * PAGE);
        assert!(found.elapsed_seconds > 0.0 && found.waf.unwrap() > 1.0 && layer.full_merges > 0, "{found:?}");
        assert_eq!(found.flash_program_bytes, found.host_write_bytes + found.moved_pages * PAGE);
    }
    assert_eq!(on(fast, 0, 3), figures, "any number of cores gives the same");
    for layer in [None, fast, Some(Layer::Dftl { cache_bytes: Some(1024) })] {
        let (new, aged) = (on(layer, 0, 2), on(layer, 64 << 20, 2));
        let erases =
            |figures: &CacheFigures| figures.cells.iter().map(|cell| cell.device.as_ref().unwrap().erases).sum();
        let (new_erases, aged_erases): (u64, u64) = (erases(&new), erases(&aged));
        assert!(
            aged_erases > new_erases,
            "{layer:?}: {aged_erases} erases when aged, {new_erases} when filled in order"
        );
        assert_eq!(new.cells[0].device.as_ref().unwrap().host_write_bytes, new.cells[0].after_writes * PAGE);
    }
}

#[test]
fn the_figures_of_ts_clock_are_drawn_from_scaled_traces() {
    let study =
        onewrite_lab::paper::ts_clock::TsClockStudy { seed: 1, scale: 0.031, load_file: None, sensitivity: false };
    let figures = study.run(&|_| ()).unwrap();
    let lifetime = figures.rows.iter().filter(|row| ["ts-erase-fast", "ts-erase-page"].contains(&row.id));
    assert!(lifetime.clone().all(|row| row.measured.is_some()) && lifetime.count() == 2, "{:?}", figures.rows);
    let is_full = |grid: &onewrite_lab::paper::ts_clock::Grid| grid.cells.len() == 27;
    assert!(figures.grids.len() >= 6 && figures.grids.iter().all(is_full));
    let page = figures.html();
    assert!(page.matches("<polyline").count() >= 8 * 2 * 6 && figures.pictures.len() == 6);
    assert!(figures.markdown().contains("| `ts-clock` |"));
}

#[test]
fn a_piece_that_goes_over_what_may_be_held_is_not_lost() {
    // Records of three pages: the piece of at least 65,536 requests that fills the bound ends two requests behind it.
    let records: String = (0..30_000).map(|at| format!("w,{},{}\n", at * 7919 % 4_000 * PAGE, 3 * PAGE)).collect();
    let trace = Scratch::new("trace.csv", format!("op,offset,length\n{records}").as_bytes());
    let policies = [PolicyKind::Lru, PolicyKind::Clock];
    let whole = run(&study(&trace.0, &policies));
    assert_eq!(whole.cells[0].requests, 90_000);
    for held_max in [1 << 16, (1 << 16) + 1, 80_000] {
        assert_eq!(run(&CacheStudy { held_max, ..study(&trace.0, &policies) }), whole, "{held_max} may be held");
    }
}
