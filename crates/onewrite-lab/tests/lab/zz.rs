#[test]
fn show() {
    use crate::report::*;
    let mut c = comparison();
    c.runs.insert(1, onewrite_lab::report::Compared { label: "data".into(), result: result("data", 3), crash: None });
    std::fs::write("/tmp/x.html", c.html()).unwrap();
    println!("{}", c.table());
}
