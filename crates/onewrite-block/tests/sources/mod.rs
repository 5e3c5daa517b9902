//! Sources: what of a file is shipped.

/// The lines of `whole` without comments and without what stands behind `#[cfg(test)]`.
pub fn shipped(whole: &str) -> String {
    let (mut code, mut lines) = (String::new(), whole.lines());
    while let Some(line) = lines.next() {
        match line.trim_start() {
            "#[cfg(test)]" => skip_item(&mut lines),
            text if text.starts_with("//") => (),
            _ => {
                code.push('\n');
                code.push_str(line);
            }
        }
    }
    code
}

/// Skips an item: to the end of its line, or to the line that closes it in its column.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let Some(head) = lines.find(|line| !line.trim_start().starts_with(['#', '/'])) else { return };
    let column = head.len() - head.trim_start().len();
    if head.ends_with([';', ',', '}']) {
        return;
    }
    let _ = lines.find(|line| line.find('}') == Some(column) && line.trim_start().starts_with('}'));
}

#[test]
fn only_the_item_behind_the_mark_is_left_out() {
    let whole = [
        ["use a::b;", "#[cfg(test)]", "mod tests;", "use c::d;", "    #[cfg(test)]", "    #[allow(x)]"],
        ["    fn e() {", "        if f {", "        }", "    }", "    // g", "    fn h() {}"],
        ["#[cfg(test)]", "mod tests {", "    use i::j;", "}", "use k::l;", ""],
    ];
    assert_eq!(shipped(&whole.concat().join("\n")), "\nuse a::b;\nuse c::d;\n    fn h() {}\nuse k::l;");
}
