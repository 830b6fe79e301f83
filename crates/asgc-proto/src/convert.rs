//! Messages to core types and back.

mod controls;
mod delta;
mod recipe;

pub use controls::{controls, controls_message, operator, operator_message};
pub use delta::{Arrived, delta, delta_message, parameter_type, parameter_type_message};

use crate::limits::MAX_NAME_BYTES;
use crate::{PROTOCOL, v1};
use asgc_core::codec::Format;
use asgc_core::config::Role;
use asgc_core::event::{Decision, RejectReason};
use asgc_core::ids::{Generation, Incarnation, PushId, Revision, Staleness, Version, WorkerId};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_core::push::{Dropped, LinkSample, Measured, PushHeader, Verdict};
use asgc_core::server::{Joining, Pull};
use bytes::Bytes;

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Another version of the protocol.
    #[error("the worker speaks protocol {theirs}, the server speaks {PROTOCOL}: use programs of one version")]
    Protocol {
        /// The peer's version.
        theirs: u32,
    },
    /// An enum's value is absent, or from a newer peer.
    #[error("{field} = {value} is not supported by this version (protocol {PROTOCOL})")]
    Unsupported {
        /// Which field.
        field: &'static str,
        /// Its number.
        value: i32,
    },
    /// A required part is absent or out of its range.
    #[error("{0}")]
    Field(String),
}

fn malformed(what: impl Into<String>) -> Malformed {
    Malformed::Field(what.into())
}

/// Refuses another protocol version, in words.
pub fn check_protocol(theirs: u32) -> Result<(), Malformed> {
    if theirs == PROTOCOL {
        Ok(())
    } else {
        Err(Malformed::Protocol { theirs })
    }
}

/// A wish to join.
pub fn joining(request: v1::JoinRequest) -> Result<Joining, Malformed> {
    check_protocol(request.protocol)?;
    let role = role(request.role)?;
    if request.name.len() > MAX_NAME_BYTES {
        return Err(malformed(format!(
            "name has {} bytes, {MAX_NAME_BYTES} at most",
            request.name.len()
        )));
    }
    let layout = layout(request.tensors)?;
    if request.fingerprint[..] != layout.fingerprint().0 {
        return Err(malformed("the fingerprint does not belong to the tensors"));
    }
    let recipe = recipe::recipe(&request.recipe, &layout)?;
    Ok(Joining {
        recipe,
        role,
        wanted: request.worker_id.map(WorkerId),
        incarnation: Incarnation(request.incarnation),
        layout,
        name: request.name,
    })
}

/// The message of a wish to join.
#[must_use]
pub fn join_request(joining: &Joining) -> v1::JoinRequest {
    let role = match joining.role {
        Role::Trainer => v1::Role::Trainer,
        Role::Evaluator => v1::Role::Evaluator,
    };
    let tensor = |tensor: &TensorSpec| v1::Tensor {
        name: tensor.name.clone(),
        shape: tensor.shape.iter().map(|&d| d as u64).collect(),
    };
    let formats = Format::ALL.map(format_message);
    v1::JoinRequest {
        protocol: PROTOCOL,
        role: role.into(),
        worker_id: joining.wanted.map(|worker| worker.0),
        incarnation: joining.incarnation.0,
        name: joining.name.clone(),
        tensors: joining.layout.tensors().iter().map(tensor).collect(),
        fingerprint: Bytes::copy_from_slice(&joining.layout.fingerprint().0),
        formats: formats.map(i32::from).to_vec(),
        recipe: joining
            .recipe
            .as_ref()
            .map(recipe::recipe_message)
            .unwrap_or_default(),
    }
}

fn role(value: i32) -> Result<Role, Malformed> {
    match v1::Role::try_from(value) {
        Ok(v1::Role::Trainer) => Ok(Role::Trainer),
        Ok(v1::Role::Evaluator) => Ok(Role::Evaluator),
        _ => Err(Malformed::Unsupported { field: "role", value }),
    }
}

