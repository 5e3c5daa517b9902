//! Tests the program from outside: its output, its files and its exit codes.

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
