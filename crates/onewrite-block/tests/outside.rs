//! Events from outside: inboxes, bells, and devices that do not know when their requests end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::{Duration, Instant};

use onewrite_block::{
    Bell, Cause, Completion, Counters, Device, Executor, Geometry, Halt, HostProfile, InboxSender, JobCost, Lpn, Nanos,
    NextEvent, Request, Time, Token,
};

const WALL: Time = Time::Wall { civil_start: Nanos::ZERO };

fn executor(time: Time) -> Executor {
    Executor::new(time, HostProfile { cores: 1, ..HostProfile::ideal() })
}

#[expect(clippy::disallowed_methods, reason = "these tests are about other threads")]
fn beside(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(work);
}

#[expect(clippy::disallowed_methods, reason = "other threads come late")]
fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

#[expect(clippy::disallowed_methods, reason = "how long a run waits is what these tests judge")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_letter_wakes_a_run_that_has_nothing_else() {
    for time in [Time::Virtual, WALL] {
        let executor = executor(time);
        let (sender, mut inbox) = executor.runtime().inbox();
        beside(move || {
            pause(20);
            sender.send(7).unwrap();
        });
        assert_eq!(executor.block_on(async move { inbox.receive().await }), Ok(Some(7)), "{time:?}");
    }
}

#[test]
fn a_letter_wakes_a_run_that_waits_for_a_timer() {
    let executor = executor(WALL);
    let (sender, mut inbox) = executor.runtime().inbox();
    let runtime = executor.runtime();
    executor.runtime().spawn(async move { runtime.sleep(Nanos::from_secs(60)).await });
    beside(move || {
        pause(20);
        sender.send(()).unwrap();
    });
    let begin = now();
    assert_eq!(executor.block_on(async move { inbox.receive().await }), Ok(Some(())));
    assert!(begin.elapsed() < Duration::from_secs(30), "the timer did not hold it");
}

#[test]
fn a_letter_wakes_a_run_that_waits_for_a_job() {
    let executor = executor(WALL);
    let (sender, mut inbox) = executor.runtime().inbox();
    let (free, is_free): (Sender<()>, Receiver<()>) = channel();
    let runtime = executor.runtime();
    let job = runtime.start({
        let runtime = runtime.clone();
        async move { runtime.job(JobCost::Checksum { bytes: 1 << 30 }, move || is_free.recv().is_ok()).await }
    });
    beside(move || {
        pause(20);
        sender.send(()).unwrap();
    });
    let ended = executor.block_on(async move {
        let letter = inbox.receive().await;
        free.send(()).unwrap();
        (letter, job.await)
    });
    assert_eq!(ended, Ok((Some(()), true)), "the job ends only after the letter");
}

#[test]
fn a_timer_keeps_its_moment_while_an_inbox_is_open() {
    for time in [Time::Virtual, WALL] {
        let executor = executor(time);
        let (sender, mut inbox) = executor.runtime().inbox::<()>();
        let runtime = executor.runtime();
        executor.runtime().spawn(async move { while inbox.receive().await.is_some() {} });
        let moment = Nanos::from_millis(30);
        let woken = executor.block_on(async move {
            runtime.sleep(moment).await;
            runtime.now()
        });
        let late = woken.unwrap().saturating_sub(moment);
        assert!(late < if time == WALL { Nanos::from_secs(20) } else { Nanos(1) }, "{late} late");
        drop(sender);
    }
}

