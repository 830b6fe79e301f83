//! A matrix file: which configurations, with which seeds.

use asgc_daemon::config::{ConfigError, Place, Problem, nearest};
use config::FileFormat;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The keys of a matrix file.
const KEYS: [&str; 3] = ["configs", "seeds", "set"];

/// What a matrix file says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    /// Experiment files.
    pub(crate) configs: Vec<PathBuf>,
    /// Seeds: each configuration is run with each of them.
    pub(crate) seeds: Vec<u64>,
    /// Settings over those of the files, as `section.key=value`.
    pub(crate) set: Vec<String>,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
struct Written {
    configs: Vec<PathBuf>,
    seeds: Vec<u64>,
    #[serde(default)]
    set: Settings,
}

/// Settings: a list as flags have them, or a table of keys and values.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Settings {
    List(Vec<String>),
    Table(BTreeMap<String, Value>),
}

impl Default for Settings {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Settings {
    fn flags(self) -> Vec<String> {
        match self {
            Self::List(flags) => flags,
            Self::Table(table) => table
                .iter()
                .flat_map(|(key, value)| flags_of(key, value))
                .collect(),
        }
    }
}

/// `section.key = value` and `section = {key = value}` say the same; what is deeper is a value.
fn flags_of(key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(inner) if !key.contains('.') => inner
            .iter()
            .flat_map(|(name, value)| flags_of(&format!("{key}.{name}"), value))
            .collect(),
        // A flag's text needs no quotes.
        Value::String(text) => vec![format!("{key}={text}")],
        other => vec![format!("{key}={}", inline(other))],
    }
}

/// Lists and tables as `--set` reads them: `[0.05, 0.5]`, `{1 = 0.3}`.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(inner) => {
            let entries = inner
                .iter()
                .map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// An error of the file as a whole; it is a wrong configuration, and ends the program as one does.
pub(super) fn problem(path: &Path, text: impl Into<String>) -> ConfigError {
    let (place, text) = (Place::File(path.to_owned(), None), text.into());
    Problem { place, text }.into()
}

impl Matrix {
    /// Reads a TOML or YAML file. Paths in it are looked for from the current folder, else from the file's own.
    ///
    /// # Errors
    /// All that is wrong with the file itself; the experiment files are not looked at.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => FileFormat::Toml,
            Some("yaml" | "yml") => FileFormat::Yaml,
            _ => return Err(problem(path, "the name must end in .toml, .yaml or .yml")),
        };
        let text =
            fs::read_to_string(path).map_err(|error| problem(path, format!("cannot be read: {error}")))?;
        let written = parse(&text, format).map_err(|words| problem(path, words))?;
        if written.configs.is_empty() || written.seeds.is_empty() {
            let words = "there is nothing to run: configs and seeds must both name something";
            return Err(problem(path, words));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let configs = written
            .configs
            .iter()
            .map(|config| place(config, folder))
            .collect();
        Ok(Self {
            configs,
            seeds: written.seeds,
            set: written.set.flags(),
        })
    }
}

/// What `text` says, or what is wrong with it.
fn parse(text: &str, format: FileFormat) -> Result<Written, String> {
    let source = config::File::from_str(text, format);
    let built = config::Config::builder().add_source(source).build();
    let built = built.map_err(|error| error.to_string())?;
    let table: BTreeMap<String, config::Value> = built
        .clone()
        .try_deserialize()
        .map_err(|error| error.to_string())?;
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let near = nearest(unknown, KEYS.into_iter());
        let hint = near.map_or(String::new(), |near| format!("did you mean {near}? "));
        return Err(format!(
            "{unknown}: unknown key; {hint}a matrix has configs, seeds and perhaps set"
        ));
    }
    built.try_deserialize().map_err(|error| error.to_string())
}

