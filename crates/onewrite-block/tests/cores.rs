//! Work that is given up: the core that it occupied, or its place in the line, goes to the next.

use onewrite_block::sync::either;
use onewrite_block::{Executor, HostProfile, Nanos, Time};

#[test]
fn work_that_is_dropped_frees_its_core_and_its_place() {
    let executor = Executor::new(Time::Virtual, HostProfile { cores: 1, ..HostProfile::ideal() });
    let (first, second, third) = (executor.runtime(), executor.runtime(), executor.runtime());
    executor.runtime().spawn(async move { either(first.cpu(Nanos(100)), first.sleep(Nanos(10))).await });
    executor.runtime().spawn(async move { either(second.cpu(Nanos(100)), second.sleep(Nanos(5))).await });
    let third = executor.runtime().start(async move {
        third.cpu(Nanos(1)).await;
        third.now().0
    });
    assert_eq!(executor.block_on(third), Ok(11));
}
