//! Which tensors a model has: names, shapes and their order in the flat parameter vector.
//!
//! Server and workers hold parameters and gradients as one flat `f32` vector, tensor after tensor in
//! layout order, row-major. Two sides may only exchange numbers when their fingerprints agree.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;

/// The largest tensor: its entries are addressed by non-negative `i32` indices.
pub const MAX_TENSOR_LEN: usize = i32::MAX as usize;

/// The most entries that all tensors may have together: they are addressed by `u32` indices.
pub const MAX_PARAMETERS: usize = u32::MAX as usize;

/// One tensor: its name in the state dictionary and its shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The name, as PyTorch's `state_dict` has it.
    pub name: String,
    /// The shape; empty for a scalar.
    pub shape: Vec<usize>,
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {:?}", self.name, self.shape)
    }
}

/// Why a list of tensors is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nothing to train.
    #[error("the layout has no tensors")]
    Empty,
    /// Names are keys in the saved model.
    #[error("two tensors are called `{0}`")]
    DuplicateName(String),
    /// Names end up in files and logs.
    #[error("tensor {0} has no name, or one of more than 256 bytes")]
    BadName(usize),
    /// An index into all parameters would not fit its 32 bits.
    #[error("the tensors up to {0} have more than {MAX_PARAMETERS} entries together")]
    TooMany(TensorSpec),
    /// An index would not fit its 31 bits.
    #[error("tensor {0} has more than {MAX_TENSOR_LEN} entries")]
    TooLarge(TensorSpec),
}

/// SHA-256 over names and shapes in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The ordered tensors of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<TensorSpec>,
    /// `ends[i]` is where tensor `i` ends in the flat vector.
    ends: Vec<usize>,
}

impl Layout {
    /// Checks names and sizes.
    pub fn new(tensors: Vec<TensorSpec>) -> Result<Self, LayoutError> {
        if tensors.is_empty() {
            return Err(LayoutError::Empty);
        }
        let mut names = std::collections::HashSet::new();
        let mut ends = Vec::with_capacity(tensors.len());
        let mut end = 0usize;
        for (i, tensor) in tensors.iter().enumerate() {
            if tensor.name.is_empty() || tensor.name.len() > 256 {
                return Err(LayoutError::BadName(i));
            }
            if !names.insert(&tensor.name) {
                return Err(LayoutError::DuplicateName(tensor.name.clone()));
            }
            let len = tensor.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            let len = len.filter(|&n| n <= MAX_TENSOR_LEN);
            let len = len.ok_or_else(|| LayoutError::TooLarge(tensor.clone()))?;
            end = end
                .checked_add(len)
                .filter(|&end| end <= MAX_PARAMETERS)
                .ok_or_else(|| LayoutError::TooMany(tensor.clone()))?;
            ends.push(end);
        }
        Ok(Self { tensors, ends })
    }

    /// The tensors in order.
    #[must_use]
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// All entries together, `d`.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of all parameters as `f32`.
    #[must_use]
    pub fn dense_bytes(&self) -> u64 {
        4 * self.parameters() as u64
    }

