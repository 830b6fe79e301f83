//! `run`, `workload` and `heterogeneity`.

use super::{Rule, SECONDS, is_duration};
use crate::config::{Config, Dataset, Model};

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    check_run(config, rule);
    check_workload(config, rule);
    check_heterogeneity(config, rule);
}

/// Whether `name` can be a folder of its own: no path, no control characters, no device name.
#[must_use]
fn is_plain_name(name: &str) -> bool {
    let reserved = ["con", "nul", "prn", "aux"];
    !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && !reserved.contains(&name.to_ascii_lowercase().as_str())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.+=".contains(c))
}

fn check_run(config: &Config, rule: &mut Rule<'_>) {
    let run = &config.run;
    rule(
        is_plain_name(&run.name),
        "run.name",
        "must be 1 to 100 letters, digits or any of - _ . + =, and must not start with a dot",
    );
    let device = run.device.as_str();
    let numbered = device
        .strip_prefix("cuda:")
        .is_some_and(|n| n.parse::<u32>().is_ok());
    rule(
        matches!(device, "auto" | "cpu" | "cuda") || numbered,
        "run.device",
        "must be auto, cpu, cuda or cuda:N",
    );
}

fn check_workload(config: &Config, rule: &mut Rule<'_>) {
    let w = &config.workload;
    rule(w.batch_size > 0, "workload.batch_size", "must be at least 1");
    rule(w.num_workers > 0, "workload.num_workers", "must be at least 1");
    rule(
        w.lr.is_finite() && w.lr > 0.0,
        "workload.lr",
        "must be a number above 0",
    );
    rule(
        (0.0..=1.0).contains(&w.lr_decay_frac),
        "workload.lr_decay_frac",
        "must lie between 0 and 1",
    );
    rule(
        w.lr_gamma.is_finite() && w.lr_gamma > 0.0,
        "workload.lr_gamma",
        "must be a number above 0",
    );
    rule(w.max_updates > 0, "workload.max_updates", "must be at least 1");
    rule(
        is_duration(w.max_wall_time_s) && w.max_wall_time_s > 0.0,
        "workload.max_wall_time_s",
        SECONDS,
    );
    rule(
        w.eval_interval > 0,
        "workload.eval_interval",
        "must be at least 1 version",
    );
    rule(
        w.target_accuracy.is_none_or(|a| (0.0..=1.0).contains(&a)),
        "workload.target_accuracy",
        "is a fraction between 0 and 1",
    );
    let fits = matches!(
        (w.dataset, w.model),
        (Dataset::Cifar10, Model::Resnet8 | Model::Resnet18)
            | (
                Dataset::FashionMnist | Dataset::Procedural,
                Model::SmallCnn | Model::ToyCnn
            )
            | (Dataset::Synthetic, Model::Quadratic | Model::Logistic)
    );
    rule(
        fits,
        "workload.model",
        "does not fit workload.dataset: small_cnn and toy_cnn read fashion_mnist and procedural, resnet8 and resnet18 read \
         cifar10, quadratic and logistic are synthetic",
    );
}

fn check_heterogeneity(config: &Config, rule: &mut Rule<'_>) {
    let h = &config.heterogeneity;
    rule(
        h.compute_delay.values().all(|&d| is_duration(d)),
        "heterogeneity.compute_delay",
        SECONDS,
    );
    rule(
        is_duration(h.comm_delay_ms),
        "heterogeneity.comm_delay_ms",
        "must be a number of ms, 0 or more",
    );
    rule(
        h.bandwidth_mbps.is_finite() && h.bandwidth_mbps >= 0.0,
        "heterogeneity.bandwidth_mbps",
        "must be a number of Mbit/s, or 0 for no limit",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_lead_out_of_their_folder() {
        for bad in [
            "", ".", "..", "../x", "/etc/x", "a/b", "CON", "a\0b", ".hidden", "a b",
        ] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(!is_plain_name(&"x".repeat(300)));
        assert!(is_plain_name("fmnist_headline-s0.1"));
    }
}
