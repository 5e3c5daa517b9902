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

/// One core with this slice; nothing else costs time.
fn one_core(slice_ns: u64) -> Executor {
    Executor::new(Time::Virtual, HostProfile { slice_ns, ..HostProfile::ideal() })
}

/// Runs two tasks that compute twice for 10 ns each; returns when each ended each piece.
fn two_tasks_of_two_pieces(executor: &Executor) -> [[u64; 2]; 2] {
    let ends = [(); 2].map(|()| {
        let runtime = executor.runtime();
        executor.runtime().start(async move {
            runtime.cpu(Nanos(10)).await;
            let first = runtime.now().0;
            runtime.cpu(Nanos(10)).await;
            [first, runtime.now().0]
        })
    });
    let [one, two] = ends;
    executor.block_on(async move { [one.await, two.await] }).unwrap()
}

#[test]
fn a_task_keeps_its_core_until_it_waits() {
    assert_eq!(two_tasks_of_two_pieces(&one_core(1000)), [[10, 20], [30, 40]]);
}

#[test]
fn a_slice_ends_in_the_middle_of_the_work() {
    assert_eq!(two_tasks_of_two_pieces(&one_core(15)), [[10, 35], [25, 40]]);
}

#[test]
fn a_task_that_waits_gives_its_core_up() {
    let executor = one_core(1000);
    let (first, second) = (executor.runtime(), executor.runtime());
    let first = executor.runtime().start(async move {
        first.cpu(Nanos(10)).await;
        first.sleep(Nanos(1)).await;
        first.cpu(Nanos(10)).await;
        first.now().0
    });
    let second = executor.runtime().start(async move {
        second.cpu(Nanos(10)).await;
        second.now().0
    });
    assert_eq!(executor.block_on(async move { (first.await, second.await) }), Ok((30, 20)));
}

#[test]
fn only_a_task_that_waited_pays_for_a_switch() {
    let executor = Executor::new(Time::Virtual, HostProfile { switch_ns: 3, ..HostProfile::ideal() });
    let runtime = executor.runtime();
    let ends = executor.block_on(async move {
        runtime.cpu(Nanos(10)).await;
        runtime.cpu(Nanos(10)).await;
        let without = runtime.now().0;
        runtime.sleep(Nanos(7)).await;
        runtime.resume_first().await;
        runtime.resume_first().await;
        (without, runtime.now().0)
    });
    assert_eq!(ends, Ok((23, 33)));
}

#[test]
fn a_task_that_goes_first_waits_for_the_core_alone() {
    let executor = Executor::new(Time::Virtual, HostProfile { switch_ns: 3, ..HostProfile::ideal() });
    let ends = [false, false, true].map(|goes_first| {
        let runtime = executor.runtime();
        executor.runtime().start(async move {
            match goes_first {
                true => runtime.resume_first().await,
                false => runtime.cpu(Nanos(10)).await,
            }
            runtime.now().0
        })
    });
    let [one, two, first] = ends;
    assert_eq!(executor.block_on(async move { (one.await, two.await, first.await) }), Ok((13, 29, 16)));
}

/// When a hundred pieces of work of 10 ns are done.
fn hundred_delayed(seed: u64) -> u64 {
    let host = HostProfile { delays_ns: [5, 10, 100, 1_000, 10_000], ..HostProfile::ideal() };
    let executor = Executor::seeded(Time::Virtual, host, seed);
    let runtime = executor.runtime();
    let end = executor.block_on(async move {
        for _ in 0..100 {
            runtime.cpu(Nanos(10)).await;
        }
        runtime.now().0
    });
    end.unwrap()
}

#[test]
fn delays_depend_on_the_seed_alone() {
    assert_eq!(hundred_delayed(1), hundred_delayed(1));
    assert_ne!(hundred_delayed(1), hundred_delayed(2));
    assert!((1..9).map(hundred_delayed).all(|end| (1_200..60_000).contains(&end)), "half of them 0 to 5 ns, few more");
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
                async move { runtime.job(JobCost::Checksum { bytes: 1 << 30 }, || (0..1000_u64).sum::<u64>()).await }
            });
            one.await + runtime.job(JobCost::Checksum { bytes: 1 }, || 1).await
        });
        assert_eq!(sum, Ok(499_501));
    }
}

#[test]
fn short_work_stays_on_its_thread_and_long_work_leaves_it() {
    let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::default());
    let runtime = executor.runtime();
    let here = std::thread::current().id();
    let threads = executor.block_on(async move {
        let on = |cost| runtime.job(cost, || std::thread::current().id());
        [
            on(JobCost::Checksum { bytes: 9 * 4096 }).await,
            on(JobCost::Compress { bytes: 1 << 20, packed_bytes: 0 }).await,
        ]
    });
    let [short, long] = threads.unwrap();
    assert!(short == here && long != here);
}
