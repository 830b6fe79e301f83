//! A worker's session with the parameter server.
