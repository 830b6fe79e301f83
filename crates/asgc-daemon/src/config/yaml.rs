//! The lines of a YAML file's keys, and the keys that are written twice.

use std::collections::HashMap;
use yaml_rust2::parser::{Event, MarkedEventReceiver, Parser};
use yaml_rust2::scanner::Marker;

/// Lines by dotted path, or the line and the words of what is wrong.
pub(super) fn lines(text: &str) -> Result<HashMap<String, usize>, (usize, String)> {
    let mut scan = Scan::default();
    Parser::new_from_str(text)
        .load(&mut scan, true)
        .map_err(|error| (error.marker().line(), error.info().to_owned()))?;
    match scan.trouble {
        Some(trouble) => Err(trouble),
        None => Ok(scan.lines),
    }
}

/// A collection that is open at some point of the file.
enum Open {
    /// A mapping, and the key whose value comes next.
    Mapping(Option<String>),
    Sequence,
}

#[derive(Default)]
struct Scan {
    open: Vec<Open>,
    lines: HashMap<String, usize>,
    trouble: Option<(usize, String)>,
}

impl Scan {
    fn path_with(&self, last: &str) -> String {
        let outer = self.open.iter().filter_map(|open| match open {
            Open::Mapping(key) => key.as_deref(),
            Open::Sequence => None,
        });
        outer.chain([last]).collect::<Vec<_>>().join(".")
    }

    /// A scalar or alias: the key of the mapping that is open, or a value.
    fn scalar(&mut self, text: &str, line: usize) {
        let is_key = matches!(self.open.last(), Some(Open::Mapping(None)));
        if is_key {
            let path = self.path_with(text);
            if let Some(first) = self.lines.insert(path.clone(), line) {
                let words = format!("{path}: is set twice, first on line {first}");
                self.trouble.get_or_insert((line, words));
            }
            if let Some(Open::Mapping(key)) = self.open.last_mut() {
                *key = Some(text.to_owned());
            }
        } else {
            self.value_ends();
        }
    }

    fn value_ends(&mut self) {
        if let Some(Open::Mapping(key)) = self.open.last_mut() {
            *key = None;
        }
    }

    fn start(&mut self, collection: Open, line: usize) {
        if matches!(self.open.last(), Some(Open::Mapping(None))) {
            self.trouble
                .get_or_insert((line, "a key must be a single word".to_owned()));
        }
        self.open.push(collection);
    }
}

impl MarkedEventReceiver for Scan {
    fn on_event(&mut self, event: Event, mark: Marker) {
        match event {
            Event::MappingStart(..) => self.start(Open::Mapping(None), mark.line()),
            Event::SequenceStart(..) => self.start(Open::Sequence, mark.line()),
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
                self.value_ends();
            }
            Event::Scalar(text, ..) => self.scalar(&text, mark.line()),
            Event::Alias(_) => {
                // An alias may stand for anything, also for a mapping of mappings: not worth its risks here.
                self.trouble
                    .get_or_insert((mark.line(), "aliases are not supported".to_owned()));
                self.scalar("*", mark.line());
            }
            _ => {}
        }
    }
}
