//! Point: a place in a picture.

/// A place in a picture, in its units, from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// To the right.
    pub(super) x: f64,
    /// Down.
    pub(super) y: f64,
}

/// The point at `x`, `y`.
pub(super) const fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}
