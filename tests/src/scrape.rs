//! `/metrics`, read strictly: whatever does not belong into the text format is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// One line: name, labels, value.
pub type Sample = (String, BTreeMap<String, String>, f64);

/// A page of metrics.
#[derive(Debug, Clone)]
pub struct Page {
    /// All samples.
    pub samples: Vec<Sample>,
    /// Names of metric families, from the TYPE lines.
    pub families: BTreeSet<String>,
}

impl Page {
    /// The sum of the samples called `name` whose labels include `labels`; 0 when there are none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.fitting(name, labels).sum()
    }

    /// The value of the first sample of that kind; `None` when there is none.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.fitting(name, labels).next()
    }

    fn fitting(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = f64> {
        let has =
            |sample: &Sample, (label, value): &(&str, &str)| sample.1.get(*label).is_some_and(|v| v == value);
        let fits = move |sample: &&Sample| sample.0 == name && labels.iter().all(|label| has(sample, label));
        self.samples.iter().filter(fits).map(|sample| sample.2)
    }
}

/// Scrapes `http://ADDRESS/metrics`.
///
/// # Panics
/// When the page cannot be had, or breaks the format.
#[must_use]
pub fn metrics(address: &str) -> Page {
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    parse(&body).unwrap_or_else(|error| panic!("{error}"))
}

/// Head and body of a page.
#[must_use]
pub fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn parse(text: &str) -> Result<Page, String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut page = Page {
        samples: Vec::new(),
        families: BTreeSet::new(),
    };
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').ok_or(line)?;
            if !["counter", "gauge", "histogram"].contains(&kind) || !page.families.insert(name.to_owned()) {
                return Err(format!("unknown or repeated: {line}"));
            }
        } else if !line.starts_with("# HELP ") {
            let sample = sample(line).ok_or_else(|| format!("not a sample: {line:?}"))?;
            if !seen.insert(line.rsplit_once(' ').map(|(series, _)| series.to_owned())) {
                return Err(format!("a series twice: {line:?}"));
            }
            page.samples.push(sample);
        }
    }
    Ok(page)
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    (!name.is_empty()).then(|| (name.to_owned(), labels, value))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}
