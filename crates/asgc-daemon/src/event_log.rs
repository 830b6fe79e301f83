//! The writer of `events.jsonl`: one line an event, on a thread of its own.
//!
//! The run's folder is held by a kernel lock on its file `lock`, so a second server on the same folder is
//! refused and a crashed one leaves nothing behind. A file that has grown to its limit becomes a numbered piece,
//! `events.00001.jsonl`, and a new one is begun: a log is its pieces and `events.jsonl`, in order.
//!
//! When the disk fails, or is too far behind, the log ends there, with a whole line: what follows counts as lost. It does
//! not begin again, so that a log has no holes; whether training goes on is not decided here.

use asgc_core::event::{Event, segment_name, segment_number};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Events that may wait for the disk; a minute of a fast run.
const QUEUE: usize = 1 << 16;

/// The name of the log in a run's folder.
pub const EVENTS_FILE: &str = "events.jsonl";
/// The folder, in a run's folder, that keeps the log of the run before.
pub const PREVIOUS_DIR: &str = "previous";
/// The file that is locked while a server writes to the folder.
pub const LOCK_FILE: &str = "lock";

/// The log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server writes to this folder.
    #[error("{} is in use by {holder}; stop it, or choose another run.name", .dir.display())]
    InUse {
        /// The run's folder.
        dir: PathBuf,
        /// What the lock file says about who holds it.
        holder: String,
    },
    /// A file of the folder cannot be used.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The log ended before the run did.
#[derive(Debug, thiserror::Error)]
#[error("{}: the log has ended early; is the disk full?", .0.display())]
pub struct Ended(PathBuf);

/// What became of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Events written.
    pub written: u64,
    /// Events that the disk refused or had no time for. A run that lost events did not end properly.
    pub lost: u64,
}

/// The open log. Dropping it without [`EventLog::close`] writes what waits, but reports nothing.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    queue: SyncSender<Event>,
    done: Receiver<()>,
    counts: Arc<Counts>,
    _lock: File,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
    /// The log has ended early.
    failed: AtomicBool,
}

impl EventLog {
    /// Creates the run's folder `dir` where needed, locks it and starts an empty log, in pieces of at most `max_bytes`
    /// (0 for no limit, but a line is never cut); the log that was there goes into `previous/`.
    ///
    /// # Errors
    /// When another process holds the folder, or it cannot be written to.
    pub fn open(dir: &Path, max_bytes: u64) -> Result<Self, OpenError> {
        fs::create_dir_all(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        put_away(dir)?;
        let path = dir.join(EVENTS_FILE);
        let file = create(&path).map_err(at(&path))?;
        let sink = Pieces {
            dir: dir.to_owned(),
            file,
            number: 1,
        };
        Self::start(path, sink, lock, max_bytes)
    }

    fn start(path: PathBuf, sink: impl Sink, lock: File, max_bytes: u64) -> Result<Self, OpenError> {
        let (queue, events) = sync_channel(QUEUE);
        let (finished, done) = channel();
        let counts = Arc::new(Counts::default());
        let writer = Writer {
            sink,
            path: path.clone(),
            length: 0,
            max_bytes,
        };
        let shared = Arc::clone(&counts);
        thread::Builder::new()
            .name("event-log".into())
            .spawn(move || {
                writer.run(&events, &shared);
                let _ = finished.send(());
            })
            .map_err(at(&path))?;
        Ok(Self {
            path,
            queue,
            done,
            counts,
            _lock: lock,
        })
    }

    /// Queues an event. Never blocks: when the disk is a whole queue behind, the log ends there.
    pub fn write(&self, event: Event) {
        if self.counts.failed.load(Ordering::Acquire) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        } else if self.queue.try_send(event).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            self.counts.failed.store(true, Ordering::Release);
            tracing::error!(
                "{}: the disk is too slow, and the log ends here",
                self.path.display()
            );
        }
    }

    /// Queues an event, and waits for room where the disk is behind: for whoever can wait.
    ///
    /// # Errors
    /// When the log has ended early; the disk's own words are among the log lines.
    pub fn write_waiting(&self, event: Event) -> Result<(), Ended> {
        let sent = !self.failed() && self.queue.send(event).is_ok();
        if !sent {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return Err(Ended(self.path.clone()));
        }
        Ok(())
    }

    /// Events lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Whether the log has ended early: the disk failed, or was too slow.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.counts.failed.load(Ordering::Acquire)
    }

    /// The file that is written to.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what waits and frees the folder. Blocks, at most for `within`: a disk that hangs must not keep
    /// the process from ending; what it has not taken by then counts as lost.
    #[must_use]
    pub fn close(self, within: Duration) -> Report {
        let Self {
            queue,
            done,
            counts,
            _lock,
            ..
        } = self;
        drop(queue);
        let hung = matches!(done.recv_timeout(within), Err(RecvTimeoutError::Timeout));
        let (written, lost) = (
            counts.written.load(Ordering::Relaxed),
            counts.lost.load(Ordering::Relaxed),
        );
        // How many still wait cannot be asked of the channel; at least one does.
        Report {
            written,
            lost: lost + u64::from(hung),
        }
    }
}

