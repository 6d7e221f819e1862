//! Fences in a file, written anew as a whole each time.
//!
//! ```text
//! preclaim fences 1
//! 1795948258350000:1043 file/README.md
//! sum 6c1f0a7d0b0f4a5b9c1f0a7d0b0f4a5b
//! ```
//!
//! One line a key, the highest fence and the key, by key; then SipHash-1-3 of all before that line, as 128
//! bits in hexadecimal. A new file is written beside the old one, synced, renamed over it, and the rename is
//! synced too: whenever the machine stops, the one or the other is there, whole.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::gate::is_key;
use super::{Full, Keep};
use crate::limits;
use crate::types::Fence;

const HEAD: &str = "preclaim fences 1\n";

/// Keeps fences in a file, for one process at a time. Each new fence writes the whole file and waits for
/// the disk, so it is for few keys that change hands seldom; a holder that writes again under the same
/// fence costs nothing. Beside `FILE` it uses `FILE.new` and `FILE.lock`.
#[derive(Debug)]
pub struct FileKeep {
    path: PathBuf,
    /// What is on the disk for sure.
    kept: Mutex<BTreeMap<String, Fence>>,
    room: usize,
    /// Locked for as long as this lives.
    _lock: File,
}

/// Why fences cannot be read from a file or kept there.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The system said no.
    Io {
        /// What was done to which file.
        doing: String,
        /// Why not.
        error: io::Error,
    },
    /// The file is not as it was written. What it has forgotten cannot be known: nothing may be let in by
    /// it. Put it back, or once no grant of before is in force any more, begin a new one.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another process, or this one, has it open.
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// There is no room for another key.
    Full(Full),
}

impl FileKeep {
    /// Begins a file for a store that nothing was written to yet.
    ///
    /// # Errors
    /// Where there is one already, or it cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = absolute(path.as_ref())?;
        let keep = FileKeep::locked(path)?;
        // Under the lock nobody else makes it meanwhile. What cannot be looked at may be there.
        match fs::symlink_metadata(&keep.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("create", &keep.path)(error)),
            Ok(_) => return Err(failed("create", &keep.path)(io::ErrorKind::AlreadyExists.into())),
        }
        keep.write(&BTreeMap::new())?;
        Ok(keep)
    }

    /// Goes on with a file.
    ///
    /// # Errors
    /// Where it is missing, damaged or in use: an empty one in its place would let everyone in.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // A link is followed once, here: a rename would take its place.
        let path = fs::canonicalize(path.as_ref()).map_err(failed("open", path.as_ref()))?;
        let mut keep = FileKeep::locked(path)?;
        let kept = read(&keep.path)?;
        // Whoever wrote it may have died before it was on the disk.
        keep.write(&kept)?;
        keep.kept = Mutex::new(kept);
        Ok(keep)
    }

    /// With room for `room` keys, in place of [`limits::FENCE_FILE_KEYS`]; no more than that are read
    /// again.
    #[must_use]
    pub fn with_room(mut self, room: usize) -> Self {
        self.room = room.min(limits::FENCE_FILE_KEYS);
        self
    }

    fn locked(path: PathBuf) -> Result<Self, FileError> {
        let name = beside(&path, ".lock");
        // Never removed: another process may be about to lock it.
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&name);
        let lock = lock.map_err(failed("create", &name))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FileError::Locked { path }),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &name)(error)),
        }
        Ok(FileKeep { path, kept: Mutex::default(), room: limits::FENCE_FILE_KEYS, _lock: lock })
    }

    /// Puts `fences` in the place of what was there.
    fn write(&self, fences: &BTreeMap<String, Fence>) -> Result<(), FileError> {
        let new = beside(&self.path, ".new");
        let mut file = File::create(&new).map_err(failed("create", &new))?;
        file.write_all(text(fences).as_bytes()).map_err(failed("write", &new))?;
        file.sync_all().map_err(failed("sync", &new))?;
        fs::rename(&new, &self.path).map_err(failed("replace", &self.path))?;
        sync_directory(&self.path)
    }
}

