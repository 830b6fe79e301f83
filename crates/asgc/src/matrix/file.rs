//! A matrix file: which configurations, with which seeds.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What a matrix file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    /// Experiment files.
    pub(crate) configs: Vec<PathBuf>,
    /// Seeds: each configuration is run with each of them.
    pub(crate) seeds: Vec<u64>,
    /// Settings over those of the files, as `section.key=value`.
    #[serde(default)]
    pub(crate) set: Vec<String>,
}

impl Matrix {
    /// Reads a TOML or YAML file. Paths in it are looked for from the current folder, else from the file's own.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => config::FileFormat::Toml,
            Some("yaml" | "yml") => config::FileFormat::Yaml,
            _ => bail!("{shown}: the name must end in .toml, .yaml or .yml"),
        };
        let text = fs::read_to_string(path).with_context(|| format!("{shown}: cannot be read"))?;
        let source = config::File::from_str(&text, format);
        let mut matrix: Self = config::Config::builder()
            .add_source(source)
            .build()
            .and_then(config::Config::try_deserialize)
            .with_context(|| format!("{shown}: a matrix has the keys configs, seeds and perhaps set"))?;
        if matrix.configs.is_empty() || matrix.seeds.is_empty() {
            bail!("{shown}: there is nothing to run: configs and seeds must both name something");
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        matrix.configs = matrix
            .configs
            .iter()
            .map(|config| place(config, folder))
            .collect();
        Ok(matrix)
    }
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

    fn read(name: &str, text: &str) -> Result<Matrix> {
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
    fn what_is_wrong_is_said() {
        for (name, text, words) in [
            ("m.toml", "configs = [\"a\"]\nseeds = []", "nothing to run"),
            (
                "m.toml",
                "configs = [\"a\"]\nseeds = [1]\nsedes = [1]",
                "unknown field `sedes`",
            ),
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
