//! Events from the bytes of an `events.jsonl`.
//!
//! A server that was killed leaves half a line at the end: that is expected and only noted. A damaged line
//! with others after it is an error, since figures from the rest would be wrong. Kinds of events that this
//! version does not know are skipped and counted.

use asgc_core::event::{Event, segment_name, segment_number};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// A log that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A piece in the middle is not there.
    #[error("{}: is missing, and the log goes on after it", .0.display())]
    Missing(PathBuf),
    /// A line in the middle is not an event.
    #[error("{}:{}: {}", .path.display(), .damage.line, .damage.problem)]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        damage: Damage,
    },
}

/// A line that is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Damage {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// A whole log.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// In the order of the file.
    pub events: Vec<Event>,
    /// Whether half a line at the end was left out.
    pub truncated: bool,
    /// Events of kinds that this version does not know.
    pub unknown: usize,
}

/// Reads a whole log: the file at `path`, and before it the pieces of it that lie beside it.
///
/// # Errors
/// When a file cannot be read, a piece is missing, or a line other than the last is damaged.
pub fn read_log(path: &Path) -> Result<Log, ReadError> {
    let mut events = Vec::new();
    let folded = fold_log(path, |_, event| {
        events.push(event);
        Ok::<(), std::convert::Infallible>(())
    });
    let read = match folded? {
        Folded::Whole(read) => read,
        Folded::Broken(never) => match never {},
    };
    Ok(Log {
        events,
        truncated: read.truncated,
        unknown: read.unknown,
    })
}

/// Where an event stands.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Which file.
    pub path: &'a Path,
    /// Which line, counted from 1.
    pub line: usize,
}

/// What is to be said of a log that was read to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Whether half a line at the end was left out.
    pub truncated: bool,
    /// Events of kinds that this version does not know.
    pub unknown: usize,
}

/// How reading ended.
#[derive(Debug)]
pub enum Folded<E> {
    /// At the end of the log.
    Whole(Read),
    /// Where the fold said so.
    Broken(E),
}

/// Gives the events of a log to `take`, one by one and in order, with the places where they stand.
///
/// # Errors
/// As [`read_log`].
pub fn fold_log<E>(
    path: &Path,
    mut take: impl FnMut(&Place<'_>, Event) -> Result<(), E>,
) -> Result<Folded<E>, ReadError> {
    let files = pieces(path)?;
    let mut read = Read::default();
    for (number, file) in files.iter().enumerate() {
        let last = number + 1 == files.len();
        let bytes = open(file)?;
        let mut reader = BufReader::new(bytes);
        let mut line = Vec::new();
        for at in 1.. {
            line.clear();
            let length = reader
                .read_until(b'\n', &mut line)
                .map_err(|source| io_error(file, source))?;
            if length == 0 {
                break;
            }
            let place = Place { path: file, line: at };
            match parse_line(line.trim_ascii_end()) {
                Ok(Some(event)) => {
                    if let Err(broken) = take(&place, event) {
                        return Ok(Folded::Broken(broken));
                    }
                }
                Ok(None) => read.unknown += 1,
                // Half a line, which only the end of a log may have.
                Err(_) if last && !line.ends_with(b"\n") => read.truncated = true,
                Err(problem) => {
                    let damage = Damage { line: at, problem };
                    let path = file.clone();
                    return Err(ReadError::Damaged { path, damage });
                }
            }
        }
    }
    Ok(Folded::Whole(read))
}

/// The files of a log, in order.
fn pieces(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let mut files = Vec::new();
    if path.file_name().is_some_and(|name| name == "events.jsonl") {
        let mut numbers = BTreeSet::new();
        for entry in fs::read_dir(dir).map_err(|source| io_error(dir, source))? {
            let name = entry.map_err(|source| io_error(dir, source))?.file_name();
            numbers.extend(segment_number(&name.to_string_lossy()));
        }
        for (expected, number) in (1..).zip(numbers) {
            if number != expected {
                return Err(ReadError::Missing(dir.join(segment_name(expected))));
            }
            files.push(dir.join(segment_name(number)));
        }
    }
    files.push(path.to_owned());
    Ok(files)
}

fn open(path: &Path) -> Result<File, ReadError> {
    File::open(path).map_err(|source| io_error(path, source))
}

fn io_error(path: &Path, source: io::Error) -> ReadError {
    ReadError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Takes the bytes of a log as they come, in pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    lines: usize,
    unknown: usize,
}

impl Parser {
    /// The events whose lines `bytes` completes.
    ///
    /// # Errors
    /// At the first whole line that is not an event; the lines after it are not looked at.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Damage> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                break;
            }
            self.lines += 1;
            let parsed = parse_line(self.partial.trim_ascii_end());
            self.partial.clear();
            match parsed.map_err(|problem| Damage {
                line: self.lines,
                problem,
            })? {
                Some(event) => events.push(event),
                None => self.unknown += 1,
            }
        }
        Ok(events)
    }

    /// The bytes of a line that has not ended.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.partial
    }
}

