//! YAML as the reference reads it.

use crate::{load, ours, theirs, try_load};
use asgc_core::config::{CompressionMode, Config, ControlPolicy, Dataset, Model, ScoreWeights};
use serde_json::{Value, json};
use std::fs;

const HEADLINE: [&str; 7] = [
    "sync_sgd",
    "async_plain",
    "async_fixed_staleness",
    "async_fixed_topk",
    "async_topk_ef",
    "adaptive",
    "adaptive_persistent",
];

/// All that the reference sets where its users set nothing, but for `run.name`, which they must set.
fn defaults() -> Value {
    json!({
        "run": {"seed": 0, "results_dir": "results", "data_root": "data", "device": "auto"},
        "workload": {
            "dataset": "fashion_mnist", "model": "small_cnn", "batch_size": 128, "num_workers": 3, "lr": 0.05,
            "lr_decay_frac": 0.0, "lr_gamma": 0.1, "max_updates": 500, "max_wall_time_s": 600.0,
            "eval_interval": 50, "target_accuracy": null, "sync": false,
        },
        "heterogeneity": {"compute_delay": {}, "comm_delay_ms": 0.0, "bandwidth_mbps": 0.0},
        "compression": {"mode": "identity", "rho": 0.25, "bits": 8},
        "staleness": {"enabled": false, "s_low": 2, "s_max": 6, "beta": 0.5},
        "error_feedback": {"enabled": false},
        "controller": {
            "enabled": false, "interval_s": 30.0, "policy": "threshold", "adapt_compression": true,
            "adapt_staleness": true, "instability_persistence": 1, "worsen_tol": 0.01, "variability_tol": 0.02,
            "reject_frac_max": 0.15, "comm_pressure_min": 1e6,
            "score_weights": {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0},
            "rho_bounds": [0.05, 0.5], "bits_bounds": [2, 8], "s_max_bounds": [2, 10], "max_delta_rho": 0.05,
            "max_delta_bits": 1, "max_delta_s_max": 1,
        },
    })
}

/// Each `section.key` of the reference with its value.
fn each_key(of: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (section, keys) in of.as_object().unwrap() {
        for (key, value) in keys.as_object().unwrap() {
            found.push((section.clone(), key.clone(), value.clone()));
        }
    }
    found
}

/// What loading `text` as YAML gives; messages without the folder.
fn read(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    fs::write(&path, text).unwrap();
    try_load(path).map_err(|error| {
        error
            .to_string()
            .replace(&format!("{}/", folder.path().display()), "")
    })
}

#[test]
fn the_headline_files_say_the_same_in_both_formats() {
    for name in HEADLINE {
        let yaml = load(theirs(&format!("{name}.yaml")));
        assert_eq!(
            yaml,
            load(ours(&format!("fmnist_headline/{name}.toml"))),
            "{name}"
        );
        assert_eq!(yaml.run.name, name);
    }
}

#[test]
fn every_key_arrives_where_it_belongs() {
    let mut expect = Config::default();
    expect.run.name = "every_key".into();
    expect.run.seed = 7;
    expect.run.results_dir = "elsewhere/results".into();
    expect.run.data_root = "elsewhere/data".into();
    expect.run.device = "cpu".into();
    let w = &mut expect.workload;
    (w.dataset, w.model) = (Dataset::Cifar10, Model::Resnet18);
    (w.batch_size, w.num_workers) = (64, 4);
    (w.lr, w.lr_decay_frac, w.lr_gamma) = (1.0, 0.5, 0.2);
    (w.max_updates, w.max_wall_time_s, w.eval_interval) = (700, 90.0, 35);
    (w.target_accuracy, w.sync) = (None, false);
    expect.heterogeneity.compute_delay = [(1, 0.3), (3, 2.0)].into();
    expect.heterogeneity.comm_delay_ms = 5.0;
    expect.heterogeneity.bandwidth_mbps = 250.0;
    let c = &mut expect.compression;
    (c.mode, c.rho, c.bits) = (CompressionMode::Quantize, 0.1, 6);
    let s = &mut expect.staleness;
    (s.enabled, s.s_low, s.s_max, s.beta) = (true, 1, 4, 1.0);
    expect.error_feedback.enabled = true;
    let c = &mut expect.controller;
    (c.enabled, c.interval_s, c.policy) = (true, 12.0, ControlPolicy::Score);
    (c.adapt_compression, c.adapt_staleness, c.instability_persistence) = (false, true, 2);
    (c.worsen_tol, c.variability_tol, c.reject_frac_max) = (0.02, 0.03, 0.25);
    c.comm_pressure_min = 2e6;
    let (a, b) = (1.0, 0.5);
    c.score_weights = ScoreWeights { a, b, c: 2.0, d: 0.0 };
    (c.rho_bounds, c.bits_bounds, c.s_max_bounds) = ([0.05, 0.4], [3, 7], [3, 9]);
    (c.max_delta_rho, c.max_delta_bits, c.max_delta_s_max) = (0.1, 2, 3);
    assert_eq!(load(theirs("every_key.yaml")), expect);
}

