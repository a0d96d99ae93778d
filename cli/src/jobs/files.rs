//! [`Files`]: which files a job may name, and how long it may take to read them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{panic, thread};

use super::STACK;
use super::answer::Failure;
use crate::named;

/// COUNT: threads that read files at once. One whose file system does not answer stays until it does.
const READERS: usize = 16;

/// Which files a job may name.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// Those that this process can read: whoever asks has started it.
    Any,
    /// Those in these folders, which are canonical.
    Within(Vec<PathBuf>, Readers),
}

/// Threads that read files for the threads that compute, which so wait only for some time: a file system may never
/// answer.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    limit: Duration,
    /// COUNT: threads that read.
    running: Arc<AtomicUsize>,
}

impl Files {
    /// The files in some folders.
    ///
    /// # Errors
    /// When one is no folder.
    pub(crate) fn within(folders: &[PathBuf], limit: Duration) -> Result<Self, String> {
        let canonical = folders.iter().map(|folder| {
            let cannot = |error| format!("{}: cannot allow this folder: {error}", folder.display());
            let path = folder.canonicalize().map_err(cannot)?;
            if path.is_dir() {
                Ok(path)
            } else {
                Err(format!("{}: cannot allow this, as it is no folder", folder.display()))
            }
        });
        let folders = canonical.collect::<Result<_, _>>()?;
        Ok(Self::Within(folders, Readers::new(limit)))
    }

    /// Whether a name is that of a file, which so is meant rather than a published model, as in `estimate`. A server's
    /// folder does not change what published models are.
    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self, Self::Any) && Path::new(name).symlink_metadata().is_ok()
    }

    /// What a task finds out from files; an error if that takes too long.
    ///
    /// # Errors
    /// Those of the task, and that it took too long.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        match self {
            Self::Within(folders, readers) if !folders.is_empty() => {
                let files = self.clone();
                readers.run(move || task(&files))
            }
            _ => task(self),
        }
    }

    /// The path of a file that may be read. Whether another file exists is not disclosed.
    ///
    /// # Errors
    /// When it may not.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, Failure> {
        let folders = match self {
            Self::Any => {
                let path = PathBuf::from(name);
                let found = named::find(&path);
                return found.map(|_| path).map_err(|error| Failure::of(&error).at("model"));
            }
            Self::Within(folders, _) => folders,
        };
        let inside = |folder: &PathBuf| {
            // Links are followed first, so that none leads out.
            let path = folder.join(name).canonicalize().ok()?;
            path.starts_with(folder).then_some(path)
        };
        let is_plain = !Path::new(name).components().any(|part| part.as_os_str() == "..");
        folders.iter().filter(|_| is_plain).find_map(inside).ok_or_else(|| {
            let nearest = highwater_core::formats::catalogue::nearest(name);
            let message = if folders.is_empty() {
                format!(
                    "there is no model of this name; the nearest names are {nearest}. This server reads no files: \
                     start it with `--allow FOLDER`, or give the object of the model's `config.json`"
                )
            } else {
                format!(
                    "there is no model of this name, and no such file in an allowed folder; the nearest names are \
                     {nearest}"
                )
            };
            Failure::new("unknown-model", message).at("model")
        })
    }
}

impl Readers {
    fn new(limit: Duration) -> Self {
        Self { limit, running: Arc::default() }
    }

    fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let failure = |message: String| Failure::new("slow-file", message).at("model");
        let running = Running::new(&self.running);
        if running.before >= READERS {
            let message = format!("{READERS} other files are being read; ask again later");
            return Err(failure(message));
        }
        let (send, result) = mpsc::sync_channel(1);
        let reader =
            thread::Builder::new().name("read".to_owned()).stack_size(STACK).spawn(move || {
                let result = task();
                drop(running);
                // Nobody may wait any more.
                send.send(result).ok();
            });
        let reader = reader.map_err(|error| failure(format!("no thread can read it: {error}")))?;
        match result.recv_timeout(self.limit) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                let limit = self.limit.as_secs();
                Err(failure(format!("this file was not read within {limit} s")))
            }
            Err(RecvTimeoutError::Disconnected) => match reader.join() {
                Err(panic) => panic::resume_unwind(panic),
                Ok(()) => Err(failure("this file was not read".to_owned())),
            },
        }
    }
}

/// A thread that reads, or is about to.
struct Running {
    counter: Arc<AtomicUsize>,
    /// COUNT: others at its beginning.
    before: usize,
}

impl Running {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        Self { counter: Arc::clone(counter), before }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_never_read_holds_no_thread_that_computes() {
        let readers = Readers::new(Duration::from_millis(200));
        let (end, ended) = mpsc::channel::<()>();
        let mut ended = Some(ended);
        let mut ask = || {
            let wait = ended.take();
            readers.run(move || Ok(wait.map(|wait| wait.recv().is_ok())))
        };
        assert_eq!(ask().map_err(|failure| failure.kind), Err("slow-file".into()));
        assert_eq!(ask().ok(), Some(None));
        drop(end);
    }

    #[test]
    fn files_that_are_never_read_are_limited() {
        let readers = Readers::new(Duration::from_millis(1));
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let mut messages = Vec::new();
        for _ in 0..=READERS {
            let ended = Arc::clone(&ended);
            let result =
                readers.run(move || Ok(ended.lock().map(|ended| ended.recv().is_ok()).ok()));
            messages.extend(result.err().map(|failure| failure.message));
        }
        let last = messages.pop().unwrap_or_default();
        assert!(last.starts_with("16 other files"), "{last}");
        assert!(messages.iter().all(|message| message.starts_with("this file was not")));
        drop(end);
    }
}
