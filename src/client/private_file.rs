//! Files with secrets in them: read only where nobody else can read them.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use crate::limits;

/// The text of a file that holds a secret, of at most [`limits::PEM_BYTES`].
///
/// # Errors
/// Where it cannot be read, is longer or no text, or others may read it; with what to do.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    // Of the file that is open, not of whatever its name stands for by now.
    let metadata = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if let Some(mode) = too_open(&metadata) {
        return Err(format!("{shown}: others may read it (its mode is {mode:o}): chmod 600 {shown}"));
    }
    text_of(file, path)
}

/// The text of a file that may be public, of at most [`limits::PEM_BYTES`].
///
/// # Errors
/// Where it cannot be read, or is longer or no text.
pub(crate) fn read_public(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text_of(file, path)
}

fn text_of(file: File, path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = file.take(limits::PEM_BYTES as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > limits::PEM_BYTES {
        return Err(format!("{}: longer than {} bytes", path.display(), limits::PEM_BYTES));
    }
    Ok(text)
}

/// The mode of a file that others than its owner may read or change. A file of root's may be read by a group: so
/// a service that runs as a user of its own gets at the secret that root has put there.
#[cfg(unix)]
fn too_open(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    (metadata.mode() & forbidden != 0).then_some(metadata.mode() & 0o777)
}

// Elsewhere access is not told by a mode.
#[cfg(not(unix))]
fn too_open(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_not_read_and_what_to_do_is_said() {
        let path = std::env::temp_dir().join(format!("preclaim-secret-{}", std::process::id()));
        std::fs::write(&path, "secret").unwrap();
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o604, 0o660, 0o602] {
            set(mode);
            let why = read(&path).unwrap_err();
            assert!(why.contains("chmod 600") && why.contains(&format!("{mode:o}")), "{why}");
            assert!(!why.contains("secret,"), "{why}");
            assert_eq!(read_public(&path).unwrap(), "secret");
        }
        for mode in [0o600, 0o400] {
            set(mode);
            assert_eq!(read(&path).unwrap(), "secret");
        }
        std::fs::write(&path, "x".repeat(limits::PEM_BYTES + 1)).unwrap();
        set(0o600);
        assert!(read(&path).unwrap_err().contains("longer"));
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).is_err());
    }
}
