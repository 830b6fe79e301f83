//! The parameter server.
