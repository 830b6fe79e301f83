//! Who may use whom: `cargo metadata` held against the table in DESIGN section 8.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_tests::programs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may use of the workspace, beyond its own tests.
const MAY_USE: [(&str, &[&str]); 11] = [
    ("asgc-kernels", &[]),
    ("asgc-core", &["asgc-kernels"]),
    ("asgc-proto", &["asgc-core"]),
    ("asgc-client", &["asgc-core", "asgc-proto"]),
    ("asgc-daemon", &["asgc-core"]),
    ("asgc-nn", &["asgc-core"]),
    ("asgc-server", &["asgc-core", "asgc-proto", "asgc-daemon"]),
    (
        "asgc-worker",
        &["asgc-core", "asgc-client", "asgc-daemon", "asgc-nn"],
    ),
    ("asgc-lab", &["asgc-core"]),
    (
        "asgc-simulator",
        &["asgc-core", "asgc-daemon", "asgc-lab", "asgc-nn"],
    ),
    (
        "asgc",
        &[
            "asgc-core",
            "asgc-lab",
            "asgc-client",
            "asgc-proto",
            "asgc-daemon",
        ],
    ),
];

/// Libraries that only these crates may use directly.
const KEPT_TO: [(&str, &[&str]); 3] = [
    ("tch", &["asgc-nn"]),
    ("tonic", &["asgc-proto", "asgc-client", "asgc-server"]),
    (
        "clap",
        &[
            "asgc-daemon",
            "asgc-server",
            "asgc-worker",
            "asgc-simulator",
            "asgc",
        ],
    ),
];

/// Libraries that a crate must not use.
const BANNED: [(&str, &[&str]); 3] = [
    (
        "asgc-core",
        &["tokio", "tonic", "prost", "tch", "tracing", "anyhow"],
    ),
    ("asgc-nn", &["tokio", "tonic"]),
    ("asgc-proto", &["tokio", "tokio-stream", "tch"]),
];

/// These must not reach libtorch by any way, with the features that they have by default.
const WITHOUT_LIBTORCH: [&str; 7] = [
    "asgc-core",
    "asgc-proto",
    "asgc-client",
    "asgc-daemon",
    "asgc-server",
    "asgc-lab",
    "asgc",
];

struct Metadata(Value);

impl Metadata {
    fn load() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--offline"])
            .args(["--filter-platform", env!("ASGC_TARGET")])
            .current_dir(programs::repository())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Direct dependencies of the workspace's crates but for those of tests; build scripts included.
    fn direct(&self) -> BTreeMap<String, BTreeSet<String>> {
        let members = self.0["workspace_members"].as_array().unwrap();
        let packages = self.0["packages"].as_array().unwrap();
        let ours = packages.iter().filter(|package| members.contains(&package["id"]));
        ours.map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let used = all.filter(|dependency| dependency["kind"] != "dev");
            (
                text(&package["name"]),
                used.map(|dependency| text(&dependency["name"])).collect(),
            )
        })
        .collect()
    }

    /// All packages that `name` is linked with.
    fn reachable(&self, name: &str) -> BTreeSet<String> {
        let packages = self.0["packages"].as_array().unwrap();
        let names = packages
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect::<BTreeMap<_, _>>();
        let nodes = self.0["resolve"]["nodes"].as_array().unwrap();
        let normal = |node: &Value| {
            let deps = node["deps"].as_array().unwrap().iter();
            let linked = |dep: &&Value| {
                dep["dep_kinds"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|kind| kind["kind"].is_null())
            };
            deps.filter(linked)
                .map(|dep| text(&dep["pkg"]))
                .collect::<Vec<_>>()
        };
        let graph = nodes
            .iter()
            .map(|node| (text(&node["id"]), normal(node)))
            .collect::<BTreeMap<_, _>>();
        let mut open = names
            .iter()
            .filter(|(_, n)| *n == name)
            .map(|(id, _)| id.clone())
            .collect::<Vec<_>>();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(names[&id].clone()) {
                open.extend(graph[&id].iter().cloned());
            }
        }
        seen
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn crates_use_what_the_table_allows() {
    let direct = Metadata::load().direct();
    let mut known = MAY_USE.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>();
    known.insert("asgc-tests");
    let found = direct.keys().map(String::as_str).collect::<BTreeSet<_>>();
    assert_eq!(found, known, "a crate without a rule, or a rule without a crate");
    for (name, allowed) in MAY_USE {
        let ours = direct[name]
            .iter()
            .filter(|dependency| known.contains(dependency.as_str()));
        let beyond = ours
            .filter(|dependency| !allowed.contains(&dependency.as_str()))
            .collect::<Vec<_>>();
        assert!(beyond.is_empty(), "{name} may not use {beyond:?}");
    }
}

#[test]
fn libraries_stay_where_they_belong() {
    let direct = Metadata::load().direct();
    for (library, allowed) in KEPT_TO {
        let users = direct
            .iter()
            .filter(|(_, used)| used.contains(library))
            .map(|(name, _)| name.as_str());
        let beyond = users
            .filter(|name| !allowed.contains(name) && *name != "asgc-tests")
            .collect::<Vec<_>>();
        assert!(
            beyond.is_empty(),
            "{library} is kept to {allowed:?}, and not for {beyond:?}"
        );
    }
    for (name, banned) in BANNED {
        let used = banned
            .iter()
            .filter(|library| direct[name].contains(**library))
            .collect::<Vec<_>>();
        assert!(used.is_empty(), "{name} may not use {used:?}");
    }
}

#[test]
fn what_runs_without_libtorch_never_reaches_it() {
    let metadata = Metadata::load();
    for name in WITHOUT_LIBTORCH {
        let reached = metadata.reachable(name);
        assert!(
            reached.contains("serde"),
            "the graph is read wrongly: {reached:?}"
        );
        assert!(
            !reached.contains("tch") && !reached.contains("torch-sys"),
            "{name} reaches libtorch"
        );
    }
    assert!(metadata.reachable("asgc-nn").contains("torch-sys"));
    for name in ["asgc-core", "asgc-nn"] {
        let reached = metadata.reachable(name);
        assert!(
            !reached.contains("tokio") && !reached.contains("tonic"),
            "{name} reaches {reached:?}"
        );
    }
}

/// Every source file below `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The compiler passes over a file that no module names, and so do lints and tests: it would only mislead its readers.
#[test]
fn every_source_file_belongs_to_a_module() {
    for (name, _) in MAY_USE {
        let root = programs::repository().join("crates").join(name).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
        let all = texts.collect::<Vec<_>>().join("\n");
        for file in files {
            let (stem, folder) = (file.file_stem().unwrap(), file.parent().unwrap());
            let module = match stem.to_str().unwrap() {
                "lib" | "main" => continue,
                "mod" => folder.file_name().unwrap().to_str().unwrap(),
                stem => stem,
            };
            let named = all.contains(&format!("mod {module};")) || all.contains(&format!("\"{module}.rs\""));
            let program = folder.ends_with("bin");
            assert!(named || program, "no module is {}", file.display());
        }
    }
}
