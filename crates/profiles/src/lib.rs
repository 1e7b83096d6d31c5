//! Stacks of Ruby threads, merged and shown: as a tree of text, a table of methods, a flame graph and a file for
//! speedscope. Pure: it takes no sample, reads no file and knows no request.

mod flame_graph;
mod frame;
mod process_report;
mod speedscope;
mod table;
mod text;
mod tree;

pub use flame_graph::flame_graph;
pub use frame::{Frame, Origin, printable};
pub use process_report::{Profile, ReportError, ThreadStack, figures, threads};
pub use speedscope::speedscope;
pub use table::{Method, methods, methods_text};
pub use text::stacks_text;
pub use tree::{Limits, Node, StackTree};
