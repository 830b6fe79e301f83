//! The values of the reference's experiment files, held against ours to the letter.
//!
//! A file is its defaults and what is said of it here; nothing else may be set.

use crate::{load, ours};
use asgc_core::config::{CompressionMode, Config, ControlPolicy, Dataset, Model};
use std::path::PathBuf;

type Change = fn(&mut Config);

/// Updates, seconds, versions between evaluations.
type Budget = (u64, f64, u64);

const HEADLINE: Budget = (3000, 1200.0, 250);
const ROUNDS: Budget = (1500, 1200.0, 250);
const LONG: Budget = (20_000, 420.0, 500);
const CIFAR: Budget = (6000, 21_600.0, 500);

fn sync(c: &mut Config) {
    c.workload.sync = true;
}

fn topk(c: &mut Config) {
    (c.compression.mode, c.compression.rho) = (CompressionMode::Topk, 0.25);
}

fn quantize(c: &mut Config) {
    (c.compression.mode, c.compression.bits) = (CompressionMode::Quantize, 8);
}

fn feedback(c: &mut Config) {
    c.error_feedback.enabled = true;
}

fn bounded(c: &mut Config) {
    let s = &mut c.staleness;
    (s.enabled, s.s_low, s.s_max, s.beta) = (true, 1, 4, 0.5);
}

fn every(c: &mut Config, seconds: f64) {
    let controller = &mut c.controller;
    (controller.enabled, controller.policy, controller.interval_s) =
        (true, ControlPolicy::Threshold, seconds);
}

fn every_8_s(c: &mut Config) {
    every(c, 8.0);
}

fn every_15_s(c: &mut Config) {
    every(c, 15.0);
}

fn every_30_s(c: &mut Config) {
    every(c, 30.0);
}

fn delayed(c: &mut Config, worker: u32, seconds: f64) {
    c.heterogeneity.compute_delay.insert(worker, seconds);
}

fn no_decay(c: &mut Config) {
    c.workload.lr_decay_frac = 0.0;
}

fn target_85(c: &mut Config) {
    c.workload.target_accuracy = Some(0.85);
}

/// ResNet-18 with two slow workers of three.
fn cifar(c: &mut Config) {
    (c.workload.dataset, c.workload.model, c.workload.lr) = (Dataset::Cifar10, Model::Resnet18, 0.02);
    delayed(c, 1, 0.5);
    delayed(c, 2, 1.5);
}

fn target_80(c: &mut Config) {
    c.workload.target_accuracy = Some(0.8);
}

fn narrow(c: &mut Config) {
    c.heterogeneity.bandwidth_mbps = 250.0;
}

fn check(folder: &str, files: &[(&str, Budget, &[Change])], of_all: &[Change]) {
    for (name, (updates, seconds, versions), changes) in files {
        let mut expect = Config::default();
        expect.run.name = (*name).to_owned();
        let w = &mut expect.workload;
        (w.max_updates, w.max_wall_time_s, w.eval_interval) = (*updates, *seconds, *versions);
        (w.batch_size, w.num_workers, w.lr_decay_frac) = (128, 3, 0.5);
        for change in of_all.iter().chain(*changes) {
            change(&mut expect);
        }
        assert_eq!(
            load(ours(&format!("{folder}/{name}.toml"))),
            expect,
            "{folder}/{name}"
        );
    }
    let there = ours(folder)
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let there = there.filter(|path| path.is_file()).count();
    assert_eq!(there, files.len(), "{folder} has other files too");
}

#[test]
fn smoke() {
    let mild: Change = |c| delayed(c, 1, 0.05);
    let slow: Change = |c| delayed(c, 1, 0.3);
    let slower: Change = |c| delayed(c, 1, 0.5);
    let files: [(&str, Budget, &[Change]); 7] = [
        ("smoke_fmnist", (5000, 600.0, 500), &[mild]),
        ("smoke_fmnist_staleness", (3000, 480.0, 500), &[slower, bounded]),
        ("smoke_fmnist_compression", (3000, 480.0, 500), &[topk]),
        ("smoke_fmnist_topk_ef", (3000, 480.0, 500), &[topk, feedback]),
        (
            "smoke_fmnist_adaptive",
            (2500, 480.0, 250),
            &[slow, topk, feedback, bounded, every_8_s],
        ),
        ("smoke_fmnist_sync", (600, 600.0, 200), &[mild, sync]),
        ("smoke_cifar", (600, 1800.0, 200), &[cifar]),
    ];
    check("smoke", &files, &[]);
}

