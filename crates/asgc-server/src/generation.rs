//! The count of the server's lives, kept in the run's folder.
//!
//! A server that starts has forgotten what it knew, so each start is a new life. Workers that come back find
//! another generation and know that versions of the old one mean nothing any more.

use asgc_core::ids::Generation;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

const FILE: &str = "generation";

/// Reads the last life's number and writes this one's, durably.
pub(crate) fn begin(run: &Path) -> io::Result<Generation> {
    let path = run.join(FILE);
    let last = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse::<u64>().map_err(|_| damaged(&path, &text))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let this = last + 1;
    let beside = run.join(format!("{FILE}.new"));
    let mut file = fs::File::create(&beside)?;
    writeln!(file, "{this}")?;
    file.sync_all()?;
    fs::rename(&beside, &path)?;
    fs::File::open(run)?.sync_all()?;
    Ok(Generation(this))
}

fn damaged(path: &Path, text: &str) -> io::Error {
    let text: String = text.chars().take(40).collect();
    let path = path.display();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{path} holds {text:?} and not a number; remove it if no worker of the old run is left"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_has_the_next_number() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(begin(dir.path()).unwrap(), Generation(1));
        assert_eq!(begin(dir.path()).unwrap(), Generation(2));
        fs::write(dir.path().join(FILE), "rubbish").unwrap();
        assert!(begin(dir.path()).unwrap_err().to_string().contains("\"rubbish\""));
    }
}
