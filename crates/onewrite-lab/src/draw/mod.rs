//! Draw: all drawing of the workspace. Callers give data and get text: SVG, or characters for a terminal.
//!
//! Its one idea: whoever knows a result does not know what it looks like. Nothing here measures, does I/O or depends
//! on anything but its arguments, so the same data give the same bytes. The tidy test finds drawing elsewhere.
//!
//! ```text
//!   runs ──► bars, spreads          trace ──► grid          probe ──► probe
//!   studies ──► lines               dies ──► timeline, geometry       commands ──► bar, branch, rule
//! ```

mod bars;
mod dies;
mod grid;
mod lines;
mod point;
mod probe;
mod svg;
mod terminal;

pub(crate) use bars::{Bar, Spread, Stack, bars, spreads, stacked};
pub use dies::{geometry, timeline};
pub(crate) use grid::{Grid, grid};
pub(crate) use lines::{Line, lines};
pub use probe::probe;
pub(crate) use svg::{STYLE, escape, standalone};
pub(crate) use terminal::rule;
pub use terminal::{bar, below, branch};
