//! CIFAR-10 in its binary layout: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`.
//!
//! | bytes of a record | field |
//! |---|---|
//! | 0 | label, 0 to 9 |
//! | 1 to 3072 | red, green and blue planes of 32 x 32, row-major |

use super::{CLASSES, Images, Part, Shape, Shard};
use crate::error::Error;
use asgc_core::config::Dataset;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const ADVICE: &str = "unpack the binary version of CIFAR-10 (cifar-10-binary.tar.gz) and name the folder \
                      that holds cifar-10-batches-bin in run.data_root";
const IMAGE_BYTES: usize = 3 * 32 * 32;

pub(super) fn cifar10(root: &Path, part: Part, shard: Shard) -> Result<Images, Error> {
    let mut images = Images {
        shape: Shape::of(Dataset::Cifar10),
        pixels: Vec::new(),
        labels: Vec::new(),
    };
    let names: Vec<String> = match part {
        Part::Train => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
        Part::Test => vec!["test_batch.bin".to_owned()],
    };
    let mut count = 0;
    for name in names {
        let path = find(root, &name)?;
        let fail = |problem: String| Error::data(&path, problem, ADVICE);
        let file = File::open(&path).map_err(|e| fail(e.to_string()))?;
        count = read(BufReader::new(file), count, shard, &mut images).map_err(fail)?;
    }
    Ok(images)
}

fn find(root: &Path, name: &str) -> Result<PathBuf, Error> {
    let mut paths = [root.join("cifar-10-batches-bin").join(name), root.join(name)].into_iter();
    paths.find(|path| path.is_file()).ok_or_else(|| {
        Error::data(
            root,
            format!("no {name} here or in cifar-10-batches-bin/"),
            ADVICE,
        )
    })
}

/// Appends the records of `source` that `shard` holds, the first being number `count` of the data set;
/// returns the number after the last.
fn read(mut source: impl Read, count: usize, shard: Shard, images: &mut Images) -> Result<usize, String> {
    let mut next = count;
    let mut record = Vec::with_capacity(1 + IMAGE_BYTES);
    loop {
        record.clear();
        let limit = 1 + IMAGE_BYTES as u64;
        source
            .by_ref()
            .take(limit)
            .read_to_end(&mut record)
            .map_err(|e| e.to_string())?;
        match record.split_first() {
            None if next == count => return Err("the file is empty".into()),
            None => return Ok(next),
            Some((&label, pixels)) => {
                if pixels.len() < IMAGE_BYTES {
                    return Err(format!("the file ends in record {} of 3,073 bytes", next - count));
                }
                if label >= CLASSES {
                    return Err(format!("record {} has label {label}, not 0 to 9", next - count));
                }
                if shard.holds(next) {
                    images.labels.push(label);
                    images.pixels.extend_from_slice(pixels);
                }
                next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn empty() -> Images {
        Images {
            shape: Shape::of(Dataset::Cifar10),
            pixels: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn records(labels: &[u8]) -> Vec<u8> {
        labels
            .iter()
            .flat_map(|&label| [vec![label], vec![label * 10; IMAGE_BYTES]].concat())
            .collect()
    }

    #[test]
    fn shards_count_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("cifar-10-batches-bin");
        std::fs::create_dir(&inner).unwrap();
        for (i, labels) in [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1], [2, 3, 4]]
            .iter()
            .enumerate()
        {
            std::fs::write(inner.join(format!("data_batch_{}.bin", i + 1)), records(labels)).unwrap();
        }
        let images = cifar10(folder.path(), Part::Train, Shard::new(1, 2)).unwrap();
        assert_eq!(images.labels, [1, 3, 5, 7, 9, 1, 3]);
        assert_eq!(images.image(2), [50; IMAGE_BYTES]);

        let message = cifar10(folder.path(), Part::Test, Shard::ALL)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("no test_batch.bin") && message.contains("run.data_root"),
            "{message}"
        );
        std::fs::write(inner.join("test_batch.bin"), &records(&[1, 2])[..4000]).unwrap();
        let message = cifar10(folder.path(), Part::Test, Shard::ALL)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("test_batch.bin: the file ends in record 1"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn rubbish_is_an_error_or_data_but_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..7000),
        ) {
            let mut images = empty();
            if read(&bytes[..], 0, Shard::ALL, &mut images).is_ok() {
                prop_assert_eq!(images.len() * (1 + IMAGE_BYTES), bytes.len());
            }
        }
    }
}
