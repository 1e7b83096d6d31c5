//! Charts as inline SVG. Colours are classes of the page's style, so that they follow light and dark; nothing has a style
//! or a script of its own. No chart decides what is shown: that is the page's.

use serde::Serialize;

mod drawing;
pub(crate) mod heat;
pub(crate) mod hours;
pub(crate) mod lines;
pub(crate) mod time;

/// Width of every chart, in pixels of CSS: between that of a phone and half of a desktop, so that text is legible on both.
const WIDTH: f64 = 460.0;
/// Height of the plots, in pixels of CSS.
const PLOT_HEIGHT: f64 = 150.0;

/// A chart with its title.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the axis counts.
    pub(crate) unit: String,
    pub(crate) svg: String,
}

/// Where the plot of a chart is.
#[derive(Clone, Copy, Debug)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    base: f64,
}

impl Frame {
    /// The frame of all charts, so that times are above each other.
    const PLOT: Self = Self {
        left: 56.0,
        right: WIDTH - 14.0,
        top: 24.0,
        base: 24.0 + PLOT_HEIGHT,
    };
    /// Height of a chart with this frame and its texts.
    const HEIGHT: f64 = 24.0 + PLOT_HEIGHT + 26.0;
}