impl Keep for FileKeep {
    type Error = FileError;

    fn load(&self, key: &str) -> Result<Option<Fence>, FileError> {
        Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied())
    }

    fn persist(&self, key: &str, fence: Fence) -> Result<(), FileError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= self.room && !kept.contains_key(key) {
            return Err(FileError::Full(Full { room: self.room }));
        }
        let mut next = kept.clone();
        next.insert(key.to_owned(), fence);
        // Where this fails the disk has the one or the other; the next one writes all of it anew.
        self.write(&next)?;
        *kept = next;
        Ok(())
    }
}

fn text(fences: &BTreeMap<String, Fence>) -> String {
    let mut text = HEAD.to_owned();
    for (key, fence) in fences {
        // A String takes all that it is given.
        let _ = writeln!(text, "{fence} {key}");
    }
    let sum = sum(&text);
    let _ = writeln!(text, "sum {sum:032x}");
    text
}

fn sum(text: &str) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish128().as_u128()
}

fn read(path: &Path) -> Result<BTreeMap<String, Fence>, FileError> {
    let file = File::open(path).map_err(failed("open", path))?;
    let mut bytes = Vec::new();
    let most = limits::FENCE_FILE_BYTES as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    let damaged = |why: String| FileError::Damaged { path: path.to_owned(), why };
    if bytes.len() > limits::FENCE_FILE_BYTES {
        return Err(damaged(format!("it has more than {most} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| damaged("it is no text".into()))?;
    parse(&text).map_err(damaged)
}

fn parse(text: &str) -> Result<BTreeMap<String, Fence>, String> {
    let body = text.strip_prefix(HEAD).ok_or_else(|| format!("it does not begin with `{}`", HEAD.trim()))?;
    let end = body.rfind("sum ").ok_or("its last line, the sum, is missing")?;
    let summed = &text[..HEAD.len() + end];
    if body[end..] != format!("sum {:032x}\n", sum(summed)) {
        return Err("its sum does not fit what it says".into());
    }
    let mut fences = BTreeMap::new();
    for (at, line) in body[..end].lines().enumerate() {
        let entry = line.split_once(' ').and_then(|(fence, key)| Some((key, fence.parse().ok()?)));
        let (key, fence) = entry.filter(|(key, _)| is_key(key)).ok_or_else(|| nonsense(at))?;
        if fences.insert(key.to_owned(), fence).is_some() || fences.len() > limits::FENCE_FILE_KEYS {
            return Err(nonsense(at));
        }
    }
    Ok(fences)
}

/// A line whose sum fits is what somebody wrote who is no friend of this format.
fn nonsense(at: usize) -> String {
    format!("its line {} is no fence and key, or one too many", at + 2)
}

/// Makes durable which file has this name, where directories can be synced.
fn sync_directory(path: &Path) -> Result<(), FileError> {
    let directory = directory_of(path);
    if cfg!(unix) {
        File::open(directory).and_then(|open| open.sync_all()).map_err(failed("sync", directory))?;
    }
    Ok(())
}

/// The path with its directory as it is now, wherever the process moves later.
fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    let nameless = || failed("create", path)(io::ErrorKind::InvalidInput.into());
    let name = path.file_name().ok_or_else(nameless)?;
    let directory = fs::canonicalize(directory_of(path)).map_err(failed("create", path))?;
    Ok(directory.join(name))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let doing = format!("{doing} {}", path.display());
    |error| FileError::Io { doing, error }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io { doing, error } => write!(f, "cannot {doing}: {error}"),
            FileError::Damaged { path, why } => write!(f, "{} is damaged: {why}", path.display()),
            FileError::Locked { path } => write!(f, "{} is in use", path.display()),
            FileError::Full(full) => full.fmt(f),
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FileError::Io { error, .. } => Some(error),
            FileError::Full(full) => Some(full),
            FileError::Damaged { .. } | FileError::Locked { .. } => None,
        }
    }
}
