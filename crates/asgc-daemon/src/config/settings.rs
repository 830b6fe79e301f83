//! The settings that a server hands to its workers, as JSON.
//!
//! A worker takes the run's settings from the server and keeps to itself only what describes its own
//! machine. Unknown keys are ignored here, and only here: a newer server may know more.

use super::error::{ConfigError, Place, Problem};
use super::schema::Schema;
use asgc_core::config::{Config, validate};
use serde_json::{Map, Value};

/// What stays with the machine: whole sections, and single keys of others.
const LOCAL_SECTIONS: [&str; 2] = ["worker", "telemetry"];
const LOCAL_RUN_KEYS: [&str; 3] = ["device", "data_root", "results_dir"];

/// The settings of `config` that workers take over; what describes the server's own machine is left out.
#[must_use]
pub fn to_settings_json(config: &Config) -> String {
    let mut tree = serde_json::to_value(config).unwrap_or_default();
    if let Some(sections) = tree.as_object_mut() {
        sections.retain(|section, _| !LOCAL_SECTIONS.contains(&section.as_str()));
        if let Some(run) = sections.get_mut("run").and_then(Value::as_object_mut) {
            run.retain(|key, _| !LOCAL_RUN_KEYS.contains(&key.as_str()));
        }
    }
    tree.to_string()
}

/// Reads what [`to_settings_json`] wrote, perhaps in a newer version: keys that this version does not
/// know are ignored, absent ones have their defaults.
///
/// # Errors
/// When `json` is not an object of sections, or a known key has a value that does not fit or breaks a rule.
pub fn from_settings_json(json: &str) -> Result<Config, ConfigError> {
    let fail = |text: String| ConfigError::from(Problem::new(Place::Peer, text));
    let tree: Map<String, Value> = serde_json::from_str(json).map_err(|error| fail(error.to_string()))?;
    let schema = Schema::new();
    let known = tree
        .into_iter()
        .filter(|(section, _)| schema.has_section(section))
        .map(|(section, mut keys)| {
            if let Some(keys) = keys.as_object_mut() {
                keys.retain(|key, _| schema.kind(&section, key).is_some());
            }
            (section, keys)
        });
    let (layer, problems) = super::layer::Layer::from_tree(&schema, known.collect(), &|_| Place::Peer);
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let config = super::merge(&[layer]).map_err(fail)?;
    let problems: Vec<_> = validate(&config)
        .into_iter()
        .map(|invalid| Problem::new(Place::Peer, invalid.to_string()))
        .collect();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError { problems })
    }
}

/// The server's settings on this machine: `worker`, `telemetry`, `run.device`, `run.data_root` and
/// `run.results_dir` are `local`'s, all else is `remote`'s.
#[must_use]
pub fn overlay(mut remote: Config, local: &Config) -> Config {
    remote.worker = local.worker.clone();
    remote.telemetry = local.telemetry.clone();
    remote.run.device.clone_from(&local.run.device);
    remote.run.data_root.clone_from(&local.run.data_root);
    remote.run.results_dir.clone_from(&local.run.results_dir);
    remote
}
