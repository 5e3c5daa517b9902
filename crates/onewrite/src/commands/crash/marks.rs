//! Which marks the states of an exploration reached.

use onewrite_crash::{MarkCount, MarkCounts, MarkRoom};

/// Most marks that are named because none was seen.
const TOLD_MAX: usize = 8;

/// Says how many marks of each room were seen, and those that never were in rooms where others were; lists all of these
/// rooms with `is_whole`.
pub fn summarise(counts: &MarkCounts, is_whole: bool) {
    let rooms: Vec<Room> = MarkRoom::ALL.into_iter().map(|room| Room::of(room, counts)).collect();
    let met: Vec<&Room> = rooms.iter().filter(|room| room.seen() > 0).collect();
    if met.is_empty() {
        return;
    }
    let (seen, all) = met.iter().fold((0, 0), |(seen, all), room| (seen + room.seen(), all + room.marks.len()));
    let parts: Vec<String> = met.iter().map(|room| room.part()).collect();
    note!("marks: {seen} of {all} seen ({})", parts.join(", "));
    if is_whole {
        note!("  {:>9} {:>12}", "at a cut", "in recovery");
        met.iter().for_each(|room| room.list());
    } else if seen < all {
        let never: Vec<&str> = met.iter().flat_map(|room| room.never()).collect();
        let told = &never[..never.len().min(TOLD_MAX)];
        let rest = match never.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} more (--marks lists all)"),
        };
        note!("  never: {}{rest}", told.join("; "));
    }
}

/// The marks of a room.
struct Room {
    name: &'static str,
    marks: Vec<(&'static str, MarkCount)>,
}

impl Room {
    fn of(room: MarkRoom, counts: &MarkCounts) -> Room {
        let own = counts.iter().filter(|(other, ..)| *other == room);
        Room { name: room.name(), marks: own.map(|(_, name, count)| (name, count)).collect() }
    }

    fn seen(&self) -> usize {
        self.marks.iter().filter(|(_, count)| count.is_seen()).count()
    }

    fn never(&self) -> impl Iterator<Item = &'static str> {
        self.marks.iter().filter(|(_, count)| !count.is_seen()).map(|(name, _)| *name)
    }

    fn part(&self) -> String {
        format!("{} {} of {}", self.name, self.seen(), self.marks.len())
    }

    fn list(&self) {
        note!("  {}", self.name);
        let line = |name: &str, MarkCount { at_cut, in_recovery }| note!("  {at_cut:>9} {in_recovery:>12}  {name}");
        self.marks.iter().for_each(|(name, count)| line(name, *count));
    }
}
