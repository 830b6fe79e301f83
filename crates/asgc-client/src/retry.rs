//! When to try again: exponential backoff with full jitter, within a budget of time.

use crate::Error;
use std::time::Duration;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// A series of tries.
#[derive(Debug)]
pub(crate) struct Retry {
    address: String,
    budget: Duration,
    began: Instant,
    ceiling: Duration,
}

impl Retry {
    pub(crate) fn new(address: &str, budget: Duration) -> Self {
        Self {
            address: address.to_owned(),
            budget,
            began: Instant::now(),
            ceiling: FIRST,
        }
    }

    /// Waits for the next try, or gives up.
    pub(crate) async fn wait(&mut self, last: String) -> Result<(), Error> {
        let spent = self.began.elapsed();
        if spent >= self.budget {
            let seconds = spent.as_secs_f64();
            return Err(Error::GaveUp {
                address: self.address.clone(),
                seconds,
                last,
            });
        }
        tracing::debug!(address = %self.address, error = %last, "trying again");
        // Jitter keeps a thousand workers from coming back in the same instant.
        let wait = self
            .ceiling
            .mul_f64(rand::random::<f64>())
            .min(self.budget - spent);
        self.ceiling = (self.ceiling * 2).min(LONGEST);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_budget_is_spent_and_not_exceeded() {
        let began = Instant::now();
        let mut retry = Retry::new("http://x", Duration::from_secs(60));
        let mut tries = 0;
        let error = loop {
            match retry.wait("refused".into()).await {
                Ok(()) => tries += 1,
                Err(error) => break error,
            }
        };
        assert!(tries > 10, "{tries} tries");
        assert_eq!(began.elapsed().as_secs(), 60);
        assert!(error.to_string().contains("http://x for 60 s"), "{error}");
    }
}
