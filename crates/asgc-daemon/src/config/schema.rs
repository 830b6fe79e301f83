//! Which keys there are, what is near to a wrong one, and whether a value fits its key.
//!
//! The list of keys is read off the defaults of [`asgc_core::config::Config`], so it cannot drift from it.

use asgc_core::config::Config;
use serde_json::{Map, Value};

/// The sections and keys of the schema.
pub(super) struct Schema {
    sections: Map<String, Value>,
}

/// What a key may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One value.
    Single,
    /// A table with keys of the user's choice.
    OpenMap,
}

impl Schema {
    pub(super) fn new() -> Self {
        // Plain data without maps of odd keys always serializes; an empty schema would refuse every key.
        let sections = match serde_json::to_value(Config::default()) {
            Ok(Value::Object(sections)) => sections,
            _ => Map::new(),
        };
        Self { sections }
    }

    pub(super) fn kind(&self, section: &str, key: &str) -> Option<Kind> {
        let default = self.sections.get(section)?.get(key)?;
        Some(if default.is_object() {
            Kind::OpenMap
        } else {
            Kind::Single
        })
    }

    pub(super) fn has_section(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// Why `section` is not one, and what was probably meant.
    pub(super) fn unknown_section(&self, section: &str) -> String {
        let homes = self.homes_of(section);
        if !homes.is_empty() {
            return format!(
                "{section}: is a key, not a section; it belongs in {}",
                list(&homes)
            );
        }
        match nearest(section, self.sections.keys().map(String::as_str)) {
            Some(near) => format!("{section}: unknown section; did you mean [{near}]?"),
            None => {
                let all: Vec<_> = self.sections.keys().map(String::as_str).collect();
                format!("{section}: unknown section; there are {}", all.join(", "))
            }
        }
    }

    /// Why `section` has no such key, and what was probably meant.
    pub(super) fn unknown_key(&self, section: &str, key: &str) -> String {
        let homes = self.homes_of(key);
        if !homes.is_empty() {
            return format!("{section}.{key}: unknown key; {key} belongs in {}", list(&homes));
        }
        if let Some(near) = nearest(key, self.keys(section)) {
            return format!("{section}.{key}: unknown key; did you mean {section}.{near}?");
        }
        let elsewhere = self
            .sections
            .keys()
            .find_map(|other| Some((other, nearest(key, self.keys(other))?)));
        match elsewhere {
            Some((other, near)) => format!("{section}.{key}: unknown key; did you mean {other}.{near}?"),
            None => {
                let all: Vec<_> = self.keys(section).collect();
                format!("{section}.{key}: unknown key; [{section}] has {}", all.join(", "))
            }
        }
    }

    fn keys(&self, section: &str) -> impl Iterator<Item = &str> {
        self.sections
            .get(section)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
    }

    fn homes_of(&self, key: &str) -> Vec<&str> {
        self.sections
            .keys()
            .map(String::as_str)
            .filter(|s| self.kind(s, key).is_some())
            .collect()
    }
}

/// Says why `value` does not fit the key at `path`, where it does not.
pub(super) fn misfit(path: &[String], value: &Value) -> Option<String> {
    let nested = path.iter().rev().fold(value.clone(), |inner, key| {
        Value::Object([(key.clone(), inner)].into_iter().collect())
    });
    serde_json::from_value::<Config>(nested)
        .err()
        .map(|error| humane(&error.to_string()))
}

/// Serde speaks of Rust's types; whoever writes a file should not need to know them.
fn humane(error: &str) -> String {
    let whole = "a whole number, 0 or more";
    if error.ends_with("expected key to be a number in quotes") {
        return format!("the key must be {whole}");
    }
    let words = [
        (", expected f64", "a number"),
        (", expected usize", whole),
        (", expected u64", whole),
        (", expected u32", whole),
        (", expected u8", whole),
        (", expected a boolean", "true or false"),
        (", expected a string", "text in quotes"),
    ];
    for (rust, word) in words {
        if let Some(found) = error.strip_suffix(rust) {
            return format!("{found}, expected {word}");
        }
    }
    let Some(rest) = error.strip_prefix("unknown variant `") else {
        return error.to_owned();
    };
    let mut names = rest.split('`').step_by(2);
    let wrong = names.next().unwrap_or_default();
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    let hint = nearest(wrong, names.iter().copied())
        .map(|n| format!("; did you mean {n}?"))
        .unwrap_or_default();
    format!("{wrong:?} is none of {}{hint}", names.join(", "))
}

/// The candidate most like `wrong`, where one is alike at all.
pub fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&wrong, candidate), candidate))
        // A third of the letters may differ: `lrate` is not near to anything, `batchsize` is.
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn list(sections: &[&str]) -> String {
    sections
        .iter()
        .map(|s| format!("[{s}]"))
        .collect::<Vec<_>>()
        .join(" or ")
}
