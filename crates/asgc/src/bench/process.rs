//! What a process has used, as the kernel counts it.

use anyhow::{Context as _, Result};
use std::fs;

/// CPU seconds of all threads of a process, user and system.
pub(super) fn cpu_s(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = ticks(&text).with_context(|| format!("{path} cannot be understood"))?;
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100);
    Ok(ticks as f64 / hertz as f64)
}

/// `utime + stime` of a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // The program's name is in brackets and may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The most memory that a process ever held, in bytes.
pub(super) fn peak_memory(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    kibibytes(&text, "VmHWM:").with_context(|| format!("{path} names no VmHWM"))
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number = line.trim().strip_suffix("kB")?.trim();
    Some(number.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 130 20 0 0 20 0 4 0 99";
        assert_eq!(ticks(stat), Some(150));
        assert_eq!(ticks("42 (a"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn the_peak_is_found_by_name() {
        let status = "Name:\tasgc\nVmPeak:\t  90 kB\nVmHWM:\t    12 kB\nVmRSS:\t 11 kB\n";
        assert_eq!(kibibytes(status, "VmHWM:"), Some(12 << 10));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        assert!(cpu_s(own).unwrap() >= 0.0);
        assert!(peak_memory(own).unwrap() > 0);
    }
}
