//! Threads that send letters carry the run on while its own thread waits.
#![expect(clippy::disallowed_methods, reason = "several threads carry one run on")]
#![expect(unsafe_code, reason = "so says the contract of `block_on_with_senders`")]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use onewrite_block::{Executor, Halt, HostProfile, InboxSender, Nanos, Time};

/// What a letter asks for.
enum Wish {
    /// Tell which thread reads this.
    Where(Sender<ThreadId>),
    /// Count one, sleep so long, count one more, then tell the count.
    Count(Nanos, Sender<u64>),
    Panic,
    Stop,
}

/// Serves wishes on a thread of its own; `with` gets the sender there.
fn served<R>(with: impl FnOnce(InboxSender<Wish>, ThreadId) -> R) -> (R, thread::Result<Result<u64, Halt>>) {
    let (tell, told) = channel();
    let home = thread::spawn(move || {
        let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::default());
        let runtime = executor.runtime();
        let (sender, mut inbox) = runtime.inbox();
        tell.send(sender).unwrap();
        let served = async move {
            let count = Rc::new(Cell::new(0));
            while let Some(wish) = inbox.receive().await {
                match wish {
                    Wish::Where(tell) => tell.send(thread::current().id()).unwrap(),
                    Wish::Count(pause, tell) => {
                        let (count, sleeper) = (Rc::clone(&count), runtime.clone());
                        runtime.spawn(async move {
                            count.set(count.get() + 1);
                            sleeper.sleep(pause).await;
                            count.set(count.get() + 1);
                            // Who asked may not wait for the answer.
                            let _ = tell.send(count.get());
                        });
                    }
                    Wish::Panic => panic!("as wished"),
                    Wish::Stop => break,
                }
            }
            count.get()
        };
        // SAFETY: no task here has a thread-local variable.
        unsafe { executor.block_on_with_senders(served) }
    });
    let result = with(told.recv().unwrap(), home.thread().id());
    (result, home.join())
}

#[test]
fn whoever_sends_carries_on_while_home_waits() {
    let (seen, ended) = served(|sender, home| {
        let (tell, told) = channel();
        let ask = || {
            assert!(sender.send_and_run(Wish::Where(tell.clone())).is_ok());
            told.recv().unwrap()
        };
        // Home may still be on its way to the first wait.
        let seen = (0..1000).map(|_| ask()).find(|reader| *reader == thread::current().id());
        assert!(sender.send(Wish::Where(tell.clone())).is_ok());
        assert_eq!(told.recv().unwrap(), home, "a letter that is only sent is read at home");
        assert!(sender.send_and_run(Wish::Stop).is_ok());
        seen
    });
    assert_eq!(seen, Some(thread::current().id()));
    assert_eq!(ended.unwrap(), Ok(0));
}

#[test]
fn a_timer_that_a_sender_sets_rings_at_home() {
    let ((), ended) = served(|sender, _| {
        let (tell, told) = channel();
        thread::sleep(Duration::from_millis(20));
        // Home waits for ever now, or until the later of these.
        for pause in [300_000_000, 5_000_000, 1_000] {
            assert!(sender.send_and_run(Wish::Count(Nanos(pause), tell.clone())).is_ok());
        }
        assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(4));
        assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(5));
        assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(6));
        assert!(sender.send(Wish::Stop).is_ok());
    });
    assert_eq!(ended.unwrap(), Ok(6));
}

#[test]
fn nothing_is_lost_between_many_threads() {
    const THREADS: u64 = 4;
    const LETTERS: u64 = 5_000;
    let ((), ended) = served(|sender, _| {
        let senders: Vec<_> = (0..THREADS)
            .map(|number| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let (tell, told) = channel();
                    for letter in 0..LETTERS {
                        let pause = Nanos(if letter % 50 == number { 20_000 } else { 0 });
                        assert!(sender.send_and_run(Wish::Count(pause, tell.clone())).is_ok());
                        if letter % 3 == 0 {
                            told.recv_timeout(Duration::from_secs(20)).expect("an answer");
                        }
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let (tell, told) = channel();
        let is_all = |asked: u64| {
            assert!(sender.send_and_run(Wish::Count(Nanos::ZERO, tell.clone())).is_ok());
            told.recv_timeout(Duration::from_secs(20)) == Ok(2 * (THREADS * LETTERS + asked))
        };
        // Some still sleep.
        let asked = (1..10_000).find(|asked| {
            is_all(*asked) || {
                thread::sleep(Duration::from_micros(100));
                false
            }
        });
        assert!(asked.is_some(), "some letters are lost, or were read twice");
        assert!(sender.send(Wish::Stop).is_ok());
    });
    assert!(ended.unwrap().is_ok());
}

#[test]
fn a_panic_on_a_sender_ends_home_too() {
    let (is_there, ended) = served(|sender, _| {
        thread::sleep(Duration::from_millis(20));
        let guest = sender.clone();
        let _ = thread::spawn(move || drop(guest.send_and_run(Wish::Panic))).join();
        let (tell, told) = channel();
        let _ = sender.send_and_run(Wish::Where(tell));
        drop(sender);
        told.recv_timeout(Duration::from_secs(5)).is_ok()
    });
    assert!(!is_there, "nobody carries on what panicked");
    assert!(ended.is_err());
}
