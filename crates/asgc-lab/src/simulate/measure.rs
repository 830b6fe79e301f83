//! How long a step takes on this machine.

use asgc_core::ids::WorkerId;
use asgc_core::task::{BoxError, Task};
use std::time::Instant;

/// Steps before the clock starts: libraries choose their kernels in the first ones.
const WARM_UP: usize = 3;
const STEPS: usize = 9;

/// Seconds of one gradient of worker 0, batch included: the median of some, one at a time on an otherwise idle process.
///
/// # Errors
/// Those of the task.
pub fn step_s(task: &dyn Task) -> Result<f64, BoxError> {
    let mut trainer = task.trainer(WorkerId(0))?;
    let parameters = task.initial_parameters()?;
    let mut gradient = vec![0.0; parameters.len()];
    trainer.set_parameters(&parameters)?;
    let mut times = Vec::with_capacity(STEPS);
    for step in 0..WARM_UP + STEPS {
        let began = Instant::now();
        trainer.next_batch()?;
        trainer.gradient(&mut gradient)?;
        if step >= WARM_UP {
            times.push(began.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    // A clock's grain must not make a step take no time at all.
    Ok(times[STEPS / 2].max(1e-9))
}
