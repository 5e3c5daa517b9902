//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod crash;
mod images;
mod padding;
mod runs;
mod support;
mod traces;
