//! The worker daemon.