/// Whether a server writes to the run folder `dir`, without changing anything there.
///
/// # Errors
/// [`OpenError::InUse`], naming the holder; [`OpenError::Io`] when the lock file cannot be read.
pub fn probe(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(LOCK_FILE);
    match File::open(&path) {
        Ok(file) => try_lock(dir, &file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(&path)(error)),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK_FILE);
    if path.is_symlink() {
        return Err(at(&path)(io::Error::other(
            "is a symbolic link, and a run's files must not lead elsewhere",
        )));
    }
    let options = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
    };
    let mut file = options().map_err(at(&path))?;
    try_lock(dir, &file)?;
    // Only words for whoever is refused; the kernel's lock is what counts.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let words = format!("process {} on {}\n", std::process::id(), host.trim());
    file.set_len(0)
        .and_then(|()| file.write_all(words.as_bytes()))
        .map_err(at(&path))?;
    Ok(file)
}

fn try_lock(dir: &Path, mut file: &File) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut words = String::new();
            let _ = io::Read::by_ref(&mut file).take(200).read_to_string(&mut words);
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            let holder = if words.is_empty() {
                "another process".into()
            } else {
                words
            };
            Err(OpenError::InUse {
                dir: dir.to_owned(),
                holder,
            })
        }
        Err(TryLockError::Error(source)) => Err(at(&dir.join(LOCK_FILE))(source)),
    }
}

/// Moves the log of the run before into [`PREVIOUS_DIR`], in place of the one before that.
fn put_away(dir: &Path) -> Result<(), OpenError> {
    let previous = dir.join(PREVIOUS_DIR);
    let old = log_files(dir).map_err(at(dir))?;
    if old.is_empty() {
        return Ok(());
    }
    if previous.is_symlink() {
        return Err(at(&previous)(io::Error::other(
            "is a symbolic link, and a run's files must not lead elsewhere",
        )));
    }
    fs::create_dir_all(&previous).map_err(at(&previous))?;
    for name in log_files(&previous).map_err(at(&previous))? {
        let path = previous.join(name);
        fs::remove_file(&path).map_err(at(&path))?;
    }
    for name in old {
        let path = dir.join(&name);
        fs::rename(&path, previous.join(&name)).map_err(at(&path))?;
    }
    Ok(())
}

/// The names of a log's pieces and of its last file, those that there are.
fn log_files(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name == EVENTS_FILE || segment_number(&name).is_some() {
            names.push(name);
        }
    }
    Ok(names)
}

/// `create_new` follows no symlink that someone put there in between.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// What the log is written to.
trait Sink: Write + Send + 'static {
    /// Cuts off everything after the first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Ends this file, and begins the next.
    fn next(&mut self) -> io::Result<()>;
}

/// The files of a run's log.
struct Pieces {
    dir: PathBuf,
    file: File,
    /// What the file that is written to will be called.
    number: u32,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Pieces {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn next(&mut self) -> io::Result<()> {
        let current = self.dir.join(EVENTS_FILE);
        fs::rename(&current, self.dir.join(segment_name(self.number)))?;
        self.file = create(&current)?;
        self.number += 1;
        Ok(())
    }
}

struct Writer<S> {
    sink: S,
    path: PathBuf,
    /// Bytes of whole lines in the file that is written to.
    length: u64,
    max_bytes: u64,
}

impl<S: Sink> Writer<S> {
    fn run(mut self, events: &Receiver<Event>, counts: &Counts) {
        while let Ok(event) = events.recv() {
            if let Err(error) = self.write(&event) {
                counts.lost.fetch_add(1, Ordering::Relaxed);
                // A queue that overflowed has said so already.
                counts.failed.store(true, Ordering::Release);
                tracing::error!("{}: {error}: the log ends here", self.path.display());
                // Where even this fails, a reader leaves half a line out.
                let _ = self.sink.cut(self.length);
                break;
            }
            counts.written.fetch_add(1, Ordering::Relaxed);
        }
        // What is queued behind the end of the log.
        let lost = events.iter().count() as u64;
        counts.lost.fetch_add(lost, Ordering::Relaxed);
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let length = line.len() as u64;
        if self.max_bytes > 0 && self.length > 0 && self.length + length > self.max_bytes {
            self.sink.next()?;
            self.length = 0;
        }
        self.sink.write_all(&line)?;
        self.sink.flush()?;
        self.length += length;
        Ok(())
    }
}

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