/// So that the file above cannot lack a key that its name promises.
#[test]
fn the_file_with_every_key_has_every_key() {
    let text = fs::read_to_string(theirs("every_key.yaml")).unwrap();
    for (section, key, _) in each_key(&defaults()) {
        let (_, rest) = text.split_once(&format!("\n{section}:\n")).unwrap();
        let body = rest.split("\n\n").next().unwrap();
        assert!(body.contains(&format!("  {key}: ")), "{section}.{key}");
    }
}

#[test]
fn what_is_absent_has_the_defaults_of_the_reference() {
    let config = read("run: {name: bare}\n").unwrap();
    let mut plain = Config::default();
    plain.run.name = "bare".into();
    assert_eq!(config, plain);
    let config = serde_json::to_value(config).unwrap();
    for (section, key, value) in each_key(&defaults()) {
        assert_eq!(config[&section][&key], value, "{section}.{key}");
    }
}

/// A file with some keys of a section does not lose the section's other defaults.
#[test]
fn every_default_may_be_written_out() {
    let mut plain = Config::default();
    plain.run.name = "x".into();
    for (section, key, value) in each_key(&defaults()) {
        let text = if section == "run" {
            format!("run: {{name: x, {key}: {value}}}\n")
        } else {
            format!("run: {{name: x}}\n{section}:\n  {key}: {value}\n")
        };
        assert_eq!(read(&text).as_ref(), Ok(&plain), "{text}");
    }
    for zero in ["0", "0.0"] {
        let text =
            format!("run:\n  name: x\nheterogeneity: {{comm_delay_ms: {zero}, bandwidth_mbps: {zero}}}\n");
        assert_eq!(read(&text).as_ref(), Ok(&plain));
    }
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    for (section, _, _) in each_key(&defaults()) {
        let text = format!("{section}:\n  zzz_unknown: 1\n");
        let error = read(&text).unwrap_err();
        let words = format!("x.yaml:2: {section}.zzz_unknown: unknown key; [{section}] has ");
        assert!(error.starts_with(&words), "{error}");
    }
    let error = read("run: {name: x}\nnetwork:\n  rate: 1\n").unwrap_err();
    assert!(
        error.starts_with("x.yaml:2: network: unknown section; "),
        "{error}"
    );
    let error = read("controller:\n  score_weights: {a: 1, e: 1}\n").unwrap_err();
    assert!(
        error.contains("controller.score_weights") && error.contains("`e`"),
        "{error}"
    );
}

/// Files that the reference takes, and that are errors here, on purpose; `docs/compatibility.md` lists them.
#[test]
fn what_is_refused_all_the_same_is_said() {
    for (text, words) in [
        (
            "controller: {enabled: true}\n",
            "controller.adapt_staleness: needs staleness.enabled",
        ),
        (
            "workload: {sync: true}\nstaleness: {enabled: true}\ncontroller: {enabled: true}\n",
            "controller.adapt_staleness: must be false in sync mode",
        ),
        (
            "compression: {mode: topk, rho: 0.9}\nstaleness: {enabled: true}\ncontroller: {enabled: true}\n",
            "compression.rho: must lie within controller.rho_bounds",
        ),
        (
            "staleness: {enabled: true, s_low: 3}\ncontroller: {enabled: true}\n",
            "controller.s_max_bounds: must not begin below staleness.s_low",
        ),
        ("error_feedback: {enabled: yes}\n", "error_feedback.enabled: "),
        (
            "staleness: &a {enabled: true}\nerror_feedback: *a\n",
            "aliases are not supported",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(words), "{text}{error}");
    }
    let held = "controller: {enabled: true, adapt_staleness: false}\n";
    assert!(read(held).unwrap().controller.enabled);
}
