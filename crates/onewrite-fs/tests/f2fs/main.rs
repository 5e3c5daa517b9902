//! F2FS, its checker and its mkfs, in one program: so its types are compiled once.

#[path = "../operations/mod.rs"]
mod operations;
#[path = "../support/mod.rs"]
mod support;

mod atomic;
mod behind_the_end;
mod check;
mod cleaning;
mod files;
mod full;
mod gate;
mod linux;
mod logs;
mod memory;
mod mkfs;
mod model;
mod names;
mod sections;
mod stage;
mod stage_apart;
mod stage_damage;
mod stage_others;
