//! The documentation says what there is: links lead somewhere, and every setting, metric and event field is named.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::Config;
use asgc_core::event::Event;
use asgc_tests::server::Settings;
use asgc_tests::{TestServer, TestWorker, programs, scrape};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not ours, or hold nothing to read.
const SKIPPED: [&str; 6] = ["target", "data", "results", "shared", "node_modules", "ci"];

fn read(path: &str) -> String {
    let path = programs::repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown files of the repository.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
            markdown(&path, found);
        } else if kind.is_file() && name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The text outside of code blocks and code spans, where brackets are no links.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    let joined = lines.collect::<Vec<_>>().join("\n");
    joined.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Targets of `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let named = prose
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, to)| to));
    let first_word = |target: &str| target.split_whitespace().next().map(str::to_owned);
    inline.chain(named).filter_map(first_word).collect()
}

/// The anchors of headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn relative_links_lead_somewhere() {
    let root = programs::repository();
    let mut files = Vec::new();
    markdown(&root, &mut files);
    assert!(files.len() >= 5, "{files:?}");
    let mut dead = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link
                .split_once('#')
                .map_or((link.as_str(), None), |(p, a)| (p, Some(a)));
            let target = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let lives = target.exists()
                && anchor.is_none_or(|anchor| {
                    fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
                });
            if !lives {
                dead.push(format!("{}: {link}", file.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

/// What a heading's part of a document says, up to the next heading of the same level.
fn part(text: &str, names: impl Fn(&str) -> bool) -> Option<&str> {
    let parts = text.split("\n#").skip(1);
    parts
        .into_iter()
        .find(|part| names(part.lines().next().unwrap_or_default()))
}

#[test]
fn every_setting_is_described() {
    let docs = read("docs/configuration.md");
    let config = serde_json::to_value(Config::default()).unwrap();
    let mut missing = Vec::new();
    for (section, keys) in config.as_object().unwrap() {
        let heading = part(&docs, |heading| {
            heading.contains(&format!("`{section}`")) || heading.contains(&format!("[{section}]"))
        });
        for key in keys.as_object().unwrap().keys() {
            let here = heading.is_some_and(|text| text.contains(&format!("`{key}`")));
            if !here && !docs.contains(&format!("`{section}.{key}`")) {
                missing.push(format!("{section}.{key}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/configuration.md does not describe {missing:?}"
    );
}

/// A run that meets with every kind of event: two workers, an evaluator, rejections, a controller.
const RUN: Settings<'_> = &[
    ("workload.batch_size", "8"),
    ("workload.num_workers", "2"),
    ("workload.max_updates", "1000000"),
    ("server.min_workers", "2"),
    ("staleness.enabled", "true"),
    ("staleness.s_low", "0"),
    ("staleness.s_max", "1"),
    ("controller.s_max_bounds", "[1, 4]"),
    ("compression.mode", "topk"),
    ("error_feedback.enabled", "true"),
    ("controller.enabled", "true"),
    ("controller.interval_s", "0.1"),
];

#[test]
fn every_metric_and_event_field_is_described() {
    let docs = read("docs/metrics.md");
    let mut server = TestServer::start(RUN);
    let listen = [("telemetry.metrics_listen", "127.0.0.1:0")];
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &listen));
    let mut evaluator = TestWorker::evaluator(&server, &listen);
    server.wait_for_updates_of(0, 20);
    server.wait_for_updates_of(1, 20);
    server.wait_for("the controller to decide", |events| {
        events.iter().find_map(|event| match event {
            Event::Control(_) => Some(()),
            _ => None,
        })
    });
    let addresses = [workers[0].metrics_address(), evaluator.metrics_address()];
    let pages = addresses.iter().map(|address| scrape::metrics(address));
    let pages = pages.chain([server.metrics()]).collect::<Vec<_>>();
    let metrics = pages
        .iter()
        .flat_map(|page| page.families.iter().cloned())
        .collect::<BTreeSet<_>>();
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    workers
        .iter_mut()
        .chain([&mut evaluator])
        .for_each(TestWorker::finished);

    assert!(metrics.len() > 30, "{metrics:?}");
    let named = |name: &str| docs.contains(&format!("`{name}`"));
    let missing = metrics.iter().filter(|name| !named(name)).collect::<Vec<_>>();
    assert!(
        missing.is_empty(),
        "docs/metrics.md does not describe the metrics {missing:?}"
    );

    let mut fields = BTreeSet::new();
    for event in &events {
        let Value::Object(event) = serde_json::to_value(event).unwrap() else {
            panic!("{event:?}");
        };
        let kind = event["event"].as_str().unwrap().to_owned();
        let keys = event.keys().filter(|key| *key != "event");
        fields.extend(keys.map(|key| (kind.clone(), key.clone())));
        fields.insert((kind.clone(), kind));
    }
    let kinds = fields
        .iter()
        .map(|(kind, _)| kind.as_str())
        .collect::<BTreeSet<_>>();
    for kind in [
        "run_start",
        "join",
        "leave",
        "update",
        "eval",
        "control",
        "run_end",
    ] {
        assert!(kinds.contains(kind), "the run had no {kind}");
    }
    let missing = fields
        .iter()
        .filter(|(_, field)| !named(field))
        .collect::<Vec<_>>();
    assert!(
        missing.is_empty(),
        "docs/metrics.md does not describe the fields {missing:?}"
    );
}