    /// Where tensor after tensor lies in the flat vector.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        (0..self.ends.len()).map(|i| if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i])
    }

    /// Identifies the layout: equal fingerprints mean equal names, shapes and order.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        for tensor in &self.tensors {
            // Lengths first, so that no two lists hash the same bytes.
            hash.update((tensor.name.len() as u64).to_le_bytes());
            hash.update(tensor.name.as_bytes());
            hash.update((tensor.shape.len() as u64).to_le_bytes());
            tensor
                .shape
                .iter()
                .for_each(|&d| hash.update((d as u64).to_le_bytes()));
        }
        Fingerprint(hash.finalize().into())
    }

    /// Where the tensors of `order` lie in this layout's vector, one range after the other in the order of
    /// `order`; in words, what differs when the two are not the same tensors.
    pub fn ranges_in_order_of(&self, order: &Self) -> Result<Vec<Range<usize>>, String> {
        let mut at: std::collections::HashMap<_, _> = self.tensors.iter().zip(self.ranges()).collect();
        let missing = |tensor: &TensorSpec| format!("{tensor} is not among this run's initial parameters");
        let ranges = order
            .tensors
            .iter()
            .map(|tensor| at.remove(tensor).ok_or_else(|| missing(tensor)));
        let ranges = ranges.collect::<Result<_, _>>()?;
        match self.tensors.iter().find(|tensor| at.contains_key(tensor)) {
            None => Ok(ranges),
            Some(extra) => Err(format!("this run's initial parameters also have {extra}")),
        }
    }

    /// The first difference from `theirs`, in words that name the tensor; `None` when equal.
    #[must_use]
    pub fn difference(&self, theirs: &Self) -> Option<String> {
        for (i, (ours, other)) in self.tensors.iter().zip(&theirs.tensors).enumerate() {
            if ours != other {
                return Some(format!("tensor {i} is {other}, but this run trains {ours}"));
            }
        }
        let (n, m) = (self.tensors.len(), theirs.tensors.len());
        match n.cmp(&m) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Less => Some(format!(
                "tensor {n}, {}, is one more than this run's {n} tensors",
                theirs.tensors[n]
            )),
            std::cmp::Ordering::Greater => Some(format!(
                "tensor {m}, {}, is missing ({m} tensors, {n} expected)",
                self.tensors[m]
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(tensors: &[(&str, &[usize])]) -> Layout {
        let spec = |(name, shape): &(&str, &[usize])| TensorSpec {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
        };
        Layout::new(tensors.iter().map(spec).collect()).unwrap()
    }

    #[test]
    fn ranges_follow_one_another() {
        let layout = layout(&[("w", &[2, 3]), ("b", &[]), ("none", &[0, 4]), ("c", &[5])]);
        assert_eq!(layout.ranges().collect::<Vec<_>>(), [0..6, 6..7, 7..7, 7..12]);
        assert_eq!(layout.parameters(), 12);
        assert_eq!(layout.dense_bytes(), 48);
    }

    #[test]
    fn fingerprints_tell_names_shapes_and_order_apart() {
        let base = layout(&[("w", &[2, 3]), ("b", &[3])]);
        assert_eq!(base.fingerprint(), base.clone().fingerprint());
        for other in [
            layout(&[("w", &[3, 2]), ("b", &[3])]),
            layout(&[("b", &[3]), ("w", &[2, 3])]),
            layout(&[("w", &[2, 3])]),
            layout(&[("w", &[2, 3]), ("b2", &[3])]),
        ] {
            assert_ne!(base.fingerprint(), other.fingerprint());
            assert!(base.difference(&other).is_some());
        }
    }

    #[test]
    fn a_difference_names_the_tensor() {
        let base = layout(&[("w", &[2, 3]), ("b", &[3])]);
        let says = |other: &Layout| base.difference(other).unwrap();
        assert_eq!(
            says(&layout(&[("w", &[2, 3]), ("b", &[4])])),
            "tensor 1 is `b` [4], but this run trains `b` [3]"
        );
        assert!(says(&layout(&[("w", &[2, 3])])).contains("`b` [3], is missing"));
        assert!(says(&layout(&[("w", &[2, 3]), ("b", &[3]), ("c", &[1])])).contains("`c` [1]"));
        assert_eq!(base.difference(&base.clone()), None);
    }

    #[test]
    fn the_same_tensors_are_found_in_another_order() {
        let file = layout(&[("a", &[2]), ("b", &[3]), ("c", &[])]);
        let model = layout(&[("c", &[]), ("a", &[2]), ("b", &[3])]);
        assert_eq!(file.ranges_in_order_of(&model).unwrap(), [5..6, 0..2, 2..5]);
        let says = |order: &Layout| file.ranges_in_order_of(order).unwrap_err();
        assert!(says(&layout(&[("a", &[2]), ("b", &[4]), ("c", &[])])).starts_with("`b` [4] is not among"));
        assert!(says(&layout(&[("a", &[2]), ("b", &[3])])).ends_with("also have `c` []"));
    }

    #[test]
    fn impossible_lists_are_refused() {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.to_vec(),
        };
        assert_eq!(Layout::new(vec![]), Err(LayoutError::Empty));
        assert!(matches!(
            Layout::new(vec![spec("a", &[1]), spec("a", &[1])]),
            Err(LayoutError::DuplicateName(_))
        ));
        assert!(matches!(
            Layout::new(vec![spec("a", &[usize::MAX, 2])]),
            Err(LayoutError::TooLarge(_))
        ));
        let most = [MAX_TENSOR_LEN];
        assert!(matches!(
            Layout::new(vec![spec("a", &most), spec("b", &most), spec("c", &[2])]),
            Err(LayoutError::TooMany(tensor)) if tensor.name == "c"
        ));
        assert!(matches!(
            Layout::new(vec![spec("", &[1])]),
            Err(LayoutError::BadName(0))
        ));
    }
}
