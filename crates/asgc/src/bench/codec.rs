//! `asgc bench codec`: encoding with error feedback, checking and applying, beside passes over the same memory.

use super::coding::Coding;
use super::roofline::{self, Memory, Roofline, middle, time};
use super::synthetic;
use super::table::{Table, machine};
use crate::output;
use anyhow::{Context as _, Result};
use asgc_core::codec::{CheckedPayload, Codec, Encoder};
use asgc_core::feedback::{Bound, Compressor};
use asgc_core::layout::Layout;
use asgc_core::parameters::Parameters;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// Entries of a chunk of parameters at the server, with the default `server.chunk_bytes`.
const CHUNK_LEN: usize = (1 << 20) / 4;

/// Compare codecs with passes over the same memory
///
/// Times encoding (but for quantize, which needs none: the sum with the residual, the check that all is finite, the payload, the new residual, the norms),
/// checking a payload as the server does, and applying it to parameters in chunks. In each round an axpy, a copy and a
/// read of as many entries are timed in between; ratios are taken within a round, and medians over rounds are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Entries of the gradient
    #[arg(long, value_name = "N", default_value_t = 11_173_962, value_parser = clap::value_parser!(u32).range(1..))]
    parameters: u32,
    /// A codec and its form, such as topk(rho=0.01)+packed+int8; may be given several times; a choice of each kind unless given
    #[arg(long, value_name = "CODEC")]
    codec: Vec<Coding>,
    /// A share of entries for Top-K, beside what --codec says; may be given several times
    #[arg(long, value_name = "RHO")]
    rho: Vec<f64>,
    /// Kinds of gradient; all of them unless given
    #[arg(long, value_enum, value_name = "KIND")]
    input: Vec<Kind>,
    /// Rounds
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the gradient is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Normal values, each layer on a scale of its own
    Gaussian,
    /// Nothing but zeros
    Zero,
    /// One value everywhere
    Equal,
    /// One normal value in a thousand, the rest zeros
    MostlyZero,
}

/// One codec on one input; medians.
#[derive(Debug, Serialize)]
struct Row {
    input: Kind,
    codec: String,
    encode_s: f64,
    encode_of_axpy: f64,
    encode_of_copy: f64,
    encode_of_read: f64,
    check_s: f64,
    apply_s: f64,
    /// Checking is no part of it.
    apply_of_axpy: f64,
    entries: u64,
    kept: u64,
    payload_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    parameters: u32,
    machine: Roofline,
    rows: Vec<Row>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let codecs = codecs(args)?;
    let layout = Arc::new(synthetic::layout(args.parameters as usize)?);
    let machine = roofline::measure(args.parameters as usize, args.repeat)?;
    let mut memory = Memory::new(args.parameters as usize);
    let mut rows = Vec::new();
    for kind in kinds(&args.input) {
        let gradient = kind.gradient(&layout);
        for &codec in &codecs {
            let row = measure(args.repeat, &mut memory, (&layout, kind, &gradient, codec))?;
            output::note(&format!("{}, {codec}: {:.2} ms", kind.name(), row.encode_s * 1e3));
            rows.push(row);
        }
    }
    let report = Report {
        parameters: args.parameters,
        machine,
        rows,
    };
    output::say(&if args.json {
        serde_json::to_string(&report)?
    } else {
        report.text()
    });
    Ok(ExitCode::SUCCESS)
}

fn codecs(args: &Args) -> Result<Vec<Coding>> {
    let mut texts: Vec<_> = args.rho.iter().map(|rho| format!("topk(rho={rho})")).collect();
    if texts.is_empty() && args.codec.is_empty() {
        let usual = [
            "identity",
            "topk(rho=0.25)",
            "topk(rho=0.01)",
            "topk(rho=0.001)",
            "topk(rho=0.01)+packed+bf16",
            "topk(rho=0.01)+packed+int8",
            "topk(rho=0.01)+packed+int8+model",
            "quantize(bits=8)",
            "quantize(bits=4)+packed",
            "identity+bf16",
            "identity+fp16",
            "sign",
        ];
        texts = usual.map(str::to_owned).to_vec();
    }
    let parsed = texts.iter().map(|text| text.parse().map_err(anyhow::Error::msg));
    args.codec.iter().map(|&codec| Ok(codec)).chain(parsed).collect()
}

fn kinds(wanted: &[Kind]) -> Vec<Kind> {
    match wanted {
        [] => vec![Kind::Gaussian, Kind::Zero, Kind::Equal, Kind::MostlyZero],
        wanted => wanted.to_vec(),
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Zero => "zero",
            Self::Equal => "equal",
            Self::MostlyZero => "mostly-zero",
        }
    }

    fn gradient(self, layout: &Layout) -> Vec<f32> {
        let entries = layout.parameters();
        match self {
            Self::Gaussian => synthetic::gradient(layout, 0),
            Self::Zero => vec![0.0; entries],
            Self::Equal => vec![1e-3; entries],
            Self::MostlyZero => {
                let mut values = synthetic::gradient(layout, 0);
                // A prime stride, so that no tensor's size is in step with it.
                values
                    .iter_mut()
                    .enumerate()
                    .filter(|(i, _)| i % 997 != 0)
                    .for_each(|(_, v)| *v = 0.0);
                values
            }
        }
    }
}

