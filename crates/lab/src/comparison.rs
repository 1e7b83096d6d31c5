//! Comparisons of stacks on one application: interleaved trials, each on a fresh server, and what they found
//! ([`results`]). It sends no request itself and knows no server by name.

pub mod lab;
pub mod results;
