//! What traces the requests of one application: who is traced, of what they are spans, and where these go. Clones share it.

use std::sync::Arc;

use crate::queue::Queue;
use crate::resource::Resource;
use crate::sampling::Sampler;

/// Traces the requests of one application.
#[derive(Clone, Debug)]
pub struct Tracer {
    /// Where spans are put.
    pub queue: Arc<Queue>,
    /// Who is traced; of all applications of a server.
    pub sampler: Arc<Sampler>,
    /// What spans say of the application.
    pub resource: Arc<Resource>,
}
