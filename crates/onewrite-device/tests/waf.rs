//! The write-amplification rows of the scoreboard that a page-level FTL decides alone.

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
