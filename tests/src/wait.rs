//! Waiting for conditions: no test sleeps for a time that somebody guessed.

use std::future::Future;
use std::time::{Duration, Instant};

/// Far beyond what anything here takes, on a machine however busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(3);

/// Asks again and again until there is an answer; panics with `what` when there never is.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited {DEADLINE:?} in vain for {what}"
        );
        std::thread::sleep(POLL);
    }
}

/// Awaits `future`; panics with `what` when it takes for ever.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {DEADLINE:?} in vain for {what}"),
    }
}
