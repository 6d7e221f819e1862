//! Which disk a directory is on: what a sync costs depends on little else.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// Where a directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskPlace {
    /// The device, as the system names it.
    pub device: String,
    /// The kind of file system.
    pub file_system: String,
    /// Where that is mounted.
    pub mounted_at: String,
}

impl DiskPlace {
    /// Where `directory` is, where the system says.
    pub fn of(directory: &Path) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        Self::among(&mounts, &directory.canonicalize().ok()?)
    }

    /// Of the mounts that `directory` is below, the innermost, and of several at one place the last.
    fn among(mounts: &str, directory: &Path) -> Option<Self> {
        let places = mounts.lines().filter_map(|line| {
            let mut words = line.split_whitespace().map(plain);
            let (device, mounted_at, file_system) = (words.next()?, words.next()?, words.next()?);
            directory.starts_with(&mounted_at).then_some(DiskPlace { device, file_system, mounted_at })
        });
        places.max_by_key(|place| Path::new(&place.mounted_at).components().count())
    }
}

/// Blanks and the like are spelled in octal there.
fn plain(word: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(word.to_owned(), |word, (octal, letter)| word.replace(octal, letter))
}

impl fmt::Display for DiskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DiskPlace { device, file_system, mounted_at } = self;
        write!(f, "{device}, {file_system}, mounted at {mounted_at}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_on_the_innermost_mount_above_it() {
        let mounts = "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /srv tmpfs rw 0 0\n\
                      /dev/b /srv xfs rw 0 0\n/dev/c /srv/my\\040disk btrfs rw 0 0\n";
        let found = |directory: &str| DiskPlace::among(mounts, Path::new(directory)).unwrap().to_string();
        assert_eq!(found("/home/x"), "/dev/a, ext4, mounted at /");
        assert_eq!(found("/srvx"), "/dev/a, ext4, mounted at /");
        assert_eq!(found("/srv/x"), "/dev/b, xfs, mounted at /srv");
        assert_eq!(found("/srv/my disk/x"), "/dev/c, btrfs, mounted at /srv/my disk");
        assert_eq!(DiskPlace::among("", Path::new("/")), None);
    }
}