/// The event of a line; `None` when it is of a kind that this version does not know.
fn parse_line(line: &[u8]) -> Result<Option<Event>, String> {
    let error = match serde_json::from_slice(line) {
        Ok(event) => return Ok(Some(event)),
        // Which line it is only the caller knows.
        Err(error) => error.to_string().replace(" at line 1 column ", " at column "),
    };
    // An event of a known kind that lacks everything fails over a field; one of an unknown kind over its kind.
    let kind = serde_json::from_slice::<serde_json::Value>(line)
        .ok()
        .and_then(|value| value.get("event").cloned())
        .filter(serde_json::Value::is_string)
        .ok_or(error.as_str())?;
    let bare = serde_json::json!({ "event": kind });
    match serde_json::from_value::<Event>(bare) {
        Err(of_kind) if of_kind.to_string().starts_with("unknown variant") => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    const EVAL: &str = r#"{"event":"eval","version":5,"test_accuracy":0.5,"test_loss":1.5,"elapsed_s":2.0,"reported_s":2.5,"eval_s":0.4}"#;

    fn read(text: &[u8]) -> Result<Log, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        fs::write(&path, text).unwrap();
        read_log(&path).map_err(|error| {
            error
                .to_string()
                .replace(&format!("{}/", dir.path().display()), "")
        })
    }

    #[test]
    fn half_a_last_line_is_noted_and_left_out() {
        let whole = format!("{EVAL}\n{EVAL}\n");
        assert!(!read(whole.as_bytes()).unwrap().truncated);
        for cut in EVAL.len() + 2..whole.len() - 2 {
            let log = read(&whole.as_bytes()[..cut]).unwrap();
            assert_eq!((log.events.len(), log.truncated), (1, true), "cut at {cut}");
        }
        // Only the line's end is missing: nothing is lost.
        let log = read(&whole.as_bytes()[..whole.len() - 1]).unwrap();
        assert_eq!((log.events.len(), log.truncated), (2, false));
        // What some file systems leave after a power cut.
        let log = read(format!("{EVAL}\n\0\0\0\0").as_bytes()).unwrap();
        assert_eq!((log.events.len(), log.truncated), (1, true));
        assert_eq!(
            read(b"").unwrap(),
            Log {
                events: vec![],
                truncated: false,
                unknown: 0
            }
        );
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_an_error_with_its_number() {
        let check = |middle: &str, expect: &str| {
            assert_eq!(
                read(format!("{EVAL}\n{middle}\n{EVAL}\n").as_bytes()).unwrap_err(),
                expect
            );
        };
        check("{", "events.jsonl:2: EOF while parsing an object at column 1");
        check(
            "[1]",
            "events.jsonl:2: invalid type: integer `1`, expected variant identifier at column 2",
        );
        check(r#"{"event":"eval"}"#, "events.jsonl:2: missing field `version`");
        check(
            r#"{"kind":"eval"}"#,
            "events.jsonl:2: missing field `event` at column 15",
        );
    }

    #[test]
    fn kinds_and_fields_of_newer_versions_are_let_pass() {
        let text = format!(
            "{EVAL}\n{{\"event\":\"checkpoint\",\"elapsed_s\":1}}\n{}\n",
            EVAL.replace('}', ",\"new\":1}")
        );
        let log = read(text.as_bytes()).unwrap();
        assert_eq!((log.events.len(), log.unknown), (2, 1));
    }

    #[test]
    fn floats_come_back_exactly() {
        let mut bits = 0x3ff0_0000_0000_0001_u64;
        for _ in 0..10_000 {
            // An odd step through the fractions of numbers between 1 and 2.
            bits = 0x3ff0_0000_0000_0000 | (bits.wrapping_mul(6_364_136_223_846_793_005) >> 12);
            let value = f64::from_bits(bits);
            let event = samples::eval(1, value, value, value);
            let line = serde_json::to_vec(&event).unwrap();
            assert_eq!(parse_line(&line).unwrap(), Some(event));
        }
    }

    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        let events = samples::run();
        let text: String = events
            .iter()
            .map(|e| serde_json::to_string(e).unwrap() + "\n")
            .collect();
        for size in [1, 7, 100, text.len()] {
            let mut parser = Parser::default();
            let parsed: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|c| parser.push(c).unwrap())
                .collect();
            assert_eq!(parsed, events, "pieces of {size}");
            assert!(parser.rest().is_empty());
        }
    }

    #[test]
    fn a_log_in_pieces_reads_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let line = |version| serde_json::to_string(&samples::eval(version, 0.5, 1.0, 1.0)).unwrap() + "\n";
        fs::write(dir.path().join(segment_name(1)), line(1) + &line(2)).unwrap();
        fs::write(dir.path().join(segment_name(2)), line(3)).unwrap();
        fs::write(&path, line(4) + "{\"eve").unwrap();
        let log = read_log(&path).unwrap();
        assert_eq!((log.events.len(), log.truncated), (4, true));
        // A single piece can be read by its own name.
        assert_eq!(
            read_log(&dir.path().join(segment_name(1))).unwrap().events.len(),
            2
        );
        fs::write(dir.path().join(segment_name(1)), line(1) + "{\"eve").unwrap();
        let error = read_log(&path).unwrap_err().to_string();
        assert!(error.contains("events.00001.jsonl:2: "), "{error}");
        fs::remove_file(dir.path().join(segment_name(1))).unwrap();
        let error = read_log(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("events.00001.jsonl: is missing, and the log goes on after it"),
            "{error}"
        );
    }
}
