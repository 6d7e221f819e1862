//! The example prints what its README says.

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/custom_priority.rs"]
mod custom_priority;

#[test]
fn custom_priority_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    custom_priority::show(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let readme = include_str!("../examples/README.md");
    let block = readme.split("```").find(|block| block.contains("--example custom_priority")).unwrap();
    let (_command, expected) = block.split_once("--no-default-features\n").unwrap();
    assert_eq!(printed, expected);
}