fn layout(tensors: Vec<v1::Tensor>) -> Result<Layout, Malformed> {
    let specs = tensors.into_iter().map(|tensor| {
        let shape = tensor
            .shape
            .iter()
            .map(|&d| usize::try_from(d))
            .collect::<Result<_, _>>();
        let shape = shape.map_err(|_| malformed(format!("the shape of `{}` is too large", tensor.name)))?;
        Ok(TensorSpec {
            name: tensor.name,
            shape,
        })
    });
    Layout::new(specs.collect::<Result<_, Malformed>>()?).map_err(|error| malformed(error.to_string()))
}

/// A wish for parameters.
#[must_use]
pub fn pull(request: &v1::PullRequest) -> Pull {
    let version = request.known_version.map(Version);
    Pull {
        known: version.map(|version| (Generation(request.known_generation), version)),
    }
}

/// The message of a wish for parameters.
#[must_use]
pub fn pull_request(pull: Pull) -> v1::PullRequest {
    v1::PullRequest {
        known_version: pull.known.map(|(_, version)| version.0),
        known_generation: pull.known.map_or(0, |(generation, _)| generation.0),
    }
}

/// A push's header; the data that came with it is left out.
pub fn push_header(message: v1::PushHeader) -> Result<PushHeader, Malformed> {
    if message.push_id == 0 {
        return Err(malformed("push_id 0: ids start at 1"));
    }
    let format = format(message.format)?;
    Ok(PushHeader {
        push: PushId(message.push_id),
        generation: Generation(message.generation),
        base: Version(message.base_version),
        format,
        entries: message.entries,
        payload_bytes: message.payload_bytes,
        controls: Revision(message.controls_revision),
        measured: Measured {
            fetch_s: figure(message.fetch_s),
            compute_s: figure(message.compute_s),
            encode_s: figure(message.encode_s),
            residual_norm: figure(message.residual_norm),
            loss: figure(message.loss),
            samples: message.samples,
            gradient_norm: figure(message.gradient_norm),
            dropped: Dropped {
                sum: figure(message.residual_dropped),
                norm: figure(message.residual_dropped_norm),
            },
            link: message.link.and_then(link_sample),
            pipeline_depth: message.pipeline_depth,
        },
    })
}

/// `None` where it cannot have been measured.
fn link_sample(message: v1::LinkSample) -> Option<LinkSample> {
    let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    (is_time(message.rtt_s) && is_time(message.upload_s)).then_some(LinkSample {
        rtt_s: message.rtt_s,
        upload_bytes: message.upload_bytes,
        upload_s: message.upload_s,
    })
}

fn format(value: i32) -> Result<Format, Malformed> {
    match v1::Format::try_from(value) {
        Ok(v1::Format::Identity) => Ok(Format::Identity),
        Ok(v1::Format::Topk) => Ok(Format::TopK),
        Ok(v1::Format::Quantize) => Ok(Format::Quantize),
        Ok(v1::Format::Bf16) => Ok(Format::Bf16),
        Ok(v1::Format::Fp16) => Ok(Format::Fp16),
        Ok(v1::Format::TopkPacked) => Ok(Format::TopKPacked),
        Ok(v1::Format::TopkPackedBf16) => Ok(Format::TopKPackedBf16),
        Ok(v1::Format::TopkPackedInt8) => Ok(Format::TopKPackedInt8),
        Ok(v1::Format::QuantizePacked) => Ok(Format::QuantizePacked),
        Ok(v1::Format::Sign) => Ok(Format::Sign),
        _ => Err(Malformed::Unsupported {
            field: "format",
            value,
        }),
    }
}

fn format_message(format: Format) -> v1::Format {
    match format {
        Format::Identity => v1::Format::Identity,
        Format::TopK => v1::Format::Topk,
        Format::Quantize => v1::Format::Quantize,
        Format::Bf16 => v1::Format::Bf16,
        Format::Fp16 => v1::Format::Fp16,
        Format::TopKPacked => v1::Format::TopkPacked,
        Format::TopKPackedBf16 => v1::Format::TopkPackedBf16,
        Format::TopKPackedInt8 => v1::Format::TopkPackedInt8,
        Format::QuantizePacked => v1::Format::QuantizePacked,
        Format::Sign => v1::Format::Sign,
    }
}

