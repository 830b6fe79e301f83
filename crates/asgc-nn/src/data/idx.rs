//! The IDX format of the MNIST family, plain or gzipped, and the four files of Fashion-MNIST.
//!
//! | bytes | field |
//! |---|---|
//! | 0, 1 | zero |
//! | 2 | type of the entries; 8 is `u8`, the only one here |
//! | 3 | number of dimensions `r` |
//! | 4 to 4 + 4r | the dimensions, big-endian `u32`; the first counts the items |
//! | then | the entries, row-major |

use super::{CLASSES, Images, Part, Shape, Shard};
use crate::error::Error;
use asgc_core::config::Dataset;
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const ADVICE: &str = "run scripts/fashion-mnist, or name a folder with the four files of Fashion-MNIST in \
                      run.data_root";

pub(super) fn fashion_mnist(root: &Path, part: Part, shard: Shard) -> Result<Images, Error> {
    let prefix = if part == Part::Train { "train" } else { "t10k" };
    let shape = Shape::of(Dataset::FashionMnist);
    let images = find(root, &format!("{prefix}-images-idx3-ubyte"))?;
    let labels = find(root, &format!("{prefix}-labels-idx1-ubyte"))?;
    let (count, pixels) = read_file(&images, &[shape.side, shape.side], shard)?;
    let (labelled, label_bytes) = read_file(&labels, &[], shard)?;
    if count != labelled {
        let problem = format!("{labelled} labels for the {count} images of {}", images.display());
        return Err(Error::data(&labels, problem, ADVICE));
    }
    if let Some(label) = label_bytes.iter().find(|&&label| label >= CLASSES) {
        return Err(Error::data(
            &labels,
            format!("a label is {label}, not 0 to 9"),
            ADVICE,
        ));
    }
    Ok(Images {
        shape,
        pixels,
        labels: label_bytes,
    })
}

/// The first file of that name, plain or `.gz`, in the folders where it usually lies.
fn find(root: &Path, name: &str) -> Result<PathBuf, Error> {
    let folders = [
        root.join("fashion-mnist"),
        root.join("FashionMNIST/raw"),
        root.to_owned(),
        PathBuf::from("/usr/share/datasets/fashion-mnist"),
    ];
    let names = [name.to_owned(), format!("{name}.gz")];
    let mut paths = folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let problem = format!("no {name} or {name}.gz here, in fashion-mnist/ or in FashionMNIST/raw/");
        Error::data(root, problem, ADVICE)
    })
}

/// How many items the file holds, and the bytes of those in `shard`.
fn read_file(path: &Path, item: &[usize], shard: Shard) -> Result<(usize, Vec<u8>), Error> {
    let fail = |problem: String| Error::data(path, problem, ADVICE);
    let mut reader = BufReader::new(File::open(path).map_err(|e| fail(e.to_string()))?);
    let zipped = reader
        .fill_buf()
        .map_err(|e| fail(e.to_string()))?
        .starts_with(&[0x1f, 0x8b]);
    let contents = if zipped {
        read(GzDecoder::new(reader), item, shard)
    } else {
        read(reader, item, shard)
    };
    contents.map_err(fail)
}

/// Reads items of dimensions `item`; errors say in words what is wrong.
fn read(mut source: impl Read, item: &[usize], shard: Shard) -> Result<(usize, Vec<u8>), String> {
    let count = read_header(&mut source, item)?;
    let mut buffer = vec![0; item.iter().product()];
    // Grows as bytes come: a header that lies about its count cannot make us allocate for it.
    let mut kept = Vec::new();
    for i in 0..count {
        source
            .read_exact(&mut buffer)
            .map_err(|e| cut(&format!("item {i} of {count}"), &e))?;
        if shard.holds(i) {
            kept.extend_from_slice(&buffer);
        }
    }
    match source.read(&mut [0]) {
        Ok(0) => Ok((count, kept)),
        Ok(_) => Err(format!("more bytes than its header's {count} items need")),
        Err(e) => Err(cut("its end", &e)),
    }
}

fn read_header(source: &mut impl Read, item: &[usize]) -> Result<usize, String> {
    let mut word = [0; 4];
    let mut next = || {
        source
            .read_exact(&mut word)
            .map(|()| word)
            .map_err(|e| cut("the header", &e))
    };
    let magic = next()?;
    let rank = item.len() + 1;
    if magic[..3] != [0, 0, 8] || usize::from(magic[3]) != rank {
        return Err(format!(
            "not an IDX file of bytes in {rank} dimensions: it begins with {magic:02x?}"
        ));
    }
    let count = u32::from_be_bytes(next()?);
    for &side in item {
        let found = u32::from_be_bytes(next()?);
        if usize::try_from(found) != Ok(side) {
            return Err(format!("items have a side of {found}, not {side}"));
        }
    }
    usize::try_from(count).map_err(|e| e.to_string())
}