#[test]
fn headline() {
    let slow: Change = |c| delayed(c, 1, 0.3);
    let twice: Change = |c| c.controller.instability_persistence = 2;
    let files: [(&str, Budget, &[Change]); 7] = [
        ("sync_sgd", ROUNDS, &[sync]),
        ("async_plain", HEADLINE, &[]),
        ("async_fixed_staleness", HEADLINE, &[bounded]),
        ("async_fixed_topk", HEADLINE, &[topk]),
        ("async_topk_ef", HEADLINE, &[topk, feedback]),
        ("adaptive", HEADLINE, &[topk, feedback, bounded, every_15_s]),
        (
            "adaptive_persistent",
            HEADLINE,
            &[topk, feedback, bounded, every_15_s, twice],
        ),
    ];
    check("fmnist_headline", &files, &[slow, target_85]);
}

#[test]
fn comparisons() {
    let slower: Change = |c| delayed(c, 1, 0.5);
    let files: [(&str, Budget, &[Change]); 2] = [
        ("async_plain_delayed", LONG, &[]),
        ("async_bounded_staleness", LONG, &[bounded]),
    ];
    check("comparisons", &files, &[slower, no_decay]);
}

#[test]
fn cifar_files() {
    let fixed_rho: Change = |c| c.controller.adapt_compression = false;
    let fixed_bound: Change = |c| c.controller.adapt_staleness = false;
    let baselines: [(&str, Budget, &[Change]); 5] = [
        ("cifar_sync_sgd", CIFAR, &[sync]),
        ("cifar_async_plain", CIFAR, &[]),
        ("cifar_async_fixed_staleness", CIFAR, &[bounded]),
        ("cifar_async_fixed_topk", CIFAR, &[topk]),
        ("cifar_async_fixed_quant", CIFAR, &[quantize]),
    ];
    check("cifar", &baselines, &[cifar, target_80]);
    check(
        "cifar_slice",
        &[("cifar_async_topk_ef", CIFAR, &[topk, feedback])],
        &[cifar, target_80],
    );
    check(
        "adaptive",
        &[("cifar_adaptive_topk", CIFAR, &[feedback])],
        &[cifar, target_80, topk, bounded, every_30_s],
    );
    let ablations: [(&str, Budget, &[Change]); 3] = [
        ("cifar_ablation_fixed_compression", CIFAR, &[feedback, fixed_rho]),
        ("cifar_ablation_fixed_staleness", CIFAR, &[feedback, fixed_bound]),
        ("cifar_ablation_no_ef", CIFAR, &[]),
    ];
    check(
        "adaptive/ablations",
        &ablations,
        &[cifar, target_80, topk, bounded, every_30_s],
    );
    let linked: [(&str, Budget, &[Change]); 4] = [
        ("cifar_async_plain_bw250", CIFAR, &[]),
        ("cifar_async_fixed_topk_bw250", CIFAR, &[topk]),
        ("cifar_async_topk_ef_bw250", CIFAR, &[topk, feedback]),
        (
            "cifar_adaptive_topk_bw250",
            CIFAR,
            &[topk, feedback, bounded, every_30_s],
        ),
    ];
    check("cifar_bandwidth", &linked, &[cifar, target_80, narrow]);
}

/// The files that a matrix of ours names, in order, and its seeds, as they are written.
fn matrix(name: &str) -> (Vec<PathBuf>, Vec<u64>) {
    #[derive(serde::Deserialize)]
    struct Matrix {
        configs: Vec<PathBuf>,
        seeds: Vec<u64>,
    }
    let file = config::File::from(ours(name));
    let read = config::Config::builder().add_source(file).build().unwrap();
    let matrix: Matrix = read.try_deserialize().unwrap();
    (matrix.configs, matrix.seeds)
}

#[test]
fn matrices() {
    let paths = |folder: &str, names: &[&str]| -> Vec<PathBuf> {
        let path = |name: &&str| PathBuf::from(format!("configs/{folder}/{name}.toml"));
        names.iter().map(path).collect()
    };
    let six = [
        "sync_sgd",
        "async_plain",
        "async_fixed_staleness",
        "async_fixed_topk",
        "async_topk_ef",
        "adaptive",
    ];
    let headline = matrix("matrix_fmnist_headline.toml");
    assert_eq!(headline, (paths("fmnist_headline", &six), vec![0]));

    let (mut configs, seeds) = matrix("matrix_cifar_full.toml");
    assert_eq!((configs.len(), seeds), (9, vec![0, 1, 2]));
    configs.sort();
    let mut expect = paths(
        "cifar",
        &[
            "cifar_sync_sgd",
            "cifar_async_plain",
            "cifar_async_fixed_staleness",
            "cifar_async_fixed_topk",
            "cifar_async_fixed_quant",
        ],
    );
    expect.extend(paths("adaptive", &["cifar_adaptive_topk"]));
    let ablations =
        ["fixed_compression", "fixed_staleness", "no_ef"].map(|name| format!("cifar_ablation_{name}"));
    expect.extend(paths(
        "adaptive/ablations",
        &ablations.each_ref().map(String::as_str),
    ));
    expect.sort();
    assert_eq!(configs, expect);
}
