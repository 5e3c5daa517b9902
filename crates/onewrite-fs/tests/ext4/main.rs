//! ext4, its journal, its checker and its mkfs, in one program: so its types are compiled once.

#[path = "../operations/mod.rs"]
mod operations;
#[path = "../support/mod.rs"]
mod support;

mod atomic;
mod behind_the_end;
mod check_bytes;
mod check_clean;
mod check_damage;
mod cut;
mod damage;
mod delayed;
mod eviction;
mod files;
mod format;
mod format_model;
mod full;
mod journal;
mod journal_commands;
mod journal_home;
mod kernel_cut;
mod late;
mod ldj;
mod linux;
mod mkfs;
mod model;
mod names;
mod posix;
mod replay;
mod share;
mod small_cache;
mod times;
