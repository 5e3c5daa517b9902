//! Compares the documentation of jobs and results with the program.

use std::path::Path;

use onewrite_lab::job::KEYS;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn every_key_is_documented() {
    let page = page("jobs.md");
    let has = |name: &str| page.contains(&format!("`{name}`"));
    let missing = KEYS.iter().find(|key| !has(key.name) || key.alias.is_some_and(|alias| !has(alias)));
    assert_eq!(missing.map(|key| key.name), None);
}

/// Names of all fields of an object and of the objects in it. Names of percentiles and kinds are content, so they are
/// left out.
fn fields(json: &serde_json::Value, found: &mut Vec<String>) {
    let Some(object) = json.as_object() else { return };
    for (name, value) in object {
        found.push(name.clone());
        if name != "percentile" && name != "by_kind" {
            fields(value, found);
        }
    }
}

#[test]
fn every_field_of_the_results_is_documented() {
    let page = page("results-json.md");
    let json: serde_json::Value = serde_json::from_str(&crate::report::result("data", 1).to_json()).unwrap();
    let mut found = vec!["jobs".to_owned()];
    fields(&json["jobs"][0], &mut found);
    fields(&json["onewrite"], &mut found);
    let missing: Vec<&String> = found.iter().filter(|name| !page.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
