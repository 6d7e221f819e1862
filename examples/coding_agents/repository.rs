//! A repository in a temporary folder. Each file says how often it was edited, so that an edit that was
//! lost is missed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, process};

use preclaim::fence::Fence;
use tokio::time::sleep;

use super::story::Failure;
use super::work::{FILES, Job, file_path};

/// The files, and what was acknowledged of them.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    /// The highest fence that was seen, by file.
    fences: Vec<Option<Fence>>,
    /// Edits that their agents were told are done, by file.
    acknowledged: Vec<u64>,
    /// Writes that came too late and were refused.
    refused: u64,
    /// Directories that changed while somebody relied on them.
    changed: u64,
    /// Agents that edit now, and at most.
    editing: usize,
    most_editing: usize,
}

/// What became of the edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) changed: u64,
    pub(crate) most_editing: usize,
}

/// Why an edit was not made: another agent has had one of the files since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

impl Repository {
    /// A new one, whose files were never edited.
    pub(crate) fn create() -> Result<Self, Failure> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("preclaim-coding-agents-{}-{number}", process::id()));
        // What a process of the same number left there when it was killed.
        let _ = fs::remove_dir_all(&root);
        for file in 0..FILES {
            let path = root.join(file_path(file));
            fs::create_dir_all(path.parent().unwrap_or(&root))?;
            fs::write(path, "0")?;
        }
        let books = Books {
            fences: vec![None; FILES],
            acknowledged: vec![0; FILES],
            refused: 0,
            changed: 0,
            editing: 0,
            most_editing: 0,
        };
        Ok(Repository { root, books: Mutex::new(books) })
    }

    /// Does a job: reads its files, works on them for as long as that takes, writes them. A repository that
    /// is given a fence takes the write only if nobody with a higher one has been at a file.
    pub(crate) async fn edit(&self, job: &Job, fence: Option<Fence>) -> Result<Result<(), TooLate>, Failure> {
        let (written, read) = (job.files(true), job.files(false));
        let Some(before) = self.open(&written, fence)? else { return Ok(Err(TooLate)) };
        let relied_on = self.counts(&read)?;
        let _editing = Editing::new(self);
        sleep(job.hold).await;
        if relied_on != self.counts(&read)? {
            self.books().changed += 1;
        }
        self.write(&written, &before, fence)
    }

    /// Reads what is to be written, and lets no earlier holder write it from here on.
    fn open(&self, files: &[usize], fence: Option<Fence>) -> Result<Option<Vec<u64>>, Failure> {
        let mut books = self.books();
        if !books.admits(files, fence) {
            return Ok(None);
        }
        self.counts(files).map(Some)
    }

    fn write(
        &self,
        files: &[usize],
        before: &[u64],
        fence: Option<Fence>,
    ) -> Result<Result<(), TooLate>, Failure> {
        // Nobody comes between the check and the write.
        let mut books = self.books();
        if !books.admits(files, fence) {
            return Ok(Err(TooLate));
        }
        for (file, count) in files.iter().zip(before) {
            // Whoever reads meanwhile finds the old file or the new one, and no half of it.
            let (new, path) = (self.root.join("new"), self.root.join(file_path(*file)));
            fs::write(&new, (count + 1).to_string())?;
            fs::rename(&new, path)?;
            books.acknowledged[*file] += 1;
        }
        Ok(Ok(()))
    }

    fn counts(&self, files: &[usize]) -> Result<Vec<u64>, Failure> {
        let count =
            |file: &usize| Ok(fs::read_to_string(self.root.join(file_path(*file)))?.trim().parse()?);
        files.iter().map(count).collect()
    }

    /// Holds what the files say against what was acknowledged.
    pub(crate) fn tally(&self) -> Result<Tally, Failure> {
        let found = self.counts(&(0..FILES).collect::<Vec<_>>())?;
        let books = self.books();
        let lost = books.acknowledged.iter().zip(&found).map(|(told, found)| told.saturating_sub(*found));
        Ok(Tally {
            acknowledged: books.acknowledged.iter().sum(),
            lost: lost.sum(),
            refused: books.refused,
            changed: books.changed,
            most_editing: books.most_editing,
        })
    }

    // A panic under the lock leaves counts that are whole.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Books {
    fn admits(&mut self, files: &[usize], fence: Option<Fence>) -> bool {
        let Some(fence) = fence else { return true };
        if files.iter().any(|file| self.fences[*file].is_some_and(|highest| fence < highest)) {
            self.refused += 1;
            return false;
        }
        files.iter().for_each(|file| self.fences[*file] = Some(fence));
        true
    }
}

/// An agent at work, until it is done or stopped.
struct Editing<'a>(&'a Repository);

impl<'a> Editing<'a> {
    fn new(repository: &'a Repository) -> Self {
        let mut books = repository.books();
        books.editing += 1;
        books.most_editing = books.most_editing.max(books.editing);
        Editing(repository)
    }
}

impl Drop for Editing<'_> {
    fn drop(&mut self) {
        self.0.books().editing -= 1;
    }
}
