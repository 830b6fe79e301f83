//! Configuration files: TOML or YAML by extension, with the line of every key.

use super::error::{Place, Problem};
use super::layer::Layer;
use super::schema::Schema;
use super::yaml;
use config::{FileFormat, Source};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Far beyond any configuration; keeps `--config /dev/zero` from eating the memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads and checks one file; the problems are empty when it is sound.
pub(super) fn read(schema: &Schema, path: &Path) -> (Layer, Vec<Problem>) {
    match parse(path) {
        Ok((tree, lines)) => Layer::from_tree(schema, tree, &|keys| {
            Place::File(path.to_owned(), lines.get(&keys.join(".")).copied())
        }),
        Err(problem) => (Layer::default(), vec![problem]),
    }
}

type Parsed = (Map<String, Value>, HashMap<String, usize>);

fn parse(path: &Path) -> Result<Parsed, Problem> {
    let fail = |line, text: String| Problem::new(Place::File(path.to_owned(), line), text);
    let format = match path.extension().and_then(|e| e.to_str()) {
        Some("toml") => FileFormat::Toml,
        Some("yaml" | "yml") => FileFormat::Yaml,
        _ => return Err(fail(None, "the name must end in .toml, .yaml or .yml".into())),
    };
    let text = read_text(path).map_err(|why| fail(None, why))?;
    let lines = match format {
        FileFormat::Toml => toml_lines(&text),
        _ => yaml::lines(&text),
    }
    .map_err(|(line, why)| fail(Some(line), why))?;
    let values = config::File::from_str(&text, format)
        .collect()
        .map_err(|error| fail(None, error.to_string()))?;
    if values.is_empty() {
        return Err(fail(None, "the file holds no settings".into()));
    }
    let mut tree = Map::new();
    for (key, value) in values {
        let value = to_json(value, &key)
            .map_err(|(path, why)| fail(lines.get(&path).copied(), format!("{path}: {why}")))?;
        tree.insert(key, value);
    }
    Ok((tree, lines))
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))?;
    // Editors on Windows leave a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn toml_lines(text: &str) -> Result<HashMap<String, usize>, (usize, String)> {
    let line_at = |byte: usize| text.bytes().take(byte).filter(|&b| b == b'\n').count() + 1;
    let table = toml::de::DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let what = text
            .get(span.clone())
            .filter(|w| !w.trim().is_empty() && !w.contains('\n'));
        let what = what.map(|what| format!(": {what}")).unwrap_or_default();
        (line_at(span.start), format!("{}{what}", error.message()))
    })?;
    let mut lines = HashMap::new();
    collect_lines(table.get_ref(), "", &mut |path, byte| {
        lines.insert(path, line_at(byte));
    });
    Ok(lines)
}

fn collect_lines(table: &toml::de::DeTable<'_>, outer: &str, found: &mut dyn FnMut(String, usize)) {
    for (key, value) in table {
        let path = if outer.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{outer}.{}", key.get_ref())
        };
        if let toml::de::DeValue::Table(inner) = value.get_ref() {
            collect_lines(inner, &path, found);
        }
        found(path, key.span().start);
    }
}

/// JSON has no infinities and no NaN, and no setting has a use for them.
fn to_json(value: config::Value, path: &str) -> Result<Value, (String, &'static str)> {
    Ok(match value.kind {
        config::ValueKind::Nil => Value::Null,
        config::ValueKind::Boolean(b) => b.into(),
        config::ValueKind::I64(i) => i.into(),
        config::ValueKind::U64(u) => u.into(),
        config::ValueKind::Float(f) => number(f).ok_or((path.to_owned(), NOT_FINITE))?,
        config::ValueKind::String(s) => s.into(),
        config::ValueKind::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| to_json(item, path))
                .collect::<Result<_, _>>()?,
        ),
        config::ValueKind::Table(map) => {
            let inner = |(key, value): (String, config::Value)| {
                let value = to_json(value, &format!("{path}.{key}"))?;
                Ok((key, value))
            };
            Value::Object(map.into_iter().map(inner).collect::<Result<_, _>>()?)
        }
        config::ValueKind::I128(_) | config::ValueKind::U128(_) => {
            return Err((path.to_owned(), "the number is too large"));
        }
    })
}

pub(super) const NOT_FINITE: &str = "must be a finite number";

pub(super) fn number(f: f64) -> Option<Value> {
    serde_json::Number::from_f64(f).map(Value::Number)
}
