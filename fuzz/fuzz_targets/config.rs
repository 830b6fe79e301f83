//! Any text as a configuration: as TOML, YAML, a flag, and the settings that a server sends.
#![no_main]

use asgc_core::config::validate;
use asgc_daemon::config::{ConfigArgs, from_settings_json, load_from};
use libfuzzer_sys::fuzz_target;
use std::io::Write as _;

fuzz_target!(|input: (u8, String)| {
    let (kind, text) = input;
    let mut args = ConfigArgs::default();
    let mut kept = None;
    match kind % 4 {
        0 | 1 => {
            let suffix = if kind % 4 == 0 { ".toml" } else { ".yaml" };
            let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a file");
            file.write_all(text.as_bytes()).expect("room");
            args.config = vec![file.path().to_owned()];
            kept = Some(file);
        }
        2 => args.set = vec![text],
        _ => {
            let _ = from_settings_json(&text);
            return;
        }
    }
    match load_from(&args, &[], std::iter::empty()) {
        Ok(loaded) => assert_eq!(validate(&loaded.config), []),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    drop(kept);
});
