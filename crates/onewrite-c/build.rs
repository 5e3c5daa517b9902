//! Gives the shared library its name for the loader: programs that were linked with one 0.x find the next.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libonewrite.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
