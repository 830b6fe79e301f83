//! Forward and backward alone: the rate that a worker could reach if communication were free.

use asgc_core::ids::WorkerId;
use asgc_daemon::Daemon;
use asgc_daemon::exit::BoxError;
use asgc_nn::Torch;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Steps before the clock starts: libtorch chooses its kernels in the first ones.
const WARM_UP: u32 = 5;

/// What is printed.
#[derive(serde::Serialize)]
struct Rate {
    steps: u64,
    elapsed_s: f64,
}

/// Computes gradients on one batch for `seconds` and prints the rate as one line of JSON.
pub(crate) async fn compute(daemon: Daemon, seconds: f64) -> Result<ExitCode, BoxError> {
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| format!("--seconds: {error}"))?;
    let torch = Torch::new(&daemon.config);
    let worker = WorkerId(daemon.config.worker.id.unwrap_or(0));
    let spec = torch.trainer_spec(worker);
    let seed = daemon.config.run.seed;
    let rate = tokio::task::spawn_blocking(move || measure(&spec, seed, duration)).await??;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&rate)?)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(spec: &asgc_nn::TrainerSpec, seed: u64, duration: Duration) -> Result<Rate, BoxError> {
    let mut trainer = asgc_nn::Trainer::new(spec)?;
    trainer.set_parameters(&asgc_nn::initial_parameters(spec.model, seed)?)?;
    let batch = trainer.next_batch()?;
    let mut gradient = vec![0.0; trainer.layout().parameters()];
    for _ in 0..WARM_UP {
        trainer.gradient(&batch, &mut gradient)?;
    }
    let began = Instant::now();
    let mut steps = 0;
    while began.elapsed() < duration {
        trainer.gradient(&batch, &mut gradient)?;
        steps += 1;
    }
    Ok(Rate {
        steps,
        elapsed_s: began.elapsed().as_secs_f64(),
    })
}
