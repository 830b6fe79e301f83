//! Any bytes, as any format: refused in words, or applied to finite values; never a panic, whole or in chunks the same.
#![no_main]

use asgc_core::codec::{Format, Payload};
use asgc_core::parameters::Parameters;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u32>, Vec<u8>)| {
    let (format, entries, bytes) = input;
    let layout = asgc_fuzz::layout();
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let claim = Payload::check_claim(format, &entries, bytes.len() as u64, &layout);
    let payload = Payload {
        format,
        entries,
        bytes: bytes.into(),
    };
    let checked = payload.check(&layout);
    assert!(claim.is_ok() || checked.is_err(), "a payload whose header is refused is refused");
    let Ok(checked) = checked else { return };
    let decoded = checked.decode();
    assert!(decoded.iter().all(|value| value.is_finite()));
    let mut flat = vec![0.5; layout.parameters()];
    checked.add_scaled_to(-0.25, &mut flat);
    let mut chunked = Parameters::new(&vec![0.5; layout.parameters()], 33);
    chunked.add_scaled(-0.25, &checked);
    assert_eq!(chunked.to_vec().iter().map(|v| v.to_bits()).collect::<Vec<_>>(), flat.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
    if let Some(indices) = checked.indices() {
        assert!(indices.is_sorted_by(|a, b| a < b));
    }
});
