//! Views of images, read only. Mutated ones may take little memory: the peak of this process is asserted, so no test
//! that needs much belongs in here.

#[path = "../support/mod.rs"]
mod support;

mod ext4;
mod f2fs;
mod mutated;
mod seen;