#[test]
fn letters_come_in_the_order_in_which_they_were_sent() {
    let executor = executor(WALL);
    let (sender, mut inbox) = executor.runtime().inbox();
    beside(move || (0..10_000).for_each(|letter| sender.clone().send(letter).unwrap()));
    let taken = executor.block_on(async move {
        let mut taken = Vec::new();
        while let Some(letter) = inbox.receive().await {
            taken.push(letter);
        }
        taken
    });
    assert_eq!(taken.unwrap(), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn an_inbox_ends_with_its_last_sender_and_gives_what_was_sent_before() {
    for time in [Time::Virtual, WALL] {
        let executor = executor(time);
        let (sender, mut inbox) = executor.runtime().inbox();
        let other = sender.clone();
        beside(move || {
            sender.send(1).unwrap();
            drop(sender);
            pause(20);
            drop(other);
        });
        let taken =
            executor.block_on(async move { [inbox.receive().await, inbox.receive().await, inbox.receive().await] });
        assert_eq!(taken, Ok([Some(1), None, None]));
    }
}

#[test]
fn a_letter_for_nobody_comes_back() {
    let executor = executor(WALL);
    let (sender, inbox) = executor.runtime().inbox();
    sender.send(1).unwrap();
    drop(inbox);
    assert_eq!(sender.send(2), Err(2));
}

#[test]
fn only_an_inbox_at_which_a_task_waits_is_no_deadlock() {
    let executor = executor(WALL);
    let (sender, mut inbox) = executor.runtime().inbox::<()>();
    assert_eq!(executor.block_on(std::future::pending::<()>()), Err(Halt::Deadlock), "nobody would take a letter");
    let waits = executor.runtime().start(async move { inbox.receive().await });
    executor.run_until_idle().unwrap();
    drop(sender);
    assert_eq!(executor.block_on(waits), Ok(None));
}

#[test]
fn a_receive_that_was_given_up_is_no_longer_waited_for() {
    for time in [Time::Virtual, WALL] {
        let executor = executor(time);
        let (sender, mut inbox) = executor.runtime().inbox::<()>();
        let (end, has_ended) = channel::<()>();
        // Without this, a run that waits for nobody would never end.
        beside(move || {
            has_ended.recv_timeout(Duration::from_secs(20)).ok();
            drop(sender);
        });
        let begin = now();
        let halt = executor.block_on(async move {
            let given_up = std::future::poll_fn(|context| {
                let mut receive = std::pin::pin!(inbox.receive());
                Poll::Ready(receive.as_mut().poll(context).is_pending())
            });
            assert!(given_up.await, "a letter was there");
            std::future::pending::<()>().await;
            drop(inbox);
        });
        assert_eq!(halt, Err(Halt::Deadlock), "{time:?}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{time:?}: the run waited for its senders");
        drop(end);
    }
}

#[test]
fn run_until_idle_takes_what_is_there_and_waits_for_nothing_more() {
    for time in [Time::Virtual, WALL] {
        let executor = executor(time);
        let (sender, mut inbox) = executor.runtime().inbox();
        let taken = Rc::new(RefCell::new(Vec::new()));
        let list = Rc::clone(&taken);
        executor.runtime().spawn(async move {
            while let Some(letter) = inbox.receive().await {
                list.borrow_mut().push(letter);
            }
        });
        for letter in 0..3 {
            sender.send(letter).unwrap();
            executor.run_until_idle().unwrap();
            assert_eq!(taken.borrow().len(), letter + 1);
        }
    }
}

#[test]
fn in_virtual_time_a_letter_arrives_at_the_present_moment() {
    let executor = executor(Time::Virtual);
    let (sender, mut inbox) = executor.runtime().inbox();
    let runtime = executor.runtime();
    let sends = runtime.start({
        let runtime = runtime.clone();
        async move {
            runtime.sleep(Nanos(10)).await;
            // As if another thread sent it now: before the event at 20, not after it.
            sender.send(()).unwrap();
            runtime.sleep(Nanos(10)).await;
        }
    });
    let arrived = executor.block_on(async move {
        inbox.receive().await;
        let arrived = runtime.now();
        sends.await;
        (arrived, runtime.now())
    });
    assert_eq!(arrived, Ok((Nanos(10), Nanos(20))));
}

/// Hands each request to a thread, which completes it at any time.
struct Elsewhere {
    geometry: Geometry,
    bell: Option<Bell>,
    ended: (Sender<Completion>, Receiver<Completion>),
    under_way: usize,
}

impl Device for Elsewhere {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, _: Request, _: Nanos) {
        self.under_way += 1;
        let (bell, ended) = (self.bell.clone().expect("in wall time"), self.ended.0.clone());
        beside(move || {
            pause(10 * u64::from(token.0));
            ended.send(Completion { token, outcome: Ok(Vec::new()) }).unwrap();
            bell.ring();
        });
    }

    fn attached(&mut self, bell: Option<Bell>) {
        self.bell = bell;
    }

    fn next_event(&self) -> NextEvent {
        if self.under_way > 0 { NextEvent::Unknown } else { NextEvent::Idle }
    }

    fn advance(&mut self, _: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        completed.extend(self.ended.1.try_iter());
        self.under_way -= completed.len() - seen;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn reset_counters(&mut self) {}
}

#[test]
fn a_completion_of_unknown_moment_wakes_the_run() {
    let executor = executor(WALL);
    let device = Elsewhere { geometry: Geometry::plain("elsewhere", 8), bell: None, ended: channel(), under_way: 0 };
    let port = executor.runtime().attach(Box::new(device));
    let runtime = executor.runtime();
    executor.runtime().spawn(async move { runtime.sleep(Nanos::from_secs(60)).await });
    let begin = now();
    let all = executor.block_on(async move {
        let requests: Vec<_> = (0..4).map(|page| port.submit(Request::read(Lpn(page), 1, Cause::Data))).collect();
        let mut good = 0;
        for request in requests {
            good += usize::from(request.await.is_ok());
        }
        good
    });
    assert_eq!(all, Ok(4));
    assert!(begin.elapsed() < Duration::from_secs(30), "the timer did not hold it");
}

#[test]
fn run_until_idle_waits_for_what_is_under_way() {
    let executor = executor(WALL);
    let device = Elsewhere { geometry: Geometry::plain("elsewhere", 8), bell: None, ended: channel(), under_way: 0 };
    let port = executor.runtime().attach(Box::new(device));
    let done = Rc::new(RefCell::new(false));
    let mark = Rc::clone(&done);
    executor
        .runtime()
        .spawn(async move { *mark.borrow_mut() = port.request(Request::flush(Cause::Data)).await.is_ok() });
    executor.run_until_idle().unwrap();
    assert!(*done.borrow());
}

#[test]
fn the_earlier_event_is_the_known_one() {
    let (early, late) = (NextEvent::At(Nanos(1)), NextEvent::At(Nanos(2)));
    for (one, other, earlier) in [
        (early, late, early),
        (NextEvent::Unknown, late, late),
        (NextEvent::Idle, late, late),
        (NextEvent::Idle, NextEvent::Unknown, NextEvent::Unknown),
        (NextEvent::Idle, NextEvent::Idle, NextEvent::Idle),
    ] {
        assert_eq!((one.or_earlier(other), other.or_earlier(one)), (earlier, earlier));
    }
}

#[test]
fn senders_go_to_other_threads() {
    fn goes<T: Send + Clone + 'static>() {}
    goes::<InboxSender<u8>>();
    goes::<Bell>();
}
