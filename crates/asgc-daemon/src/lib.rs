//! What both daemons share: configuration, tracing, metrics endpoint, signals.
