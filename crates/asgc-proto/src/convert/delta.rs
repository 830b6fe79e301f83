//! Deltas, and how the values of a snapshot are written.

use super::{Malformed, format, format_message, malformed};
use crate::v1;
use asgc_core::codec::{Format, Payload};
use asgc_core::downlink::{Delta, How, Record};
use asgc_core::ids::{Generation, PushId, Version};
use bytes::Bytes;

/// A delta's head: its records still lack their payloads.
#[derive(Debug)]
pub struct Arrived {
    /// What leads from one version to another; payloads are empty.
    pub delta: Delta,
    /// Length of each record's payload, in bytes; 0 for the reader's own pushes.
    pub lengths: Vec<u64>,
}

impl Arrived {
    /// Length of all payloads together, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// The records with their payloads, which lie in `data` one behind the other.
    ///
    /// # Errors
    /// When there are not as many bytes as were announced.
    pub fn with(self, mut data: Bytes) -> Result<Delta, Malformed> {
        if data.len() as u64 != self.size_bytes() {
            let (found, expected) = (data.len(), self.size_bytes());
            return Err(malformed(format!(
                "a delta of {found} bytes; its records make {expected}"
            )));
        }
        let mut delta = self.delta;
        for (record, length) in delta.records.iter_mut().zip(self.lengths) {
            // It is no more than the length of `data`.
            record.payload.bytes = data.split_to(length as usize);
        }
        Ok(delta)
    }
}

/// A delta's head; `most` is how long its payloads may be together, in bytes.
pub fn delta(message: &v1::Delta, most: u64) -> Result<Arrived, Malformed> {
    let records = message
        .records
        .iter()
        .map(record)
        .collect::<Result<Vec<_>, _>>()?;
    let length = |record: &v1::Record| {
        if record.own_push == 0 {
            record.payload_bytes
        } else {
            0
        }
    };
    let lengths = message.records.iter().map(length).collect::<Vec<_>>();
    let sum = lengths
        .iter()
        .try_fold(0u64, |sum, &length| sum.checked_add(length));
    let sum = sum.filter(|&sum| sum <= most);
    if sum != Some(message.size_bytes) {
        let size = message.size_bytes;
        return Err(malformed(format!(
            "a delta of {size} bytes: its records make another sum, or more than {most}"
        )));
    }
    let delta = Delta {
        generation: Generation(message.generation),
        base: Version(message.base_version),
        version: Version(message.version),
        records,
        whole: None,
    };
    Ok(Arrived { delta, lengths })
}

fn record(message: &v1::Record) -> Result<Record, Malformed> {
    let how = match message.how {
        Some(v1::record::How::Add(factor)) if factor.is_finite() => How::Add(factor),
        Some(v1::record::How::Set(true)) if message.own_push == 0 => How::Set,
        _ => {
            return Err(malformed(
                "a record that says neither what to add nor what to set",
            ));
        }
    };
    let own = (message.own_push != 0).then_some(PushId(message.own_push));
    let payload = Payload {
        // Of its own pushes the reader has the payload, and with it the format.
        format: match own {
            Some(_) => Format::Identity,
            None => format(message.format)?,
        },
        entries: message.entries.clone(),
        bytes: Bytes::new(),
    };
    Ok(Record { how, own, payload })
}

/// The head of a delta, without data.
#[must_use]
pub fn delta_message(delta: &Delta) -> v1::Delta {
    let record = |record: &Record| {
        let how = match record.how {
            How::Add(factor) => v1::record::How::Add(factor),
            How::Set => v1::record::How::Set(true),
        };
        match record.own {
            Some(push) => v1::Record {
                how: Some(how),
                own_push: push.0,
                ..v1::Record::default()
            },
            None => v1::Record {
                how: Some(how),
                own_push: 0,
                format: format_message(record.payload.format).into(),
                entries: record.payload.entries.clone(),
                payload_bytes: record.payload.bytes.len() as u64,
            },
        }
    };
    v1::Delta {
        generation: delta.generation.0,
        base_version: delta.base.0,
        version: delta.version.0,
        records: delta.records.iter().map(record).collect(),
        size_bytes: delta.payload_bytes(),
        data: Bytes::new(),
    }
}

/// How the values of a snapshot are written: whether they are rounded to bfloat16.
pub fn parameter_type(value: i32) -> Result<bool, Malformed> {
    match v1::ParameterType::try_from(value) {
        Ok(v1::ParameterType::F32) => Ok(false),
        Ok(v1::ParameterType::Bf16) => Ok(true),
        _ => Err(Malformed::Unsupported { field: "type", value }),
    }
}

/// The name of that.
#[must_use]
pub fn parameter_type_message(rounded: bool) -> v1::ParameterType {
    match rounded {
        true => v1::ParameterType::Bf16,
        false => v1::ParameterType::F32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message as _;

    fn sent() -> Delta {
        let record = |how, own, bytes: &'static [u8]| Record {
            how,
            own,
            payload: Payload {
                format: Format::TopKPacked,
                entries: Vec::new(),
                bytes: Bytes::from_static(bytes),
            },
        };
        Delta {
            generation: Generation(3),
            base: Version(4),
            version: Version(7),
            records: vec![
                record(How::Add(-0.5), None, b"abc"),
                record(How::Add(-0.25), Some(PushId(9)), b"not sent"),
                record(How::Set, None, b"de"),
            ],
            whole: None,
        }
    }

    #[test]
    fn a_delta_survives_the_trip() {
        let message = delta_message(&sent());
        assert_eq!(message.size_bytes, 5);
        let arrived = delta(&message, 5)
            .unwrap()
            .with(Bytes::from_static(b"abcde"))
            .unwrap();
        assert_eq!(
            (arrived.generation, arrived.base, arrived.version),
            (Generation(3), Version(4), Version(7))
        );
        let expected = sent().records;
        assert_eq!(
            [&arrived.records[0], &arrived.records[2]],
            [&expected[0], &expected[2]]
        );
        assert_eq!(arrived.records[1].own, Some(PushId(9)));
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        assert!(delta(&delta_message(&sent()), 4).is_err(), "too long");
        assert!(
            delta(&delta_message(&sent()), 5)
                .unwrap()
                .with(Bytes::from_static(b"abcd"))
                .is_err()
        );
        let changed = |change: fn(&mut v1::Delta)| {
            let mut message = delta_message(&sent());
            change(&mut message);
            delta(&message, 1000).is_err()
        };
        assert!(changed(|m| m.size_bytes = 6));
        assert!(changed(|m| m.records[0].how = None));
        assert!(changed(
            |m| m.records[0].how = Some(v1::record::How::Add(f32::NAN))
        ));
        assert!(changed(|m| m.records[2].how = Some(v1::record::How::Set(false))));
        assert!(changed(|m| m.records[0].format = 99));
        assert!(changed(|m| m.records[0].payload_bytes = u64::MAX));
        assert!(parameter_type(0).is_err() && parameter_type(3).is_err());
    }

    proptest! {
        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = v1::Delta::decode(&bytes[..])
                && let Ok(arrived) = delta(&message, 1000)
            {
                let _ = arrived.with(Bytes::from(bytes));
            }
        }
    }
}
