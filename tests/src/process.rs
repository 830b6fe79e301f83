//! A program under test: its log goes to a file, and it never outlives the test.

use crate::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running, or ended, program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints goes to the file `log`. Settings in this process's environment do not
    /// reach it.
    #[must_use]
    pub fn start(program: &Path, args: &[String], log: &Path) -> Self {
        let file = File::create(log).unwrap();
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name
                .to_string_lossy()
                .starts_with(asgc_daemon::config::ENV_PREFIX)
            {
                command.env_remove(name);
            }
        }
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("{}: {error}", program.display())),
            log: log.to_owned(),
        }
    }

    /// The process's number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// SIGKILL, and the end of it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end; the exit code, or `None` after a signal.
    pub fn wait(&mut self) -> Option<i32> {
        let what = format!("the end of process {} ({})", self.id(), self.log.display());
        until(&what, || self.ended()).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.log.display(), self.log());
        }
    }
}
