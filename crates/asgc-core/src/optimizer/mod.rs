//! The server's update: SGD, and the schedule of its learning rate.

mod schedule;
mod sgd;

pub use schedule::Schedule;
pub use sgd::{Moved, Sgd, Target};
