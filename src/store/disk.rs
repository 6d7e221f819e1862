//! One directory of a disk, as few operations as the store needs of it.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::limits::AUDIT_FILES;
use crate::types::Time;

/// A directory. What was written is on disk once its file was synced, what was created, renamed or
/// removed once the directory was.
pub trait Disk: Debug + Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// The files that are there, in no order. Directories and the like count as files.
    ///
    /// # Errors
    /// Where the directory cannot be read, or holds more files than a state directory may.
    fn list(&self) -> io::Result<Vec<Listed>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where it is not.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates an empty file; one that was there is emptied.
    ///
    /// # Errors
    /// Where that fails.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name; one that had it is gone.
    ///
    /// # Errors
    /// Where that fails.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Where that fails.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable what was created, renamed and removed.
    ///
    /// # Errors
    /// Where it may not be.
    fn sync_directory(&self) -> io::Result<()>;

    /// Takes the file `name` for this process alone until what is returned is dropped, and creates it
    /// where it is not there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where another has it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>>;
}

/// A file of a [`Disk`].
pub trait DiskFile: Debug + Send + Sync {
    /// How long it is.
    ///
    /// # Errors
    /// Where that cannot be told.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads from `offset` on, and says how much; 0 at the end only.
    ///
    /// # Errors
    /// Where the disk fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Any part of it may have been written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was written (`fdatasync`).
    ///
    /// # Errors
    /// Then nothing is known of what was written, and asking again does not mend it: the system may
    /// have given up those bytes, and have nothing left to sync.
    fn sync(&self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was last written, by the wall clock.
    pub modified: Time,
}

/// A directory of this machine. Its files are for the user alone who runs the coordinator.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    /// The directory at `path`, which has to be there once it is used.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        RealDisk { directory: path.into() }
    }

    /// The directory at `path`, created where it is not there.
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = path.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory)?;
        if let Some(parent) = directory.canonicalize()?.parent() {
            sync(parent)?;
        }
        Ok(RealDisk { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Syncs a directory, where directories can be synced.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Disk for RealDisk {
    fn place(&self) -> String {
        self.directory.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            if found.len() == AUDIT_FILES {
                return Err(io::Error::other(format!("more than {AUDIT_FILES} files are there")));
            }
            let entry = entry?;
            let metadata = match entry.metadata() {
                // Removed since, by the coordinator whose directory this is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified = Time::from_us(u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
            let name = entry.file_name().to_string_lossy().into_owned();
            found.push(Listed { name, bytes: metadata.len(), modified });
        }
        Ok(found)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        if !fs::metadata(&path)?.is_file() {
            // Of a pipe, to open it would wait for whoever writes to it.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let file = match access {
            Access::Read => File::open(path)?,
            Access::Write => writing().open(path)?,
        };
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(writing().create(true).truncate(true).open(self.path(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        sync(&self.directory)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        let file = writing().create(true).truncate(false).open(self.path(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::os::unix::fs::FileExt::read_at(&self.0, into, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    #[cfg(unix)]
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, into, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            match std::os::windows::fs::FileExt::seek_write(&self.0, &bytes[done..], at)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
