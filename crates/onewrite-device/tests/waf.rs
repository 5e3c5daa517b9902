//! The write-amplification rows of the scoreboard that only need a page-level FTL.

use onewrite_block::GIB;
use onewrite_device::waf;

fn assert_near(measured: f64, paper: f64, within: f64) {
    assert!((measured / paper - 1.0).abs() <= within, "measured {measured}, paper {paper} within {within}");
}

#[test]
fn whole_blocks_amplify_nothing() {
    let found = waf::run(100, 16 * GIB, 1);
    assert_eq!(found.waf, 1.0);
    assert_eq!(found.host_pages, 4 * (4 << 20));
}

#[test]
fn a_quarter_of_each_block_amplifies_as_published() {
    assert_near(waf::run(25, 16 * GIB, 1).waf, 3.5, 0.05);
    assert_near(waf::run(25, GIB, 1).waf, 1.02, 0.03);
}

#[test]
fn fast_amplifies_as_published_with_all_spare_blocks_as_log() {
    assert_eq!(waf::run_fast(100, 16 * GIB, 1, None).waf, 1.0);
    assert_near(waf::run_fast(25, 16 * GIB, 1, None).waf, 4.9, 0.15);
    assert_near(waf::run_fast(25, GIB, 1, None).waf, 2.3, 0.15);
}

#[test]
fn fewer_log_blocks_amplify_more() {
    let found = [Some(400), Some(200), Some(50)].map(|blocks| waf::run_fast(25, GIB, 1, blocks).waf);
    assert!(found.is_sorted() && found[0] > 2.1, "{found:?}");
}

#[test]
fn dftl_with_the_whole_map_cached_amplifies_as_the_page_level_layer_and_more_with_less() {
    const WHOLE_MAP: u64 = (16 * GIB / 4096) * 8;
    let page = waf::run(25, 16 * GIB, 1).waf;
    assert_near(waf::run_dftl(25, 16 * GIB, 1, WHOLE_MAP).waf, page, 0.02);
    assert!(waf::run_dftl(25, 16 * GIB, 1, WHOLE_MAP / 64).waf > 1.05 * page);
}
