//! Models as safetensors files: names and shapes as PyTorch's `state_dict` has them.

use asgc_core::layout::{Layout, LayoutError, TensorSpec};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What is wrong with a model file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is no safetensors file: {source}", path.display())]
    Format { path: PathBuf, source: SafeTensorError },
    #[error("{}: tensor `{name}` is {dtype:?}, only F32 is read", path.display())]
    Dtype {
        path: PathBuf,
        name: String,
        dtype: Dtype,
    },
    #[error("{}: tensor `{name}` holds a value that is not finite", path.display())]
    NonFinite { path: PathBuf, name: String },
    #[error("{}: {source}", path.display())]
    Layout { path: PathBuf, source: LayoutError },
    #[error("the evaluator's batch-norm statistics are no safetensors: {0}")]
    Buffers(SafeTensorError),
    #[error("the model cannot be written as safetensors: {0}")]
    Encode(SafeTensorError),
}

/// Reads initial parameters: every `f32` tensor in the file, in the order of its data, but for batch-norm
/// statistics, which are no parameters.
pub(crate) fn read(path: &Path) -> Result<(Layout, Vec<f32>), Error> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let bytes = fs::read(path).map_err(io)?;
    let format = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(format)?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(format)?;
    let (mut specs, mut values) = (Vec::new(), Vec::new());
    for name in metadata.offset_keys().into_iter().filter(|name| !is_buffer(name)) {
        let view = tensors.tensor(&name).map_err(format)?;
        if view.dtype() != Dtype::F32 {
            return Err(Error::Dtype {
                path: path.to_owned(),
                name,
                dtype: view.dtype(),
            });
        }
        let from = values.len();
        asgc_proto::bytes_to_floats(view.data(), &mut values);
        if !values[from..].iter().all(|value| value.is_finite()) {
            return Err(Error::NonFinite {
                path: path.to_owned(),
                name,
            });
        }
        specs.push(TensorSpec {
            name,
            shape: view.shape().to_vec(),
        });
    }
    let layout = Layout::new(specs).map_err(|source| Error::Layout {
        path: path.to_owned(),
        source,
    })?;
    Ok((layout, values))
}

fn is_buffer(name: &str) -> bool {
    ["running_mean", "running_var", "num_batches_tracked"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

/// Writes parameters (flat) and `buffers` (a safetensors file, or nothing) beside the target, then moves them
/// there: the file is either the old one or the new one, whole.
pub(crate) fn write(path: &Path, layout: &Layout, values: &[f32], buffers: &[u8]) -> Result<(), Error> {
    let bytes = encode(layout, values, buffers)?;
    let beside = path.with_extension("safetensors.new");
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let mut file = fs::File::create(&beside).map_err(io)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .map_err(io)?;
    fs::rename(&beside, path).map_err(io)
}

fn encode(layout: &Layout, values: &[f32], buffers: &[u8]) -> Result<Vec<u8>, Error> {
    let data = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect::<Vec<_>>();
    let mut views = Vec::new();
    for (spec, range) in layout.tensors().iter().zip(layout.ranges()) {
        let data = &data[4 * range.start..4 * range.end];
        let view = TensorView::new(Dtype::F32, spec.shape.clone(), data).map_err(Error::Encode)?;
        views.push((spec.name.as_str(), view));
    }
    let statistics = match buffers {
        [] => None,
        bytes => Some(SafeTensors::deserialize(bytes).map_err(Error::Buffers)?),
    };
    views.extend(statistics.iter().flat_map(SafeTensors::iter));
    safetensors::serialize(views, None).map_err(Error::Encode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.to_vec(),
        };
        // Not in alphabetical order: the file must keep it all the same.
        Layout::new(vec![spec("z.weight", &[2, 2]), spec("a.bias", &[1])]).unwrap()
    }

    #[test]
    fn a_model_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let values = [1.0, -2.0, 3.5, f32::MIN_POSITIVE, 5.0];
        let tracked = 7i64.to_le_bytes();
        let tracked = TensorView::new(Dtype::I64, vec![], &tracked).unwrap();
        let buffers = safetensors::serialize([("bn.num_batches_tracked", tracked)], None).unwrap();
        write(&path, &layout(), &values, &buffers).unwrap();
        let (read_layout, read_values) = read(&path).unwrap();
        assert_eq!(read_values.len(), values.len());
        // Order within the file is the format's own; names decide.
        let mut names = read_layout
            .tensors()
            .iter()
            .map(|t| t.name.as_str())
            .collect::<Vec<_>>();
        names.sort_unstable();
        assert_eq!(names, ["a.bias", "z.weight"]);
        let bytes = fs::read(&path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("bn.num_batches_tracked").unwrap().dtype(), Dtype::I64);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no litter");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let says = || read(&path).unwrap_err().to_string();
        assert!(says().contains("model.safetensors"));
        fs::write(&path, b"rubbish").unwrap();
        assert!(says().contains("is no safetensors file"));
        write(&path, &layout(), &[0.0, f32::NAN, 0.0, 0.0, 0.0], &[]).unwrap();
        assert!(says().contains("`z.weight` holds a value that is not finite"));
    }
}