fn place(config: &Path, folder: &Path) -> PathBuf {
    let beside = folder.join(config);
    match !config.exists() && beside.exists() {
        true => beside,
        false => config.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Matrix, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.toml"), "").unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let mut matrix = Matrix::read(&path)?;
        for config in &mut matrix.configs {
            if let Ok(inner) = config.strip_prefix(dir.path()) {
                *config = Path::new("DIR").join(inner);
            }
        }
        Ok(matrix)
    }

    #[test]
    fn both_formats_say_the_same() {
        let toml = read("m.toml", "configs = [\"a.toml\", \"b.yaml\"]\nseeds = [0, 7]\n").unwrap();
        let yaml = read("m.yaml", "configs:\n  - a.toml\n  - b.yaml\nseeds: [0, 7]\n").unwrap();
        assert_eq!(toml, yaml);
        // One lies beside the matrix; the other is nowhere, which is told when it is loaded.
        assert_eq!(toml.configs, [PathBuf::from("DIR/a.toml"), "b.yaml".into()]);
        assert_eq!((toml.seeds, toml.set), (vec![0, 7], vec![]));
    }

    #[test]
    fn settings_are_a_list_or_a_table() {
        let yaml = "configs: [a.toml]\nseeds: [0]\nset:\n  workload.lr: 0.2\n  run: {device: cpu}\n  \
                    controller: {rho_bounds: [0.05, 0.4]}\n  workload: {target_accuracy: null}\n";
        let toml = "configs = [\"a.toml\"]\nseeds = [0]\nset.workload = {lr = 0.2, sync = true}\n\
                    set.heterogeneity.compute_delay = {1 = 0.3, 2 = 1.5}\n";
        assert_eq!(
            read("m.yaml", yaml).unwrap().set,
            [
                "controller.rho_bounds=[0.05, 0.4]",
                "run.device=cpu",
                "workload.target_accuracy=null",
                "workload.lr=0.2",
            ]
        );
        let toml = read("m.toml", toml).unwrap();
        let delays = "heterogeneity.compute_delay={1 = 0.3, 2 = 1.5}";
        assert_eq!(toml.set, [delays, "workload.lr=0.2", "workload.sync=true"]);
        // What they are turned into is what the loader takes.
        let args = asgc_daemon::config::ConfigArgs {
            set: toml.set,
            ..Default::default()
        };
        let loaded = asgc_daemon::config::load_from(&args, &[], std::iter::empty()).unwrap();
        assert_eq!(
            loaded.config.heterogeneity.compute_delay,
            [(1, 0.3), (2, 1.5)].into()
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (name, text, words) in [
            ("m.toml", "configs = [\"a\"]\nseeds = []", "nothing to run"),
            (
                "m.toml",
                "configs = [\"a\"]\nseeds = [1]\nsedes = [1]",
                "m.toml: sedes: unknown key; did you mean seeds? a matrix has configs, seeds and perhaps set",
            ),
            (
                "m.toml",
                "configs = [\"a\"]\nseeds = [1]\njobs = 2",
                "jobs: unknown key; a matrix has",
            ),
            ("m.yaml", "configs: [a]\nseeds: [1]\nset: 3", "set"),
            ("m.toml", "configs = [\"a\"]", "missing"),
            ("m.toml", "configs = [\"a\"]\nseeds = [-1]", "seeds"),
            ("m.json", "{}", "must end in"),
        ] {
            let error = format!("{:#}", read(name, text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
        assert!(Matrix::read(Path::new("/nonexistent/m.toml")).is_err());
    }

    /// As its users have it: YAML, which names YAML files beside it.
    #[test]
    fn a_matrix_of_the_reference_names_the_same_runs() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let load = |path: PathBuf| {
            let args = asgc_daemon::config::ConfigArgs {
                config: vec![path],
                ..Default::default()
            };
            let loaded = asgc_daemon::config::load_from(&args, &[], std::iter::empty());
            loaded.unwrap_or_else(|error| panic!("{error}")).config
        };
        let theirs = Matrix::read(&package.join("tests/reference/matrix_fmnist_headline.yaml")).unwrap();
        let repository = package.join("../..");
        let ours = Matrix::read(&repository.join("configs/matrix_fmnist_headline.toml")).unwrap();
        assert_eq!((&theirs.seeds, &theirs.set), (&ours.seeds, &ours.set));
        assert_eq!(theirs.configs.len(), ours.configs.len());
        for (yaml, toml) in theirs.configs.into_iter().zip(ours.configs) {
            assert_eq!(load(yaml), load(repository.join(toml)));
        }
    }
}
