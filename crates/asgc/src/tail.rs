//! Follows an `events.jsonl` that a server is writing.

use asgc_core::event::{Event, segment_name};
use asgc_lab::log::{Damage, Parser};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A log that grows. It need not be there yet, and may be replaced by a new one.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    inode: u64,
    /// Bytes of whole lines that were read. What follows is read again each time: the server cuts half a
    /// line off when the disk was full, so only whole lines stay.
    whole: u64,
    parser: Parser,
}

/// The log cannot be followed further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TailError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// The events that came since the last call; none while there is no file.
    pub(crate) fn poll(&mut self) -> Result<Vec<Event>, TailError> {
        let inode = match self.path.metadata() {
            Ok(meta) => meta.ino(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut events = Vec::new();
        let open = match self.open.take() {
            Some(open) if open.inode == inode => open,
            Some(full) => {
                events = self.finish(full)?;
                Open::new(&self.path)?
            }
            None => Open::new(&self.path)?,
        };
        events.extend(self.open.insert(open).poll()?);
        Ok(events)
    }

    /// The rest of a file that became a piece of the log, and the pieces that were filled since. A file that is no
    /// piece belongs to an earlier run, of which nobody wants to know any more.
    fn finish(&self, mut full: Open) -> Result<Vec<Event>, TailError> {
        let piece = |number| self.path.with_file_name(segment_name(number));
        let is_full = |number: &u32| {
            piece(*number)
                .metadata()
                .is_ok_and(|meta| meta.ino() == full.inode)
        };
        let there = (1..)
            .take_while(|&number| piece(number).exists())
            .collect::<Vec<u32>>();
        let Some(at) = there.iter().position(is_full) else {
            return Ok(Vec::new());
        };
        let mut events = full.poll()?;
        for &number in there.iter().skip(at + 1) {
            events.extend(Open::new(&piece(number))?.poll()?);
        }
        Ok(events)
    }
}

impl Open {
    fn new(path: &Path) -> Result<Self, TailError> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Self {
            file,
            inode,
            whole: 0,
            parser: Parser::default(),
        })
    }

    fn poll(&mut self) -> Result<Vec<Event>, TailError> {
        self.file.seek(SeekFrom::Start(self.whole))?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        let lines = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        self.whole += lines as u64;
        Ok(self.parser.push(&bytes[..lines])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    fn line(number: u64) -> String {
        format!(
            r#"{{"event":"eval","version":{number},"test_accuracy":0.5,"test_loss":1.0,"elapsed_s":1.0,"reported_s":1.0,"eval_s":0.1}}"#
        ) + "\n"
    }

    fn versions(tail: &mut Tail) -> Vec<u64> {
        let version = |event| match event {
            Event::Eval(eval) => eval.version.0,
            other => panic!("{other:?}"),
        };
        tail.poll().unwrap().into_iter().map(version).collect()
    }

    #[test]
    fn follows_a_file_that_comes_late_grows_in_pieces_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut tail = Tail::new(path.clone());
        assert!(versions(&mut tail).is_empty());
        let mut file = File::create(&path).unwrap();
        assert!(versions(&mut tail).is_empty());
        let (first, second) = (line(1), line(2));
        file.write_all(first.as_bytes()).unwrap();
        file.write_all(&second.as_bytes()[..20]).unwrap();
        assert_eq!(versions(&mut tail), [1]);
        assert!(versions(&mut tail).is_empty());
        file.write_all(&second.as_bytes()[20..]).unwrap();
        assert_eq!(versions(&mut tail), [2]);

        // Half a line that is cut off again.
        file.write_all(b"{\"event\":\"ev").unwrap();
        assert!(versions(&mut tail).is_empty());
        file.set_len((first.len() + second.len()) as u64).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(line(3).as_bytes()).unwrap();
        assert_eq!(versions(&mut tail), [3]);

        // The next run's server moves the log away.
        fs::rename(&path, dir.path().join("replaced")).unwrap();
        assert!(versions(&mut tail).is_empty());
        fs::write(&path, line(9)).unwrap();
        assert_eq!(versions(&mut tail), [9]);
    }

    #[test]
    fn a_damaged_line_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        fs::write(&path, line(1) + "nonsense\n").unwrap();
        let error = Tail::new(path).poll().unwrap_err().to_string();
        assert_eq!(error, "line 2: expected ident at column 2");
    }

    #[test]
    fn the_log_goes_on_in_the_next_piece() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let piece = |number| dir.path().join(segment_name(number));
        let mut tail = Tail::new(path.clone());
        fs::write(&path, line(1)).unwrap();
        assert_eq!(versions(&mut tail), [1]);
        // Between two looks: one line more, then two changes of file.
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(line(2).as_bytes()).unwrap();
        fs::rename(&path, piece(1)).unwrap();
        fs::write(piece(2), line(3)).unwrap();
        fs::write(&path, line(4)).unwrap();
        assert_eq!(versions(&mut tail), [2, 3, 4]);
        assert_eq!(versions(&mut tail), [0u64; 0]);
    }
}
