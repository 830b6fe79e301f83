//! Settings that arrive as text: environment variables and flags.

use super::error::{Place, Problem};
use super::file::{NOT_FINITE, number};
use super::layer::{Entry, Layer, misfitting};
use super::schema::{Kind, Schema};
use serde_json::Value;
use std::ffi::OsString;

/// What names of environment variables start with; sections and keys follow, joined by two underscores.
pub const ENV_PREFIX: &str = "ASGC__";

/// The layer of all `ASGC__SECTION__KEY` among `vars`.
pub(super) fn from_env(
    schema: &Schema,
    vars: impl Iterator<Item = (OsString, OsString)>,
) -> (Layer, Vec<Problem>) {
    let mut found: Vec<_> = vars
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let path = name
                .strip_prefix(ENV_PREFIX)?
                .to_ascii_lowercase()
                .split("__")
                .collect::<Vec<_>>()
                .join(".");
            Some((name, path, value))
        })
        .collect();
    // The environment has no order of its own; messages should have one.
    found.sort();
    collect(found.into_iter().map(|(name, path, value)| {
        let place = Place::Env(name);
        match value.into_string() {
            Ok(value) => entry(schema, &path, &value, place),
            Err(_) => Err(Problem::new(place, format!("{path}: is not UTF-8"))),
        }
    }))
}

/// The layer of `--set KEY=VALUE` flags; of a repeated key the last counts, as is usual for flags.
pub(super) fn from_set(schema: &Schema, flags: &[String]) -> (Layer, Vec<Problem>) {
    collect(flags.iter().map(|flag| match flag.split_once('=') {
        Some((path, value)) => entry(schema, path.trim(), value.trim(), Place::Set),
        None => Err(Problem::new(
            Place::Set,
            format!("{flag}: needs the form section.key=value"),
        )),
    }))
}

/// The layer of a program's own flags, as `section.key` and value.
pub(super) fn from_overrides(schema: &Schema, overrides: &[(&str, String)]) -> (Layer, Vec<Problem>) {
    collect(
        overrides
            .iter()
            .map(|(path, value)| entry(schema, path, value, Place::Flag)),
    )
}

fn collect(results: impl Iterator<Item = Result<Entry, Problem>>) -> (Layer, Vec<Problem>) {
    let mut layer = Layer::default();
    let mut problems = Vec::new();
    for result in results {
        match result {
            Ok(entry) => layer.entries.push(entry),
            Err(problem) => problems.push(problem),
        }
    }
    (layer, problems)
}

fn entry(schema: &Schema, path: &str, text: &str, place: Place) -> Result<Entry, Problem> {
    let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
    let fits = match keys.as_slice() {
        [section, ..] if !schema.has_section(section) => {
            return Err(Problem::new(place, schema.unknown_section(section)));
        }
        [section, key, ..] if schema.kind(section, key).is_none() => {
            return Err(Problem::new(place, schema.unknown_key(section, key)));
        }
        [section, key, inner @ ..] => {
            inner.is_empty() || (inner.len() == 1 && schema.kind(section, key) == Some(Kind::OpenMap))
        }
        _ => false,
    };
    if !fits {
        return Err(Problem::new(place, format!("{path}: needs the form section.key")));
    }
    typed(&keys, text, place)
}

/// Text has no type: the first reading that fits the key counts.
fn typed(path: &[String], text: &str, place: Place) -> Result<Entry, Problem> {
    let mut first_problem = None;
    for reading in readings(text) {
        let Some(value) = reading else {
            let problem = Problem::new(place.clone(), format!("{}: {NOT_FINITE}", path.join(".")));
            first_problem.get_or_insert(problem);
            continue;
        };
        let entry = Entry {
            path: path.to_owned(),
            value,
            place: place.clone(),
        };
        match misfitting(&entry) {
            None => return Ok(entry),
            Some(problem) => {
                first_problem.get_or_insert(problem);
            }
        }
    }
    // `readings` always ends with the text itself, so there was a first problem.
    Err(first_problem.unwrap_or_else(|| Problem::new(place, path.join("."))))
}

/// What `text` may mean, most special first; `None` stands for a number that is not finite.
fn readings(text: &str) -> Vec<Option<Value>> {
    let mut all = Vec::new();
    if text == "null" {
        all.push(Some(Value::Null));
    }
    if let Ok(b) = text.parse::<bool>() {
        all.push(Some(b.into()));
    }
    if let Ok(i) = text.parse::<i64>() {
        all.push(Some(i.into()));
    } else if let Ok(u) = text.parse::<u64>() {
        all.push(Some(u.into()));
    } else if let Ok(f) = text.parse::<f64>() {
        all.push(number(f));
    }
    if text.starts_with(['{', '[']) {
        all.extend(inline(text).map(Some));
    }
    all.push(Some(text.into()));
    all
}

/// `{1 = 0.3, 2 = 1}` or `[1, 2]`, for keys that hold a table or a list.
fn inline(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(&format!("it = {text}")).ok()?;
    serde_json::to_value(table.get("it")?).ok()
}
