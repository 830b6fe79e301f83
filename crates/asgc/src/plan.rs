//! `asgc plan`: what to expect of a link, before anything runs.

use crate::bench::Rate;
use crate::output;
use anyhow::Result;
use asgc_core::codec::{Codec, Form};
use asgc_core::ids::Density;
use asgc_lab::plan::{Bottleneck, LINK_EFFICIENCY, Plan, Prediction, Setting, time_codec};
use asgc_lab::units;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Say what a model, a machine and a link lead to: the bottleneck, which compression, how many updates/s
///
/// Uses the cost model that the budget policy uses. What compressing costs is measured on this machine. The bandwidth
/// is that of one worker's own link.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Entries of the model: 11.2e6 for ResNet-18
    #[arg(long, value_name = "N", value_parser = count)]
    parameters: u64,
    /// Seconds of computing one gradient
    #[arg(long, value_name = "S", value_parser = positive)]
    step: f64,
    /// Rate of a worker's uplink, such as 100mbit
    #[arg(long, value_name = "RATE")]
    bandwidth: Rate,
    /// Rate of its downlink [that of the uplink]
    #[arg(long, value_name = "RATE")]
    downlink: Option<Rate>,
    /// Round trip between worker and server, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = positive_or_zero)]
    rtt: f64,
    /// Trainers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Share of a step that uploading may take
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    share: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "not a number".to_owned())
}

fn positive_or_zero(text: &str) -> Result<f64, String> {
    number(text).and_then(|x| {
        if x.is_finite() && x >= 0.0 {
            Ok(x)
        } else {
            Err("must be 0 or more".into())
        }
    })
}

fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(|x| {
        if x.is_finite() && x > 0.0 {
            Ok(x)
        } else {
            Err("must be above 0".into())
        }
    })
}

fn share(text: &str) -> Result<f64, String> {
    number(text).and_then(|x| {
        if x > 0.0 && x < 1.0 {
            Ok(x)
        } else {
            Err("must lie between 0 and 1".into())
        }
    })
}

fn count(text: &str) -> Result<u64, String> {
    let wrong = "must be a number of entries, 1 to 1e12";
    let value = text
        .replace('_', "")
        .parse::<f64>()
        .map_err(|_| wrong.to_owned())?;
    if (1.0..=1e12).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(wrong.to_owned())
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let strength = Density::new(0.05).map_or(Codec::Identity, Codec::TopK);
    let setting = Setting {
        parameters: args.parameters,
        form: Form::default(),
        compute_s: args.step,
        uplink_bytes_per_s: args.bandwidth.bytes_per_s(),
        downlink_bytes_per_s: args.downlink.unwrap_or(args.bandwidth).bytes_per_s(),
        rtt_s: args.rtt / 1e3,
        workers: args.workers,
        compressed: time_codec(strength, args.parameters),
        dense: time_codec(Codec::Identity, args.parameters),
    };
    let plan = setting.plan(args.share);
    output::say(&if args.json {
        serde_json::to_string(&plan)?
    } else {
        show(&setting, &plan)
    });
    Ok(ExitCode::SUCCESS)
}

fn show(setting: &Setting, plan: &Plan) -> String {
    let proposed = &plan.proposed;
    let mut text = format!("bottleneck        {}\n", bottleneck(plan.bottleneck));
    let _ = writeln!(text, "compression       {}", advice(plan));
    let _ = writeln!(
        text,
        "expect            {} of {} workers, {}/s of payload, steps of {}",
        units::per_second(proposed.updates_per_s),
        setting.workers,
        units::bytes(proposed.bytes_per_s as u64),
        units::seconds(proposed.step_s)
    );
    let _ = writeln!(text, "pipeline depth    {}", plan.pipeline_depth);
    let _ = writeln!(text, "local steps       {}", plan.local_steps);
    let _ = writeln!(
        text,
        "staleness         about {:.0} versions; noise N(rho, tau) = {:.0}",
        plan.expected_staleness, proposed.noise
    );
    let _ = writeln!(
        text,
        "\n{:<18}{:>12}{:>12}{:>12}{:>10}",
        "codec", "a push", "a step", "updates/s", "upload"
    );
    for line in [&plan.dense, proposed].into_iter().chain(&plan.others) {
        let _ = writeln!(text, "{}", row(line));
    }
    let _ = write!(
        text,
        "\nencoding {} a push and decoding {}, measured here; {} of a link's bits carry payload",
        units::seconds(setting.compressed.encode_s),
        units::seconds(setting.compressed.decode_s),
        units::percent(LINK_EFFICIENCY)
    );
    if plan.pipeline_depth > 1 || plan.local_steps > 1 {
        text.push_str(
            "\nthe rates above are for one push in flight and one gradient a push; worker.pipeline_depth and \
             worker.local_steps set the others",
        );
    }
    text
}

fn row(line: &Prediction) -> String {
    format!(
        "{:<18}{:>12}{:>12}{:>12}{:>10}",
        line.codec.to_string(),
        units::bytes(line.payload_bytes as u64),
        units::seconds(line.step_s),
        format!("{:.1}", line.updates_per_s),
        units::percent(line.comm_share)
    )
}

fn advice(plan: &Plan) -> String {
    match plan.proposed.codec {
        Codec::Identity if plan.beneficial => "not needed: the link bears everything".to_owned(),
        Codec::Identity => "does not pay: leave it off".to_owned(),
        codec => format!(
            "{codec}: {:.1} times the updates/s of no compression",
            plan.proposed.updates_per_s / plan.dense.updates_per_s
        ),
    }
}

fn bottleneck(bottleneck: Bottleneck) -> &'static str {
    match bottleneck {
        Bottleneck::Compute => "computing gradients",
        Bottleneck::Codec => "encoding and decoding: a weaker codec, or a faster processor",
        Bottleneck::Uplink => "the uplink",
        Bottleneck::Downlink => "the downlink, which carries whole snapshots",
        Bottleneck::Latency => "the round trip: more pushes in flight, or more steps a push",
        Bottleneck::Server => "the server: more workers do not make it faster",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::cost::Work;

    fn setting(uplink_bytes_per_s: f64) -> Setting {
        Setting {
            parameters: 1_000_000,
            form: Form::default(),
            compute_s: 0.1,
            uplink_bytes_per_s,
            downlink_bytes_per_s: 1e9,
            rtt_s: 0.001,
            workers: 2,
            compressed: Work {
                encode_s: 0.01,
                decode_s: 0.001,
            },
            dense: Work {
                encode_s: 0.001,
                decode_s: 0.001,
            },
        }
    }

    #[test]
    fn a_thin_link_and_a_free_one() {
        let thin = setting(4e6);
        let text = show(&thin, &thin.plan(0.1));
        assert!(
            text.starts_with("bottleneck        computing gradients\ncompression       topk(rho=0.00"),
            "{text}"
        );
        assert!(
            text.contains("\nidentity               4.00 MB      1.16 s         1.7    90.8 %"),
            "{text}"
        );
        let free = setting(1e9);
        let text = show(&free, &free.plan(0.1));
        assert!(
            text.contains("compression       does not pay: leave it off"),
            "{text}"
        );
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(count("11.2e6"), Ok(11_200_000));
        assert_eq!(count("1_000"), Ok(1000));
        for bad in ["0", "-1", "x", "nan", "1e13"] {
            assert!(count(bad).is_err(), "{bad}");
        }
        assert!(share("1").is_err() && share("0.5").is_ok());
        assert!(positive("0").is_err() && positive("inf").is_err() && positive_or_zero("0").is_ok());
    }
}
