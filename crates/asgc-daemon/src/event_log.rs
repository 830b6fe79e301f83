//! The writer of `events.jsonl`: one line an event, on a thread of its own.
//!
//! The run's folder is held by a kernel lock on its file `lock`, so a second server on the same folder is
//! refused and a crashed one leaves nothing behind. A failing disk does not stop training: events that
//! could not be written are counted as lost, and a half-written line is cut off before the next.

use asgc_core::event::Event;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Events that may wait for the disk; a minute of a fast run.
const QUEUE: usize = 1 << 16;
/// Between two complaints about the disk.
const COMPLAINT_EVERY: Duration = Duration::from_secs(60);

/// The name of the log in a run's folder.
pub const EVENTS_FILE: &str = "events.jsonl";
/// Where the log of the run before is kept.
pub const PREVIOUS_FILE: &str = "events.jsonl.1";
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
}

impl EventLog {
    /// Creates the run's folder `dir` where needed, locks it and starts an empty log; the log that was there
    /// becomes `events.jsonl.1`.
    ///
    /// # Errors
    /// When another process holds the folder, or it cannot be written to.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        let path = dir.join(EVENTS_FILE);
        match fs::rename(&path, dir.join(PREVIOUS_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => {}
        }
        // `create_new` follows no symlink that someone put there in between.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(at(&path))?;
        Self::start(path, file, lock)
    }

    fn start(path: PathBuf, sink: impl Sink, lock: File) -> Result<Self, OpenError> {
        let (queue, events) = sync_channel(QUEUE);
        let (finished, done) = channel();
        let counts = Arc::new(Counts::default());
        let writer = Writer {
            sink,
            path: path.clone(),
            length: 0,
            torn: false,
            complained: None,
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

    /// Queues an event. Never blocks: when the disk is a whole queue behind, the event counts as lost.
    pub fn write(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
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

/// What the log is written to.
trait Sink: Write + Send + 'static {
    /// Cuts off everything after the first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

struct Writer<S> {
    sink: S,
    path: PathBuf,
    /// Bytes of whole lines.
    length: u64,
    /// Whether a part of a line may follow them.
    torn: bool,
    complained: Option<Instant>,
}

impl<S: Sink> Writer<S> {
    fn run(mut self, events: &Receiver<Event>, counts: &Counts) {
        while let Ok(event) = events.recv() {
            match self.write(&event) {
                Ok(()) => counts.written.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    self.complain(&error);
                    counts.lost.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if self.torn {
            self.sink.cut(self.length)?;
            self.torn = false;
        }
        self.torn = true;
        self.sink.write_all(&line)?;
        self.sink.flush()?;
        self.torn = false;
        self.length += line.len() as u64;
        Ok(())
    }

    fn complain(&mut self, error: &io::Error) {
        if self
            .complained
            .is_none_or(|last| last.elapsed() >= COMPLAINT_EVERY)
        {
            self.complained = Some(Instant::now());
            tracing::error!("events are being lost: {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
