//! One source of settings, flattened to keys with their places, and checked against the schema.

use super::error::{Place, Problem};
use super::schema::{Kind, Schema, misfit};
use serde_json::{Map, Value};

/// A setting and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Section, key, and the inner key of an open map.
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    pub(super) place: Place,
}

/// All settings of one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    pub(super) entries: Vec<Entry>,
}

impl Layer {
    /// Flattens `tree`, and reports every key that does not exist and every value that does not fit.
    pub(super) fn from_tree(
        schema: &Schema,
        tree: Map<String, Value>,
        place: &dyn Fn(&[&str]) -> Place,
    ) -> (Self, Vec<Problem>) {
        let mut layer = Self::default();
        let mut problems = Vec::new();
        for (section, keys) in tree {
            let here = place(&[&section]);
            match keys {
                _ if !schema.has_section(&section) => {
                    problems.push(Problem::new(here, schema.unknown_section(&section)));
                }
                Value::Object(keys) => {
                    for (key, value) in keys {
                        let here = place(&[&section, &key]);
                        match schema.kind(&section, &key) {
                            None => problems.push(Problem::new(here, schema.unknown_key(&section, &key))),
                            Some(kind) => layer.flatten(kind, (&section, &key, value), place),
                        }
                    }
                }
                _ => problems.push(Problem::new(
                    here,
                    format!("{section}: is a section and needs keys below it"),
                )),
            }
        }
        problems.extend(layer.entries.iter().filter_map(misfitting));
        (layer, problems)
    }

    fn flatten(
        &mut self,
        kind: Kind,
        (section, key, value): (&str, &str, Value),
        place: &dyn Fn(&[&str]) -> Place,
    ) {
        match (kind, value) {
            (Kind::OpenMap, Value::Object(inner)) => {
                for (sub, value) in inner {
                    let place = place(&[section, key, &sub]);
                    self.entries.push(Entry {
                        path: vec![section.into(), key.into(), sub],
                        value,
                        place,
                    });
                }
            }
            (_, value) => {
                let place = place(&[section, key]);
                self.entries.push(Entry {
                    path: vec![section.into(), key.into()],
                    value,
                    place,
                });
            }
        }
    }

    /// The settings as a tree again, for the `config` crate to merge.
    fn to_map(&self) -> config::Map<String, config::Value> {
        let mut tree = Map::new();
        for entry in &self.entries {
            insert(&mut tree, &entry.path, entry.value.clone());
        }
        tree.into_iter()
            .map(|(section, keys)| (section, to_config_value(keys)))
            .collect()
    }
}

impl config::Source for Layer {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<config::Map<String, config::Value>, config::ConfigError> {
        Ok(self.to_map())
    }
}

/// Whether the value of `entry` does not fit its key.
pub(super) fn misfitting(entry: &Entry) -> Option<Problem> {
    misfit(&entry.path, &entry.value)
        .map(|why| Problem::new(entry.place.clone(), format!("{}: {why}", entry.path.join("."))))
}

fn insert(tree: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => {
            tree.insert(key.clone(), value);
        }
        [key, rest @ ..] => {
            let inner = tree
                .entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn to_config_value(value: Value) -> config::Value {
    let kind = match value {
        Value::Null => config::ValueKind::Nil,
        Value::Bool(b) => config::ValueKind::Boolean(b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => config::ValueKind::I64(i),
            (None, Some(u)) => config::ValueKind::U64(u),
            (None, None) => config::ValueKind::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(s) => config::ValueKind::String(s),
        Value::Array(items) => config::ValueKind::Array(items.into_iter().map(to_config_value).collect()),
        Value::Object(map) => {
            config::ValueKind::Table(map.into_iter().map(|(k, v)| (k, to_config_value(v))).collect())
        }
    };
    config::Value::new(None, kind)
}
