//! How a client finds the `preclaim dev` of the same user on the same machine: a small file in the
//! user's runtime directory, written by one side and read by the other. Both live here, so that they
//! cannot drift apart.
//!
//! The file is text: a first line `preclaim-dev 1`, lines of `key value`, and the certificate as PEM.
//! It lies in a directory that only its owner may enter, and is believed only where that is so.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::limits;

const FIRST_LINE: &str = "preclaim-dev 1";
const FILE: &str = "dev";

/// What `preclaim dev` tells clients on the same machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevFile {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its process id.
    pub pid: u32,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// Where it answers those who watch, by HTTP; none where it does not, or has not said so.
    pub watching: Option<SocketAddr>,
}

/// Why no `preclaim dev` was found.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// There is no directory for it, and none could be made.
    NoDirectory {
        /// What was tried, and what went wrong.
        why: String,
    },
    /// The directory or the file may have been written by somebody else.
    NotPrivate {
        /// Which.
        path: PathBuf,
    },
    /// No `preclaim dev` has told where it is.
    NotRunning {
        /// The file that it would have written.
        path: PathBuf,
    },
    /// The file cannot be read, or is none.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoveryError::NoDirectory { why } => write!(f, "there is no runtime directory: {why}"),
            DiscoveryError::NotPrivate { path } => {
                write!(f, "{} may have been written by another user", path.display())
            }
            DiscoveryError::NotRunning { path } => {
                write!(f, "no `preclaim dev` runs on this machine (no {})", path.display())
            }
            DiscoveryError::Unreadable { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for DiscoveryError {}

/// Finds the `preclaim dev` of this user on this machine. It may have ended without taking its file
/// along.
///
/// # Errors
/// Where none has told where it is, or what it told is not to be believed.
pub fn find() -> Result<DevFile, DiscoveryError> {
    let directory = directory(false)?;
    find_in(&directory)
}

/// Tells clients on this machine where this `preclaim dev` is, in place of any told before.
///
/// # Errors
/// Where the file cannot be written, or its directory is not this user's alone.
pub fn announce(dev: &DevFile) -> Result<Announcement, DiscoveryError> {
    let directory = directory(true)?;
    announce_in(&directory, dev)
}

/// A certificate as PEM, of its DER.
pub fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    // 48 bytes are 64 letters, the line length that PEM asks for.
    for line in der.chunks(48) {
        line.chunks(3).for_each(|group| text.extend(base64(group)));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

/// Four letters for up to three bytes.
fn base64(group: &[u8]) -> [char; 4] {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    [0, 1, 2, 3].map(|at| {
        let letter = char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
        if at > group.len() { '=' } else { letter }
    })
}

/// A file that [`announce`] wrote. Dropped, it takes the file along, unless another `preclaim dev` has
/// put its own there.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
    dev: DevFile,
}

impl Announcement {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if read(&self.path).is_ok_and(|there| there == self.dev) {
            // What is left behind is told apart by the reader: nobody listens there.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn find_in(directory: &Path) -> Result<DevFile, DiscoveryError> {
    read(&directory.join(FILE))
}

fn announce_in(directory: &Path, dev: &DevFile) -> Result<Announcement, DiscoveryError> {
    let path = directory.join(FILE);
    let unwritable =
        |error: io::Error| DiscoveryError::Unreadable { path: path.clone(), why: error.to_string() };
    // Written aside and renamed, so that no reader sees half of it.
    let aside = directory.join(format!("{FILE}.{}", dev.pid));
    let mut file = open_private(&aside).map_err(unwritable)?;
    file.write_all(written(dev).as_bytes()).map_err(unwritable)?;
    std::fs::rename(&aside, &path).map_err(unwritable)?;
    Ok(Announcement { path, dev: dev.clone() })
}

fn written(dev: &DevFile) -> String {
    let watching = dev.watching.map(|addr| format!("watching {addr}\n")).unwrap_or_default();
    let certificate = dev.certificate.trim_end();
    format!("{FIRST_LINE}\naddr {}\npid {}\n{watching}{certificate}\n", dev.addr, dev.pid)
}

fn read(path: &Path) -> Result<DevFile, DiscoveryError> {
    let unreadable = |why: String| DiscoveryError::Unreadable { path: path.to_owned(), why };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DiscoveryError::NotRunning { path: path.to_owned() });
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let metadata = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    if !is_private(&metadata) {
        return Err(DiscoveryError::NotPrivate { path: path.to_owned() });
    }
    let mut text = String::new();
    let mut limited = file.take(limits::DEV_FILE_BYTES as u64 + 1);
    limited.read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    parse(&text).ok_or_else(|| unreadable("not a file that `preclaim dev` wrote".into()))
}

fn parse(text: &str) -> Option<DevFile> {
    let rest = (text.len() <= limits::DEV_FILE_BYTES).then_some(text)?.strip_prefix(FIRST_LINE)?;
    let (head, certificate) = rest.split_at(rest.find("-----BEGIN CERTIFICATE-----")?);
    let value = |key: &str| head.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    Some(DevFile {
        addr: value("addr")?.parse().ok()?,
        pid: value("pid")?.parse().ok()?,
        certificate: certificate.trim_end().to_owned(),
        watching: value("watching").and_then(|addr| addr.parse().ok()),
    })
}

/// The user's own directory for it: `$XDG_RUNTIME_DIR/preclaim`, else `$TMPDIR/preclaim-UID`.
fn directory(make: bool) -> Result<PathBuf, DiscoveryError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = match set("XDG_RUNTIME_DIR") {
        Some(runtime) => runtime.join("preclaim"),
        None => {
            let user = user().ok_or_else(|| DiscoveryError::NoDirectory {
                why: "XDG_RUNTIME_DIR is not set, and who runs this cannot be told".into(),
            })?;
            set("TMPDIR").unwrap_or_else(|| "/tmp".into()).join(format!("preclaim-{user}"))
        }
    };
    if make {
        make_private(&path)
            .map_err(|error| DiscoveryError::NoDirectory { why: format!("{}: {error}", path.display()) })?;
    }
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() && is_private(&metadata) => Ok(path),
        Ok(_) => Err(DiscoveryError::NotPrivate { path }),
        Err(_) => Err(DiscoveryError::NotRunning { path: path.join(FILE) }),
    }
}

