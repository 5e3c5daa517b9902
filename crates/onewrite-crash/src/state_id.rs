//! State id: the address of a state in a run, short enough for a command line.
//!
//! `57:0,2,5` is a power cut after event 57 of the recording; the unflushed units 0, 2 and 5 survive. `57:0-3` is short
//! for `57:0,1,2,3`; `57:0~0f` tears unit 0. `57:0>12:1` is a cut at event 12 of the recovery of state `57:0`.
//! `cut:981:4` is a cut at internal point 981 of an emulated device, with random outcome 4; `cut:981:4>12:1` is a cut
//! in the file system's recovery from it. `fault:7`: request 7 of the run fails; `fault:7+`:
//! all later requests fail too; `fault:7w`: from request 7 on the device accepts no more writes; `fault:7>57:0`: after
//! that failure, a cut behind event 57 of those that did not fail; `room:12`: twelve blocks are free when the run
//! begins; `mounted`: no cut, the file system as it reads when all operations have ended.

use std::fmt;
use std::str::FromStr;

use crate::error::CrashError;
use crate::states::Choice;

/// A power cut at the door of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) event: usize,
    pub(crate) choice: Choice,
}

/// A power cut at an internal point of an emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceCut {
    pub(crate) point: u64,
    pub(crate) chance: u64,
}

/// The address of a state; see the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateId {
    /// A cut in the run, and cuts in the recoveries that follow.
    Door(Vec<Cut>),
    /// A cut at an internal point of a device, and cuts in the recoveries that follow.
    Device { cut: DeviceCut, then: Vec<Cut> },
    /// A failure, without a cut or with one behind it.
    Fault { fault: FaultId, then: Vec<Cut> },
    /// No cut: the mounted file system when all operations have ended.
    Mounted,
}

const MOUNTED: &str = "mounted";

/// The failure in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultId {
    /// One request.
    Request(u64),
    /// This request and all later ones.
    From(u64),
    /// This request and all later writes, because the device is full.
    FullFrom(u64),
    /// Only allocation: this many blocks were free.
    Room(u64),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.event)?;
        let kept = &self.choice.kept;
        let runs = kept.chunk_by(|one, next| one + 1 == *next).map(|run| match (run.first(), run.last()) {
            (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
            _ => run[0].to_string(),
        });
        write!(f, "{}", runs.collect::<Vec<_>>().join(","))?;
        match self.choice.torn {
            Some((unit, sectors)) => write!(f, "~{unit}/{sectors:02x}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultId::Request(request) => write!(f, "fault:{request}"),
            FaultId::From(request) => write!(f, "fault:{request}+"),
            FaultId::FullFrom(request) => write!(f, "fault:{request}w"),
            FaultId::Room(blocks) => write!(f, "room:{blocks}"),
        }
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateId::Fault { fault, then } => {
                write!(f, "{fault}")?;
                then.iter().try_for_each(|cut| write!(f, ">{cut}"))
            }
            StateId::Device { cut: DeviceCut { point, chance }, then } => {
                write!(f, "cut:{point}:{chance}")?;
                then.iter().try_for_each(|cut| write!(f, ">{cut}"))
            }
            StateId::Mounted => f.write_str(MOUNTED),
            StateId::Door(cuts) => {
                write!(f, "{}", cuts.iter().map(Cut::to_string).collect::<Vec<_>>().join(">"))
            }
        }
    }
}

/// More units than any run has unflushed.
const UNITS_MAX: usize = 1 << 20;

/// Units in ascending order.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let mut kept = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        let is_ascending = first <= last && kept.last().is_none_or(|before| *before < first);
        if !is_ascending || last >= UNITS_MAX {
            return None;
        }
        kept.extend(first..=last);
    }
    Some(kept)
}

fn cut(text: &str) -> Option<Cut> {
    let (event, choice) = text.split_once(':')?;
    let (kept, torn) = choice.split_once('~').map_or((choice, None), |(kept, torn)| (kept, Some(torn)));
    let kept = numbers(kept)?;
    let torn = match torn {
        None => None,
        Some(torn) => {
            let (unit, sectors) = torn.split_once('/')?;
            let unit = unit.parse().ok().filter(|unit| kept.contains(unit))?;
            Some((unit, u8::from_str_radix(sectors, 16).ok()?))
        }
    };
    Some(Cut { event: event.parse().ok()?, choice: Choice { kept, torn } })
}

fn device(text: &str) -> Option<StateId> {
    let mut parts = text.split('>');
    let (point, chance) = parts.next()?.split_once(':')?;
    let device = DeviceCut { point: point.parse().ok()?, chance: chance.parse().ok()? };
    Some(StateId::Device { cut: device, then: parts.map(cut).collect::<Option<_>>()? })
}

fn fault(text: &str) -> Option<StateId> {
    let mut parts = text.split('>');
    let first = parts.next()?;
    let fault = match (first.strip_suffix('+'), first.strip_suffix('w')) {
        (Some(request), _) => FaultId::From(request.parse().ok()?),
        (_, Some(request)) => FaultId::FullFrom(request.parse().ok()?),
        _ => FaultId::Request(first.parse().ok()?),
    };
    Some(StateId::Fault { fault, then: parts.map(cut).collect::<Option<_>>()? })
}

fn room(text: &str) -> Option<StateId> {
    Some(StateId::Fault { fault: FaultId::Room(text.parse().ok()?), then: Vec::new() })
}

impl FromStr for StateId {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<StateId, CrashError> {
        let id = match text.split_once(':') {
            None if text == MOUNTED => Some(StateId::Mounted),
            Some(("cut", rest)) => device(rest),
            Some(("fault", rest)) => fault(rest),
            Some(("room", rest)) => room(rest),
            _ => text.split('>').map(cut).collect::<Option<_>>().map(StateId::Door),
        };
        let reason = "an address looks like 57:0,2-5 or 57:0>12:1 (units ascend, and a torn one is among them), \
                      cut:981:4, fault:7, room:12 or mounted";
        id.ok_or_else(|| CrashError::State { text: text.into(), reason: reason.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_their_text() {
        for text in [
            "57:0,2-5",
            "0:",
            "57:0-1~1/0f>12:1>3:",
            "cut:981:4",
            "cut:981:4>12:1>3:",
            "fault:7",
            "fault:7+",
            "fault:7w",
            "fault:7+>57:0,2-5",
            "room:12",
            "mounted",
        ] {
            assert_eq!(text.parse::<StateId>().unwrap().to_string(), text);
        }
        for text in ["57", "5:9-2", "5:3,1", "5:0-9999999999", "5:0-18446744073709551615", "5:0~99/0f", "5:x"] {
            assert!(text.parse::<StateId>().is_err(), "{text}");
        }
    }
}
