//! Any bytes as a delta: refused in words, or made, all or none; never a panic, and never more memory than was sent.
#![no_main]

use asgc_core::worker::{Settings, Worker};
use asgc_proto::{convert, v1};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = v1::Delta::decode(bytes) else { return };
    let layout = asgc_fuzz::layout();
    let Ok(arrived) = convert::delta(&message, layout.dense_bytes()) else {
        return;
    };
    let Ok(delta) = arrived.with(message.data) else { return };
    let settings = Settings::new(&asgc_core::config::Config::default()).expect("defaults are sound");
    let worker = Worker::new(std::sync::Arc::clone(&layout), settings);
    let changes = delta.records.into_iter().map(|record| worker.change(record));
    if let Ok(changes) = changes.collect::<Result<Vec<_>, _>>() {
        let mut parameters = vec![0.25; layout.parameters()];
        changes.iter().for_each(|change| change.make_within(0, &mut parameters));
    }
});