#[cfg(unix)]
fn user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    // The owner of this process, where the system shows it; else of the user's home.
    let own = std::fs::metadata("/proc/self").ok();
    let home = || std::fs::metadata(std::env::var_os("HOME")?).ok();
    own.or_else(home).map(|metadata| metadata.uid())
}

#[cfg(unix)]
fn is_private(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    user() == Some(metadata.uid()) && metadata.mode() & 0o077 == 0
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(unix)]
fn open_private(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

// Elsewhere the temporary directory is the user's own already.
#[cfg(not(unix))]
fn user() -> Option<u32> {
    Some(0)
}

#[cfg(not(unix))]
fn is_private(_: &std::fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn open_private(path: &Path) -> io::Result<std::fs::File> {
    std::fs::File::create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(port: u16) -> DevFile {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----".into();
        DevFile { addr: SocketAddr::from(([127, 0, 0, 1], port)), pid: 7, certificate, watching: None }
    }

    fn private_directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("preclaim-test-{}-{name}", std::process::id()));
        make_private(&path).unwrap();
        path
    }

    #[test]
    fn what_is_announced_is_found_and_goes_with_its_announcement() {
        let directory = private_directory("announce");
        let announcement = announce_in(&directory, &dev(1)).unwrap();
        assert_eq!(find_in(&directory).unwrap(), dev(1));
        drop(announcement);
        assert!(matches!(find_in(&directory), Err(DiscoveryError::NotRunning { .. })));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn where_it_is_watched_is_told_where_it_is() {
        let watched = DevFile { watching: Some(SocketAddr::from(([127, 0, 0, 1], 9))), ..dev(1) };
        assert_eq!(parse(&written(&watched)), Some(watched));
        assert_eq!(parse(&written(&dev(1))), Some(dev(1)));
    }

    #[test]
    fn an_older_announcement_leaves_a_newer_one_alone() {
        let directory = private_directory("newer");
        let older = announce_in(&directory, &dev(1)).unwrap();
        let newer = announce_in(&directory, &dev(2)).unwrap();
        drop(older);
        assert_eq!(find_in(&directory).unwrap(), dev(2));
        drop(newer);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = private_directory("foreign");
        let announcement = announce_in(&directory, &dev(1)).unwrap();
        std::fs::set_permissions(announcement.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(find_in(&directory), Err(DiscoveryError::NotPrivate { .. })));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn pem_is_written_as_others_read_it() {
        let letters = |bytes: &[u8]| bytes.chunks(3).flat_map(base64).collect::<String>();
        for (bytes, text) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(letters(bytes.as_bytes()), text);
        }
        assert!(pem(&[0; 100]).lines().all(|line| line.len() <= 64));
    }

    #[test]
    fn anything_else_in_its_place_is_unreadable() {
        for bad in ["", "preclaim-dev 2\n", "preclaim-dev 1\naddr x\npid 1\n-----BEGIN CERTIFICATE-----\n"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let long = format!("{}{}", written(&dev(1)), "A".repeat(limits::DEV_FILE_BYTES));
        assert_eq!(parse(&long), None);
    }
}
