//! How many sockets the processes may hold.

use anyhow::{Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that a process has open beside its sessions' sockets.
const OTHERS: u64 = 64;

/// Raises the limit on open files for this process and those that it starts, as far as sessions of `workers` need.
pub(super) fn raise(workers: u32) -> Result<()> {
    let need = u64::from(workers) + OTHERS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let Some(limit) = raised(need, (soft, hard)) else {
        bail!(
            "{workers} workers need {need} open files, and this process may have {hard} at most: raise the hard limit \
             (ulimit -Hn, or LimitNOFILE of a systemd unit), or take fewer --workers"
        );
    };
    if limit != soft {
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard)?;
    }
    Ok(())
}

/// The soft limit to set; `None` where the hard one forbids it.
fn raised(need: u64, (soft, hard): (u64, u64)) -> Option<u64> {
    (need <= hard).then_some(soft.max(need))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_rise_as_far_as_needed_and_never_fall() {
        assert_eq!(raised(100, (1024, 4096)), Some(1024));
        assert_eq!(raised(2000, (1024, 4096)), Some(2000));
        assert_eq!(raised(5000, (1024, 4096)), None);
    }
}
