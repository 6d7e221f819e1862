//! Files that are whole or not there, and that nobody reads who should not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::FolderError;
use crate::client::random;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// None but its owner.
    Owner,
    /// Everybody.
    All,
}

/// Whether what is there may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overwrite {
    Yes,
    No,
}

impl Overwrite {
    pub(super) fn of(overwrite: bool) -> Self {
        if overwrite { Overwrite::Yes } else { Overwrite::No }
    }
}

/// Nothing is at `path`, or it may go.
pub(super) fn check_free(path: &Path, overwrite: Overwrite) -> Result<(), FolderError> {
    match overwrite {
        Overwrite::No if path.exists() => Err(FolderError::There { path: path.to_owned() }),
        _ => Ok(()),
    }
}

/// Puts a file in its place whole: who reads it has the old one or the new one.
pub(super) fn put(path: &Path, bytes: &[u8], access: Access) -> Result<(), FolderError> {
    let disk = |error| FolderError::Disk { path: path.to_owned(), error };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{:016x}", random() as u64));
    let written =
        create(&aside, access).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&aside, path)).map_err(|error| {
        // What is left of it is of no use to anybody.
        let _ = fs::remove_file(&aside);
        disk(error)
    })
}

#[cfg(unix)]
fn create(path: &Path, access: Access) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mode = if access == Access::Owner { 0o600 } else { 0o644 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(not(unix))]
fn create(path: &Path, _: Access) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Makes a directory that its owner alone may enter, where there is none.
pub(super) fn make_dir(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| FolderError::Disk { path: path.to_owned(), error })
}

/// The file whose lock is a turn.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}
