//! `onewrite paper`

use anyhow::bail;
use onewrite_lab::paper::{self, Row};

use crate::args::Paper;

/// Runs rows of the scoreboard and prints paper beside measured.
pub fn paper(args: &Paper) -> anyhow::Result<()> {
    let rows = paper::scoreboard()?;
    if args.list {
        rows.iter()
            .for_each(|row| println!("{:4} {:28} {}", if row.can_run() { "runs" } else { "" }, row.id, row.metric));
        return Ok(());
    }
    let chosen: Vec<&Row> = match args.ids.is_empty() {
        true => rows.iter().filter(|row| row.can_run()).collect(),
        false => args.ids.iter().map(|id| find(&rows, id)).collect::<anyhow::Result<_>>()?,
    };
    for row in chosen {
        eprintln!("{} …", row.id);
        println!("{}", paper::run(row)?);
    }
    Ok(())
}

fn find<'a>(rows: &'a [Row], id: &str) -> anyhow::Result<&'a Row> {
    match rows.iter().find(|row| row.id == id) {
        None => bail!("the scoreboard has no row `{id}`; `onewrite paper --list` shows them"),
        Some(row) if !row.can_run() => bail!("row `{id}` cannot be run yet: {}", row.metric),
        Some(row) => Ok(row),
    }
}
