//! Configuration from files, environment and flags, into the one schema of [`asgc_core::config`].
//!
//! | layer, later wins | form |
//! |---|---|
//! | defaults | `asgc_core::config::Config::default()` |
//! | `--config FILE`, repeatable | TOML, or YAML by the extension `.yaml` or `.yml` |
//! | environment | `ASGC__SECTION__KEY=value`, two underscores |
//! | `--set section.key=value`, repeatable | |
//! | the program's own flags | |
//!
//! Layers are merged key by key, also inside a table such as `heterogeneity.compute_delay`. Whatever is
//! wrong in any layer is an error, even where a later layer overrides it: nothing falls back. There are no
//! secrets in the schema; [`Loaded::to_toml`] is the only place that prints values, so that the first
//! secret needs redacting only there.

mod error;
mod file;
mod layer;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod yaml;

pub use error::{ConfigError, Place, Problem};
pub use schema::nearest;
pub use settings::{from_settings_json, overlay, to_settings_json};
pub use text::ENV_PREFIX;

use asgc_core::config::{Config, validate};
use layer::Layer;
use schema::Schema;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The flags that every program has.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// Configuration file, TOML or YAML; of several, later ones win
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Set one key, over files and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the effective configuration, with where each value came from, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Log level or directives, such as info,asgc_server=debug [telemetry.log]
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// human or json [telemetry.log_format]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Address of /metrics, /healthz and /readyz; port 0 takes a free one [telemetry.metrics_listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
}

/// A configuration, and where its values came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The merged, checked settings.
    pub config: Config,
    origins: BTreeMap<String, Place>,
}

/// Reads all layers; `overrides` are the program's own flags, as `("section.key", value)`.
///
/// # Errors
/// Everything that is wrong in any layer, each with its place; see [`ConfigError`].
pub fn load(args: &ConfigArgs, overrides: &[(&str, String)]) -> Result<Config, ConfigError> {
    load_from(args, overrides, std::env::vars_os()).map(|loaded| loaded.config)
}

/// As [`load`], with the environment passed in, and telling where values came from.
///
/// # Errors
/// As [`load`].
pub fn load_from(
    args: &ConfigArgs,
    overrides: &[(&str, String)],
    env: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let schema = Schema::new();
    let mut sources: Vec<_> = args.config.iter().map(|path| file::read(&schema, path)).collect();
    sources.push(text::from_env(&schema, env));
    sources.push(text::from_set(&schema, &args.set));
    sources.push(text::from_overrides(&schema, &args.own_overrides()));
    sources.push(text::from_overrides(&schema, overrides));
    let (layers, problems): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
    let problems = problems.concat();
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let config = merge(&layers).map_err(|text| Problem::new(Place::Default, text))?;
    let loaded = Loaded {
        config,
        origins: origins(&layers),
    };
    let problems = loaded.broken_rules();
    if problems.is_empty() {
        Ok(loaded)
    } else {
        Err(ConfigError { problems })
    }
}

/// Merges checked layers over the defaults. Fails only where a check missed something.
fn merge(layers: &[Layer]) -> Result<Config, String> {
    let defaults = config::Config::try_from(&Config::default()).map_err(|error| error.to_string())?;
    let builder = layers.iter().fold(
        config::Config::builder().add_source(defaults),
        |builder, layer| builder.add_source(layer.clone()),
    );
    // By way of JSON, since `config` rounds 1.7 to a whole number and reads "on" as true.
    let tree: serde_json::Value = builder
        .build()
        .and_then(config::Config::try_deserialize)
        .map_err(|error| error.to_string())?;
    serde_json::from_value(tree).map_err(|error| error.to_string())
}

fn origins(layers: &[Layer]) -> BTreeMap<String, Place> {
    let entries = layers.iter().flat_map(|layer| &layer.entries);
    entries
        .map(|entry| (entry.path.join("."), entry.place.clone()))
        .collect()
}

impl ConfigArgs {
    fn own_overrides(&self) -> Vec<(&'static str, String)> {
        let flags = [
            ("telemetry.log", &self.log),
            ("telemetry.log_format", &self.log_format),
            ("telemetry.metrics_listen", &self.metrics_listen),
        ];
        flags
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.clone()?)))
            .collect()
    }
}

impl Loaded {
    /// Where the value of `section.key` came from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Place {
        let inner = format!("{key}.");
        let found = self.origins.get(key).or_else(|| {
            self.origins
                .range(inner.clone()..)
                .next()
                .filter(|(k, _)| k.starts_with(&inner))
                .map(|(_, place)| place)
        });
        found.cloned().unwrap_or(Place::Default)
    }

    fn broken_rules(&self) -> Vec<Problem> {
        let rules = validate(&self.config)
            .into_iter()
            .map(|invalid| Problem::new(self.origin(invalid.path), invalid.to_string()));
        let log = crate::telemetry::check_directives(&self.config.telemetry.log)
            .err()
            .map(|why| Problem::new(self.origin("telemetry.log"), format!("telemetry.log: {why}")));
        rules.chain(log).collect()
    }

    /// The effective configuration as TOML; a comment says where each value that was set came from.
    ///
    /// # Errors
    /// When a value cannot be written as TOML, such as a seed above `i64::MAX`.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let plain = toml::to_string(&self.config)?;
        let mut section = String::new();
        let mut text = String::new();
        let mut in_string = false;
        for line in plain.lines() {
            let ends = line.matches("\"\"\"").count() + line.matches("'''").count();
            // Nothing may be added to the lines of a string.
            let bare = !in_string && ends == 0;
            in_string ^= ends % 2 == 1;
            text.push_str(line);
            if bare && let Some(place) = self.origin_of_line(line, &mut section) {
                let _ = write!(text, "  # {place}");
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn origin_of_line(&self, line: &str, section: &mut String) -> Option<&Place> {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            header.clone_into(section);
        }
        let (key, _) = line.split_once(" = ")?;
        self.origins.get(&format!("{section}.{}", key.trim_matches('"')))
    }
}
