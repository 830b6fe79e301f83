//! Any line as an event of a log: what is read can be written, and reads the same.
#![no_main]

use asgc_core::event::Event;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    let Ok(event) = serde_json::from_str::<Event>(line) else { return };
    let written = serde_json::to_string(&event).expect("an event can be written");
    let again = serde_json::from_str::<Event>(&written);
    // Figures that are not finite are written as null, which some fields do not take.
    if let Ok(again) = again {
        assert_eq!(serde_json::to_string(&again).expect("as above"), written);
    }
});
