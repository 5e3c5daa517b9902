//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod crash;
mod images;
mod runs;
mod support;
mod traces;