/// Figures go into logs and sums: one that is not a number there would spoil them all.
fn figure(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// The message of a push's header, with the beginning of its payload.
#[must_use]
pub fn push_message(header: &PushHeader, asks_first: bool, data: Bytes) -> v1::PushHeader {
    let measured = header.measured;
    v1::PushHeader {
        push_id: header.push.0,
        generation: header.generation.0,
        base_version: header.base.0,
        format: format_message(header.format).into(),
        entries: header.entries.clone(),
        payload_bytes: header.payload_bytes,
        asks_first,
        fetch_s: measured.fetch_s,
        compute_s: measured.compute_s,
        encode_s: measured.encode_s,
        residual_norm: measured.residual_norm,
        loss: measured.loss,
        samples: measured.samples,
        controls_revision: header.controls.0,
        gradient_norm: measured.gradient_norm,
        residual_dropped: measured.dropped.sum,
        residual_dropped_norm: measured.dropped.norm,
        link: measured.link.map(|link| v1::LinkSample {
            rtt_s: link.rtt_s,
            upload_bytes: link.upload_bytes,
            upload_s: link.upload_s,
        }),
        pipeline_depth: measured.pipeline_depth,
        data,
    }
}

/// A verdict, and the push that it is on.
pub fn verdict(message: &v1::Verdict) -> Result<(PushId, Verdict), Malformed> {
    let decision = match v1::Decision::try_from(message.decision) {
        Ok(v1::Decision::Accepted) => Decision::Accepted,
        Ok(v1::Decision::Downweighted) => Decision::Downweighted,
        Ok(v1::Decision::Rejected) => Decision::Rejected,
        _ => {
            return Err(Malformed::Unsupported {
                field: "decision",
                value: message.decision,
            });
        }
    };
    let verdict = Verdict {
        decision,
        reason: reason(message.reason)?,
        weight: message.weight,
        staleness: Staleness(message.staleness),
        version: Version(message.version),
    };
    Ok((PushId(message.push_id), verdict))
}

/// The message of a verdict that the server needed `held_s` seconds for.
#[must_use]
pub fn verdict_message(push: PushId, verdict: &Verdict, held_s: f64) -> v1::Verdict {
    let decision = match verdict.decision {
        Decision::Accepted => v1::Decision::Accepted,
        Decision::Downweighted => v1::Decision::Downweighted,
        Decision::Rejected => v1::Decision::Rejected,
    };
    v1::Verdict {
        push_id: push.0,
        decision: decision.into(),
        reason: verdict
            .reason
            .map_or(v1::RejectReason::Unspecified, reason_message)
            .into(),
        weight: verdict.weight,
        staleness: verdict.staleness.0,
        version: verdict.version.0,
        held_s,
    }
}

fn reason(value: i32) -> Result<Option<RejectReason>, Malformed> {
    Ok(match v1::RejectReason::try_from(value) {
        Ok(v1::RejectReason::Unspecified) => None,
        Ok(v1::RejectReason::Stale) => Some(RejectReason::Stale),
        Ok(v1::RejectReason::Late) => Some(RejectReason::Late),
        Ok(v1::RejectReason::NonFinite) => Some(RejectReason::NonFinite),
        Ok(v1::RejectReason::WrongGeneration) => Some(RejectReason::WrongGeneration),
        Ok(v1::RejectReason::FutureVersion) => Some(RejectReason::FutureVersion),
        Ok(v1::RejectReason::ForgottenId) => Some(RejectReason::ForgottenId),
        Ok(v1::RejectReason::Stopped) => Some(RejectReason::Stopped),
        Err(_) => {
            return Err(Malformed::Unsupported {
                field: "reason",
                value,
            });
        }
    })
}

fn reason_message(reason: RejectReason) -> v1::RejectReason {
    match reason {
        RejectReason::Stale => v1::RejectReason::Stale,
        RejectReason::Late => v1::RejectReason::Late,
        RejectReason::NonFinite => v1::RejectReason::NonFinite,
        RejectReason::WrongGeneration => v1::RejectReason::WrongGeneration,
        RejectReason::FutureVersion => v1::RejectReason::FutureVersion,
        RejectReason::ForgottenId => v1::RejectReason::ForgottenId,
        RejectReason::Stopped => v1::RejectReason::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message;

    fn request() -> v1::JoinRequest {
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![2, 3],
        };
        join_request(&Joining {
            recipe: None,
            role: Role::Trainer,
            wanted: Some(WorkerId(2)),
            incarnation: Incarnation(9),
            layout: Layout::new(vec![spec]).unwrap(),
            name: "host".into(),
        })
    }

    #[test]
    fn a_join_survives_the_trip() {
        let joined = joining(request()).unwrap();
        assert_eq!(
            (joined.wanted, joined.incarnation),
            (Some(WorkerId(2)), Incarnation(9))
        );
        assert_eq!(joined.layout.parameters(), 6);
    }

    #[test]
    fn what_is_not_known_is_refused_and_named() {
        let says = |change: &dyn Fn(&mut v1::JoinRequest)| {
            let mut request = request();
            change(&mut request);
            joining(request).unwrap_err().to_string()
        };
        assert!(says(&|r| r.protocol = PROTOCOL + 1).contains("speaks protocol 2, the server speaks 1"));
        assert!(says(&|r| r.protocol = 0).contains("speaks protocol 0"));
        assert!(says(&|r| r.role = 99).contains("role = 99 is not supported"));
        assert!(says(&|r| r.role = 0).contains("role = 0 is not supported"));
        assert!(says(&|r| r.fingerprint = Bytes::new()).contains("fingerprint"));
        assert!(says(&|r| r.tensors.clear()).contains("no tensors"));
        assert!(says(&|r| r.tensors[0].shape = vec![u64::MAX, 2]).contains("entries"));
        assert!(says(&|r| r.name = "x".repeat(300)).contains("300 bytes"));
        for format in [0, 99] {
            let message = v1::PushHeader {
                push_id: 1,
                format,
                ..Default::default()
            };
            assert!(
                push_header(message)
                    .unwrap_err()
                    .to_string()
                    .contains("is not supported")
            );
        }
        assert!(
            push_header(v1::PushHeader {
                format: 1,
                ..Default::default()
            })
            .is_err(),
            "push id 0"
        );
        for (decision, reason) in [(0, 0), (99, 0), (3, 99)] {
            assert!(
                verdict(&v1::Verdict {
                    decision,
                    reason,
                    ..Default::default()
                })
                .is_err()
            );
        }
    }

    proptest! {
        #[test]
        fn verdicts_and_headers_survive_the_trip(id in 1u64.., v: u64, tau: u64, weight in 0.0f64..1.0, n in 0i32..8) {
            let sent = Verdict {
                decision: Decision::Rejected, reason: reason(n).unwrap(), weight,
                staleness: Staleness(tau), version: Version(v),
            };
            prop_assert_eq!(verdict(&verdict_message(PushId(id), &sent, 0.5)).unwrap(), (PushId(id), sent));
            let header = PushHeader {
                push: PushId(id), generation: Generation(tau), base: Version(v), format: Format::TopK,
                entries: vec![1, 2], payload_bytes: v, controls: Revision(tau),
                measured: Measured { loss: weight, samples: 3, ..Measured::default() },
            };
            prop_assert_eq!(push_header(push_message(&header, true, Bytes::new())).unwrap(), header);
        }

        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = v1::JoinRequest::decode(&bytes[..]) {
                let _ = joining(request);
            }
            if let Ok(message) = v1::WorkerMessage::decode(&bytes[..])
                && let Some(v1::worker_message::Kind::Push(header)) = message.kind
            {
                let _ = push_header(header);
            }
        }
    }
}
