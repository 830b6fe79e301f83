//! PNG files of the same SVG, with letters of our own: machines without fonts draw them too.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use std::sync::Arc;

/// Pixels of a PNG for one of the SVG.
const SCALE: f32 = 1.25;

/// An SVG could not be turned into a PNG.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// It is not sound.
    #[error("the SVG cannot be read: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// It has no area.
    #[error("the SVG has no area")]
    Empty,
    /// It cannot be encoded.
    #[error("the PNG cannot be written: {0}")]
    Encode(String),
}

/// Draws `svg`.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let tree = Tree::from_str(svg, &options())?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut map = Pixmap::new(pixels(size.width()), pixels(size.height())).ok_or(PngError::Empty)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut map.as_mut());
    map.encode_png()
        .map_err(|error| PngError::Encode(error.to_string()))
}

fn options() -> Options<'static> {
    let mut options = Options::default();
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    options.font_family = "DejaVu Sans".into();
    options
}
