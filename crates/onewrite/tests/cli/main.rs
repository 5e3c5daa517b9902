//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod advice;
mod crash;
mod guard;
mod images;
mod outputs;
mod padding;
mod partial;
mod repairs;
mod runs;
mod support;
mod traces;
mod transfer;
mod transfer_crafted;
mod views;
