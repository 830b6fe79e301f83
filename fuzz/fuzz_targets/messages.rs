//! Any bytes as a message of either side: refused in words, or a sound core type; never a panic.
#![no_main]

use asgc_core::codec::Payload;
use asgc_proto::{convert, v1};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = v1::JoinRequest::decode(bytes)
        && let Ok(joining) = convert::joining(request)
    {
        let again = convert::joining(convert::join_request(&joining)).expect("what was read can be written and read");
        assert_eq!(again.layout.fingerprint(), joining.layout.fingerprint());
        assert!(again.recipe == joining.recipe);
    }
    if let Ok(message) = v1::WorkerMessage::decode(bytes)
        && let Some(v1::worker_message::Kind::Push(header)) = message.kind
        && let Ok(header) = convert::push_header(header)
    {
        let _ = Payload::check_claim(header.format, &header.entries, header.payload_bytes, &asgc_fuzz::layout());
    }
    if let Ok(message) = v1::ServerMessage::decode(bytes) {
        match message.kind {
            Some(v1::server_message::Kind::Verdict(verdict)) => {
                let _ = convert::verdict(&verdict);
            }
            Some(v1::server_message::Kind::Controls(controls)) => {
                let _ = convert::controls(&controls);
            }
            _ => {}
        }
    }
    if let Ok(request) = v1::SetControlsRequest::decode(bytes) {
        let _ = convert::operator(request);
    }
});