/// A layout, a gradient of it and what it is, and what encodes it.
type Case<'a> = (&'a Arc<Layout>, Kind, &'a [f32], Coding);

fn measure(repeat: u32, memory: &mut Memory, (layout, input, gradient, coding): Case<'_>) -> Result<Row> {
    let encoder = Encoder::new(Arc::clone(layout), 0).with_form(coding.form);
    // Quantize is unbiased and needs no error feedback; with it, on tensors of this size, its noise would only pile up.
    let feedback = !matches!(coding.codec, Codec::Quantize(_));
    let mut compressor = Compressor::new(encoder, feedback.then_some(Bound::Cap(100.0)));
    let mut buffer = gradient.to_vec();
    let mut parameters = Parameters::new(&vec![0.0; layout.parameters()], CHUNK_LEN);
    let (mut encode, mut check, mut apply) = (vec![], vec![], vec![]);
    let (mut axpys, mut copies, mut reads, mut applies) = (vec![], vec![], vec![], vec![]);
    let (mut kept, mut payload_bytes) = (0, 0);
    // The first round warms up, and does not count.
    for round in 0..=repeat {
        let (axpy, copy, read) = (memory.axpy(), memory.copy(), memory.read());
        let mut encoded = None;
        // The compressor gives another buffer back.
        buffer.copy_from_slice(gradient);
        let encode_s =
            time(|| encoded = Some(compressor.compress(&mut buffer, coding.codec, u64::from(round))));
        let payload = encoded.context("nothing was encoded")??;
        payload_bytes = payload.bytes.len() as u64;
        let mut checked = None;
        let sent = payload.clone();
        let check_s = time(|| checked = Some(payload.check(layout)));
        let checked = checked.context("nothing was checked")??;
        kept = kept_entries(&checked);
        let apply_s = time(|| parameters.add_scaled(-1e-3, &checked));
        drop(checked);
        compressor.recycle(sent);
        if round > 0 {
            encode.push(encode_s);
            check.push(check_s);
            apply.push(apply_s);
            axpys.push(encode_s / axpy);
            copies.push(encode_s / copy);
            reads.push(encode_s / read);
            applies.push(apply_s / axpy);
        }
    }
    Ok(Row {
        input,
        codec: coding.to_string(),
        encode_s: middle(&encode),
        encode_of_axpy: middle(&axpys),
        encode_of_copy: middle(&copies),
        encode_of_read: middle(&reads),
        check_s: middle(&check),
        apply_s: middle(&apply),
        apply_of_axpy: middle(&applies),
        entries: layout.parameters() as u64,
        kept,
        payload_bytes,
    })
}

/// Entries that a payload carries: all of them, where the codec leaves none out.
fn kept_entries(payload: &CheckedPayload) -> u64 {
    payload.indices().map_or(payload.parameters(), <[u32]>::len) as u64
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
        let kept = self.kept.max(1) as f64;
        vec![
            self.input.name().to_owned(),
            self.codec.clone(),
            ms(self.encode_s),
            format!("{:.2}", self.encode_s * 1e9 / self.entries as f64),
            format!("{:.2}", self.encode_of_axpy),
            format!("{:.2}", self.encode_of_copy),
            ms(self.check_s),
            ms(self.apply_s),
            format!("{:.2}", (self.check_s + self.apply_s) * 1e9 / kept),
            format!("{:.2}", self.apply_of_axpy),
            format!("{:.2}", self.payload_bytes as f64 / kept),
        ]
    }
}

impl Report {
    fn text(&self) -> String {
        let columns = [
            "input",
            "codec",
            "encode ms",
            "ns/entry",
            "of axpy",
            "of copy",
            "check ms",
            "apply ms",
            "ns/kept entry",
            "of axpy",
            "bytes/kept entry",
        ];
        let mut table = Table::new(&columns);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        format!(
            "{} entries\n{}\n\n{}",
            self.parameters,
            machine(&self.machine),
            table.text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_codec_can_be_measured() {
        let layout = Arc::new(synthetic::layout(5000).unwrap());
        let mut memory = Memory::new(5000);
        for kind in kinds(&[]) {
            let gradient = kind.gradient(&layout);
            assert_eq!(gradient.len(), 5000);
            for text in [
                "identity",
                "topk(rho=0.01)",
                "topk(rho=0.01)+packed+int8",
                "quantize(bits=8)",
            ] {
                let codec: Coding = text.parse().unwrap();
                let row = measure(2, &mut memory, (&layout, kind, &gradient, codec)).unwrap();
                assert!(row.payload_bytes > 0, "{row:?}");
                let kept = if text.starts_with("topk") {
                    0..=50
                } else {
                    5000..=5000
                };
                assert!(kept.contains(&row.kept), "{row:?}");
                assert_eq!(row.cells().len(), 11);
            }
        }
        let zeros = Kind::MostlyZero.gradient(&layout);
        assert_eq!(zeros.iter().filter(|v| **v != 0.0).count(), 6);
    }
}
