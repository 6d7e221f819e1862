//! Files that nobody but their owner may read, as `serve` asks of its key.
#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) fn write(path: &Path, text: &str) {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
