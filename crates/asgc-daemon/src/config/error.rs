//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file, and the line where it is known.
    File(PathBuf, Option<usize>),
    /// An environment variable.
    Env(String),
    /// A `--set` flag.
    Set,
    /// A flag of the program itself, or of its caller.
    Flag,
    /// The settings that the server sent.
    Peer,
    /// Nobody set it.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Set => f.write_str("--set"),
            Self::Flag => f.write_str("command line"),
            Self::Peer => f.write_str("settings from the server"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// What is wrong, the key named first where there is one.
    pub text: String,
}

impl Problem {
    pub(super) fn new(place: Place, text: impl Into<String>) -> Self {
        Self {
            place,
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Everything that is wrong with a configuration, one problem a line. Nothing falls back to a default.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct ConfigError {
    /// Never empty.
    pub problems: Vec<Problem>,
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
