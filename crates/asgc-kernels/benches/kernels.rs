//! Kernels beside copying and axpy of the same data: `cargo bench -p asgc-kernels`. The fastest of many runs is what the
//! machine can do; compare within one run.

use asgc_kernels::{BLOCK, Found, Key, magnitude_bits};
use divan::{Bencher, counter::BytesCount};

/// Entries: those of a ResNet-18.
const ENTRIES: usize = 11_173_962;

fn main() {
    divan::main();
}

/// Even noise in [-0.5, 0.5).
fn noise() -> Vec<f32> {
    let key = Key([1, 2]);
    (0..ENTRIES as u32)
        .map(|i| asgc_kernels::uniform(key, i) - 0.5)
        .collect()
}

fn entries(bytes: usize) -> BytesCount {
    BytesCount::new(bytes * ENTRIES)
}

#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    let (from, mut to) = (noise(), vec![0.0f32; ENTRIES]);
    bencher
        .counter(entries(8))
        .bench_local(|| to.copy_from_slice(&from));
}

#[divan::bench]
fn axpy(bencher: Bencher<'_, '_>) {
    let (values, mut target) = (noise(), noise());
    bencher
        .counter(entries(12))
        .bench_local(|| asgc_kernels::axpy(1e-3, &values, &mut target));
}

#[divan::bench]
fn sum_squares(bencher: Bencher<'_, '_>) {
    let values = noise();
    bencher
        .counter(entries(4))
        .bench_local(|| asgc_kernels::sum_squares(&values));
}

#[divan::bench(args = [0.01, 0.25])]
fn scan_with_residual(bencher: Bencher<'_, '_>, share: f32) {
    let (mut u, e, mut found) = (noise(), vec![0.0; ENTRIES], Found::default());
    let threshold = magnitude_bits(0.5 * (1.0 - share));
    bencher.counter(entries(12)).bench_local(|| {
        found.begin(ENTRIES);
        asgc_kernels::scan(&mut u, Some(&e), (0, threshold), &mut found)
    });
}

#[divan::bench]
fn scan_alone(bencher: Bencher<'_, '_>) {
    let (mut u, mut found) = (noise(), Found::default());
    bencher.counter(entries(4)).bench_local(|| {
        found.begin(ENTRIES);
        asgc_kernels::scan(&mut u, None, (0, magnitude_bits(0.495)), &mut found)
    });
}

#[divan::bench]
fn quantize_in_place(bencher: Bencher<'_, '_>) {
    let (values, mut codes) = (noise(), [0i8; BLOCK]);
    let mut left = values.clone();
    bencher.counter(entries(9)).bench_local(|| {
        for block in left.chunks_mut(BLOCK) {
            asgc_kernels::quantize_in_place(
                block,
                (0.004, 127.0),
                (Key([1, 2]), 0),
                &mut codes[..block.len()],
            );
        }
    });
}

#[divan::bench(args = [3, 4, 8])]
fn pack(bencher: Bencher<'_, '_>, bits: u8) {
    let codes = vec![1i8; ENTRIES];
    let mut bytes = vec![0; asgc_kernels::packed_len(ENTRIES, bits)];
    bencher
        .counter(entries(1))
        .bench_local(|| asgc_kernels::pack(&codes, bits, &mut bytes));
}

#[divan::bench(args = [3, 4, 8])]
fn unpack(bencher: Bencher<'_, '_>, bits: u8) {
    let bytes = vec![0x5a; asgc_kernels::packed_len(ENTRIES, bits)];
    let mut codes = vec![0i8; ENTRIES];
    bencher
        .counter(entries(1))
        .bench_local(|| asgc_kernels::unpack(&bytes, bits, &mut codes));
}

#[divan::bench]
fn add_scaled_codes(bencher: Bencher<'_, '_>) {
    let (codes, mut target) = (vec![1i8; ENTRIES], noise());
    bencher
        .counter(entries(9))
        .bench_local(|| asgc_kernels::add_scaled_codes(1e-3, 0.1, &codes, &mut target));
}

#[divan::bench]
fn add_scaled_signs(bencher: Bencher<'_, '_>) {
    let (signs, mut target) = (vec![0x5au8; ENTRIES.div_ceil(8)], noise());
    bencher
        .counter(entries(8))
        .bench_local(|| asgc_kernels::add_scaled_signs(1e-3, 0.1, (&signs, 0), &mut target));
}

#[divan::bench]
fn add_scaled_fp16(bencher: Bencher<'_, '_>) {
    let (halves, mut target) = (vec![0x11u8; 2 * ENTRIES], noise());
    bencher
        .counter(entries(10))
        .bench_local(|| asgc_kernels::add_scaled_fp16(1e-3, &halves, &mut target));
}

#[divan::bench]
fn encode_bf16(bencher: Bencher<'_, '_>) {
    let (mut values, mut out) = (noise(), vec![0u8; 2 * ENTRIES]);
    bencher
        .counter(entries(10))
        .bench_local(|| asgc_kernels::encode_bf16(&mut values, &mut out));
}
