use super::*;
use asgc_core::event::{Leave, RunEnd};

fn event(number: u64) -> Event {
    Event::Leave(Leave {
        worker_id: None,
        role: "evaluator".into(),
        reason: format!("number {number}"),
        uplink_frame_bytes: number,
        downlink_frame_bytes: 0,
        elapsed_s: 0.5,
    })
}

const LONG: Duration = Duration::from_secs(60);

fn lines(path: &Path) -> Vec<Event> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Opens a log whose last holder is gone. Another test of this process may just be starting a program, which holds
/// a copy of every open file, the lock among them, for the moment between fork and exec.
fn open_after_close(dir: &Path) -> EventLog {
    loop {
        match EventLog::open(dir, 0) {
            Err(OpenError::InUse { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn writes_a_line_an_event_and_keeps_the_log_before() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("results/a");
    for round in 0..3 {
        let log = open_after_close(&run);
        log.write(event(round));
        log.write(event(round + 10));
        assert_eq!(log.close(LONG), Report { written: 2, lost: 0 });
    }
    assert_eq!(lines(&run.join(EVENTS_FILE)), [event(2), event(12)]);
    assert_eq!(
        lines(&run.join(PREVIOUS_DIR).join(EVENTS_FILE)),
        [event(1), event(11)]
    );
    let text = fs::read_to_string(run.join(EVENTS_FILE)).unwrap();
    assert!(text.starts_with(r#"{"event":"leave","#), "{text}");
}

#[test]
fn a_second_server_is_refused_naming_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path(), 0).unwrap();
    log.write(event(1));
    let error = EventLog::open(dir.path(), 0).unwrap_err().to_string();
    let expect = format!(
        "{} is in use by process {} on ",
        dir.path().display(),
        std::process::id()
    );
    assert!(error.starts_with(&expect), "{error}");
    assert!(
        error.ends_with("; stop it, or choose another run.name"),
        "{error}"
    );
    assert_eq!(probe(dir.path()).unwrap_err().to_string(), error);
    // The refused one has not touched the log of the first.
    assert!(!dir.path().join(PREVIOUS_DIR).exists());
    assert_eq!(log.close(LONG).written, 1);
    drop(open_after_close(dir.path()));
}

#[test]
fn what_a_crash_left_in_the_lock_file_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    for left in ["", "1", "process 1 on somewhere\n", "\u{0}\u{0}"] {
        fs::write(dir.path().join(LOCK_FILE), left).unwrap();
        drop(open_after_close(dir.path()));
    }
}

#[test]
fn symlinks_do_not_lead_out_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    std::os::unix::fs::symlink(&outside, run.join(EVENTS_FILE)).unwrap();
    let log = EventLog::open(&run, 0).unwrap();
    log.write(event(1));
    assert_eq!(log.close(LONG).written, 1);
    fs::remove_file(run.join(LOCK_FILE)).unwrap();
    std::os::unix::fs::symlink(&outside, run.join(LOCK_FILE)).unwrap();
    assert!(EventLog::open(&run, 0).is_err());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
}

/// A disk that fails half-way through the third line, and recovers.
struct Flaky {
    file: File,
    calls: u64,
}

impl Write for Flaky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        match self.calls {
            3 => self.file.write(&bytes[..bytes.len() / 2]),
            4 => Err(io::ErrorKind::StorageFull.into()),
            _ => self.file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Flaky {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }
    fn next(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fails_ends_the_log_at_a_whole_line_and_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = Flaky {
        file: File::create(&path).unwrap(),
        calls: 0,
    };
    let log = EventLog::start(path.clone(), sink, lock(dir.path()).unwrap(), 0).unwrap();
    for number in 0..5 {
        log.write(event(number));
    }
    assert_eq!(log.close(LONG), Report { written: 2, lost: 3 });
    assert_eq!(
        lines(&path),
        [event(0), event(1)],
        "no hole, and no half of a line"
    );
}

/// A file that is full from the start.
struct Full(File);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Full {
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn next(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_events_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let full = Full(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let log = EventLog::start("/dev/full".into(), full, lock(dir.path()).unwrap(), 0).unwrap();
    for number in 0..10 {
        log.write(event(number));
    }
    while !log.failed() {
        std::thread::yield_now();
    }
    log.write(event(10));
    assert_eq!(log.close(LONG), Report { written: 0, lost: 11 });
}

#[test]
fn a_log_goes_on_in_the_next_piece() {
    let dir = tempfile::tempdir().unwrap();
    let line = serde_json::to_vec(&event(0)).unwrap().len() as u64 + 1;
    // Two lines a piece.
    let log = EventLog::open(dir.path(), 2 * line + 1).unwrap();
    (0..5).for_each(|number| log.write(event(number)));
    assert_eq!(log.close(LONG), Report { written: 5, lost: 0 });
    let piece = |name: &str| lines(&dir.path().join(name));
    assert_eq!(piece(&segment_name(1)), [event(0), event(1)]);
    assert_eq!(piece(&segment_name(2)), [event(2), event(3)]);
    assert_eq!(piece(EVENTS_FILE), [event(4)]);
    // The next run puts all of it away, and its own pieces begin anew.
    drop(open_after_close(dir.path()));
    let previous = dir.path().join(PREVIOUS_DIR);
    assert_eq!(lines(&previous.join(segment_name(2))), [event(2), event(3)]);
    assert_eq!(log_files(dir.path()).unwrap(), [EVENTS_FILE]);
    drop(open_after_close(dir.path()));
    assert_eq!(
        log_files(&previous).unwrap(),
        [EVENTS_FILE],
        "nothing older stays"
    );
}

#[test]
fn a_line_longer_than_a_piece_has_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path(), 1).unwrap();
    (0..3).for_each(|number| log.write(event(number)));
    assert_eq!(log.close(LONG).written, 3);
    assert_eq!(lines(&dir.path().join(segment_name(1))), [event(0)]);
    assert_eq!(lines(&dir.path().join(EVENTS_FILE)), [event(2)]);
}

/// A disk that never answers until it is released.
struct Hanging(std::sync::mpsc::Receiver<()>);

impl Write for Hanging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Hanging {
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn next(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_hangs_holds_up_neither_training_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (release, held) = channel();
    let log = EventLog::start("x".into(), Hanging(held), lock(dir.path()).unwrap(), 0).unwrap();
    for number in 0..QUEUE as u64 + 5 {
        log.write(event(number));
    }
    assert!(log.lost() >= 4, "{}", log.lost());
    let lost = log.lost();
    assert_eq!(
        log.close(Duration::from_millis(1)),
        Report {
            written: 0,
            lost: lost + 1
        }
    );
    drop(release);
}

#[test]
fn every_field_of_an_event_survives_the_log() {
    let end = Event::RunEnd(RunEnd {
        applied_updates: 3,
        rejected_updates: 1,
        rejected_frac: 0.25,
        total_bytes: u64::MAX,
        received_bytes: 0,
        raw_bytes: 1,
        compression_ratio: 0.1 + 0.2,
        updates_per_sec: 1e-300,
        elapsed_s: 2.0,
        mean_staleness: 0.5,
        max_staleness: 2,
        final_test_accuracy: None,
        final_test_loss: Some(0.1),
        uplink_frame_bytes: 1,
        downlink_frame_bytes: 2,
        reason: "quotes \" and\nlines".into(),
    });
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path(), 0).unwrap();
    log.write(end.clone());
    let path = log.path().to_owned();
    assert_eq!(log.close(LONG).lost, 0);
    assert_eq!(lines(&path), [end]);
}
