//! The operations of dies: the events add up, and they show garbage collection.

use onewrite_block::{Device, MIB};
use onewrite_device::micro::{Bench, Load};
use onewrite_device::{OperationKind, Profile};

#[test]
fn the_operations_show_collection_and_no_die_does_two_things_at_once() {
    let mut ssd = Profile::load("sata-850pro").unwrap().ssd(Some(16 * MIB)).unwrap();
    ssd.record_operations();
    let pages = ssd.geometry().pages;
    let mut bench = Bench::new(Box::new(ssd), 1);
    bench.fill(pages);
    let load = Load { is_random: true, is_write: true, request_bytes: 4096, depth: 8, flush_every: 0 };
    bench.run(load, 8000, pages);
    let mut operations = bench.device_mut().take_operations();
    for kind in [OperationKind::HostProgram, OperationKind::MoveRead, OperationKind::MoveProgram, OperationKind::Erase]
    {
        assert!(operations.iter().any(|operation| operation.kind == kind), "{} happened", kind.name());
    }
    let programmed: u64 =
        operations.iter().filter(|one| one.kind.name().ends_with("program")).map(|one| u64::from(one.pages)).sum();
    assert!(programmed * 4096 >= bench.device().counters().flash_program_bytes);
    operations.sort_by_key(|operation| (operation.die, operation.start, operation.end));
    for pair in operations.windows(2).filter(|pair| pair[0].die == pair[1].die) {
        assert!(pair[0].end <= pair[1].start, "{pair:?}");
    }
    let latencies = bench.device().latencies();
    let write = latencies.iter().find(|one| one.operation == "write").unwrap();
    assert_eq!(write.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), write.latency.count);
    assert!(write.latency.count >= 8000 && write.latency.max > 2 * write.latency.p50, "{:?}", write.latency);
}
