//! Tests of the runtime: order, clock, timers, jobs and what ends a run.

use super::*;

#[test]
fn tasks_interleave_by_time_and_order_of_arrival() {
    let executor = Executor::ideal();
    let log = Rc::new(RefCell::new(Vec::new()));
    for (name, pace) in [("a", 3), ("b", 2)] {
        let (log, runtime) = (Rc::clone(&log), executor.runtime());
        executor.runtime().spawn(async move {
            for _ in 0..3 {
                runtime.sleep(Nanos(pace)).await;
                log.borrow_mut().push((name, runtime.now().0));
            }
        });
    }
    executor.run_until_idle().unwrap();
    assert_eq!(*log.borrow(), [("b", 2), ("a", 3), ("b", 4), ("a", 6), ("b", 6), ("a", 9)]);
}

#[test]
fn whoever_is_alone_on_a_device_waits_for_others_and_they_for_him() {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(crate::RamDisk::volatile(16)));
    let log = Rc::new(RefCell::new(Vec::new()));
    let write = |at: u64| crate::Request::write(crate::Lpn(at), vec![crate::Page::ZEROS], crate::Cause::Data);
    let before = port.submit(write(0));
    for name in ["first", "second"] {
        let (port, log) = (port.clone(), Rc::clone(&log));
        executor.runtime().spawn(async move {
            let alone = port.alone().await;
            log.borrow_mut().push((name, port.device().counters().host_write_bytes()));
            port.runtime().sleep(Nanos(10)).await;
            alone.request(crate::Request::read(crate::Lpn(0), 1, crate::Cause::Data)).await.unwrap();
            log.borrow_mut().push((name, port.device().counters().host_write_bytes()));
        });
    }
    let (late, runtime) = (port.clone(), executor.runtime());
    let other = executor.runtime().start(async move {
        runtime.sleep(Nanos(5)).await;
        late.request(write(1)).await.unwrap();
    });
    executor.block_on(async move { (before.await.unwrap(), other.await) }).unwrap();
    executor.run_until_idle().unwrap();
    let seen: Vec<_> = log.borrow().iter().map(|(name, bytes)| (*name, bytes / 4096)).collect();
    assert_eq!(seen, [("first", 1), ("first", 1), ("second", 2), ("second", 2)]);
}

#[test]
fn cores_are_shared_in_order_of_arrival() {
    let executor = Executor::new(Time::Virtual, HostProfile { cores: 2, ..HostProfile::ideal() });
    let ends: Vec<_> = (0..3)
        .map(|_| {
            let runtime = executor.runtime();
            executor.runtime().start(async move {
                runtime.cpu(Nanos(10)).await;
                runtime.now().0
            })
        })
        .collect();
    let ends = executor
        .block_on(async move {
            let mut all = Vec::new();
            for end in ends {
                all.push(end.await);
            }
            all
        })
        .unwrap();
    assert_eq!(ends, [10, 10, 20]);
}

#[test]
fn waiting_for_nothing_is_a_deadlock() {
    let executor = Executor::ideal();
    assert_eq!(executor.block_on(std::future::pending::<()>()), Err(Halt::Deadlock));
}

#[test]
fn a_job_gives_the_same_in_virtual_and_in_wall_time() {
    for time in [Time::Virtual, Time::Wall { civil_start: Nanos::ZERO }] {
        let executor = Executor::new(time, HostProfile::default());
        let runtime = executor.runtime();
        let sum = executor.block_on(async move {
            let one = runtime.start({
                let runtime = runtime.clone();
                async move { runtime.job(JobCost::Checksum { bytes: 1000 }, || (0..1000_u64).sum::<u64>()).await }
            });
            one.await + runtime.job(JobCost::Checksum { bytes: 1 }, || 1).await
        });
        assert_eq!(sum, Ok(499_501));
    }
}
