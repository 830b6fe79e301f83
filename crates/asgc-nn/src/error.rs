//! What can go wrong, in words that say what to do.

use asgc_core::config::{Dataset, Model};
use asgc_core::layout::LayoutError;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A data file is missing, truncated or something else than its name says.
    #[error("{}: {problem}; {advice}", path.display())]
    Data {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// `run.device` names something that is not there.
    #[error("run.device = \"{device}\": {problem}")]
    Device {
        /// The setting.
        device: String,
        /// Why it cannot be had.
        problem: String,
    },
    /// The model's first layer does not take the data set's images.
    #[error(
        "{model:?} does not take the images of {dataset:?}: SmallCnn and ToyCnn read FashionMnist and Procedural, \
         Resnet8 and Resnet18 read Cifar10"
    )]
    Mismatch {
        /// The model.
        model: Model,
        /// The data set.
        dataset: Dataset,
    },
    /// A model's list of first distributions does not fit its layout.
    #[error(transparent)]
    Recipe(asgc_core::initial::NotARecipe),
    /// The model is a formula, not a network.
    #[error("{} is a synthetic objective, which only `asgc run --mode simulate` computes", .0.as_str())]
    Synthetic(Model),
    /// A number of the specification is out of range.
    #[error("{name} must be {range}, not {value}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it was.
        value: usize,
    },
    /// A slice of parameters or of the gradient has another length than the layout.
    #[error("the slice of {what} has {actual} entries, the model {expected}")]
    Length {
        /// `parameters` or `gradient`.
        what: &'static str,
        /// Entries in the layout.
        expected: usize,
        /// Entries in the slice.
        actual: usize,
    },
    /// The model's tensors are no layout: a mistake in this crate.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The batch-norm statistics could not be written.
    #[error("batch-norm statistics: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// libtorch failed.
    #[error("libtorch: {}", first_line(.0))]
    Torch(#[from] tch::TchError),
}

impl Error {
    pub(crate) fn data(path: &Path, problem: impl Into<String>, advice: &'static str) -> Self {
        Self::Data {
            path: path.to_owned(),
            problem: problem.into(),
            advice,
        }
    }
}

/// libtorch's messages go on with a C++ stack trace, which helps nobody in a log.
fn first_line(error: &tch::TchError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