fn cut(place: &str, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        format!("the file ends in {place}")
    } else {
        format!("unreadable in {place}: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(count: u32, sides: &[u32], body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, sides.len() as u8 + 1];
        bytes.extend(count.to_be_bytes());
        sides.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
        bytes.extend(body);
        bytes
    }

    fn zip(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_shard_keeps_every_nth_item() {
        let bytes = file(5, &[1, 2], &[0, 1, 10, 11, 20, 21, 30, 31, 40, 41]);
        let all = read(&bytes[..], &[1, 2], Shard::ALL).unwrap();
        assert_eq!(all, (5, bytes[16..].to_vec()));
        let odd = read(&bytes[..], &[1, 2], Shard::new(1, 2)).unwrap();
        assert_eq!(odd, (5, vec![10, 11, 30, 31]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let says = |bytes: &[u8]| read(bytes, &[1, 2], Shard::ALL).unwrap_err();
        assert_eq!(says(&[]), "the file ends in the header");
        assert!(says(b"\0\0\x0d\x03....").starts_with("not an IDX file of bytes in 3 dimensions"));
        assert_eq!(says(&file(1, &[1, 3], &[0; 3])), "items have a side of 3, not 2");
        assert_eq!(
            says(&file(u32::MAX, &[1, 2], &[0; 3])),
            "the file ends in item 1 of 4294967295"
        );
        assert_eq!(
            says(&file(1, &[1, 2], &[0; 3])),
            "more bytes than its header's 1 items need"
        );
    }

    #[test]
    fn missing_and_truncated_files_are_named_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let says = || find(folder.path(), "absent-idx3-ubyte").unwrap_err().to_string();
        assert!(says().starts_with(folder.path().to_str().unwrap()), "{}", says());
        assert!(says().contains("no absent-idx3-ubyte") && says().contains("run scripts/fashion-mnist"));

        let whole = zip(&file(3, &[28, 28], &[7; 3 * 784]));
        let path = folder.path().join("train-images-idx3-ubyte.gz");
        std::fs::write(&path, &whole[..whole.len() - 12]).unwrap();
        let message = fashion_mnist(folder.path(), Part::Train, Shard::ALL);
        assert!(message.is_err(), "the labels are missing");
        let message = read_file(&path, &[28, 28], Shard::ALL).unwrap_err().to_string();
        assert!(
            message.contains("train-images-idx3-ubyte.gz: the file ends in"),
            "{message}"
        );
    }

    #[test]
    fn plain_and_gzipped_files_read_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("FashionMNIST/raw");
        std::fs::create_dir_all(&raw).unwrap();
        let images = file(2, &[28, 28], &[9; 2 * 784]);
        std::fs::write(raw.join("t10k-images-idx3-ubyte"), &images).unwrap();
        std::fs::write(raw.join("t10k-labels-idx1-ubyte.gz"), zip(&file(2, &[], &[3, 9]))).unwrap();
        let read = fashion_mnist(folder.path(), Part::Test, Shard::ALL).unwrap();
        assert_eq!(
            (read.labels.as_slice(), read.pixels.len()),
            (&[3, 9][..], 2 * 784)
        );

        std::fs::write(
            raw.join("t10k-labels-idx1-ubyte.gz"),
            zip(&file(3, &[], &[3, 9, 1])),
        )
        .unwrap();
        let message = fashion_mnist(folder.path(), Part::Test, Shard::ALL)
            .unwrap_err()
            .to_string();
        assert!(message.contains("3 labels for the 2 images"), "{message}");
        std::fs::write(
            raw.join("t10k-labels-idx1-ubyte.gz"),
            zip(&file(2, &[], &[3, 10])),
        )
        .unwrap();
        let message = fashion_mnist(folder.path(), Part::Test, Shard::ALL)
            .unwrap_err()
            .to_string();
        assert!(message.contains("a label is 10"), "{message}");
    }

    proptest! {
        #[test]
        fn rubbish_is_an_error_or_data_but_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            magic in any::<bool>(),
            zipped in any::<bool>(),
        ) {
            let bytes = if magic { [&[0, 0, 8, 3][..], &bytes].concat() } else { bytes };
            let bytes = if zipped { [&[0x1f, 0x8b][..], &bytes].concat() } else { bytes };
            let _ = read(&bytes[..], &[1, 2], Shard::ALL);
            let _ = read(GzDecoder::new(&bytes[..]), &[], Shard::new(1, 3));
        }
    }
}
