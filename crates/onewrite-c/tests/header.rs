//! The header in the tree is what cbindgen makes of the sources.
//!
//! `ONEWRITE_WRITE_HEADER=1 cargo test --package onewrite-c --test header` writes it.

use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

const HEAD: &str = "\
/* Onewrite for C: an image in the process of the program, by calls in the manner of POSIX; see docs/c.md.
 *
 * cbindgen made this file of crates/onewrite-c/src; do not edit it.
 *
 * What fails returns -1 or NULL, sets errno, and leaves a text for ow_last_error(). Any thread may call at any time;
 * only a struct ow_dir belongs to one thread at a time. A pointer that must not be NULL and is gives EFAULT. Use of
 * what was closed is undefined, as after free(3).
 */";

fn header() -> Vec<u8> {
    let config = Config {
        language: Language::C,
        style: Style::Tag,
        cpp_compat: true,
        header: Some(HEAD.to_owned()),
        include_guard: Some("ONEWRITE_H".to_owned()),
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h", "sys/types.h"].map(str::to_owned).to_vec(),
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 110,
        ..Config::default()
    };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let [door, drafts, types] = ["door.rs", "drafts.rs", "types.rs"].map(|name| sources.join(name));
    let builder = Builder::new().with_config(config).with_src(door).with_src(drafts).with_src(types);
    let bindings = builder.generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    text
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/onewrite.h");
    let made = String::from_utf8(header()).unwrap();
    if std::env::var_os("ONEWRITE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "include/onewrite.h is stale: ONEWRITE_WRITE_HEADER=1 cargo test -p onewrite-c writes it");
}
