//! Where responses and bodies are kept, and within which limits: one store for each edge, which count together. It keeps none
//! itself.

use std::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use config::Settings;

use crate::http::body_memory::LONG_BODIES_BYTES;
use crate::messages::{Dispatch, SubmissionId};
use crate::shared_bytes::SharedBytes;
use crate::spool::SpoolPlace;

/// Where the responses of one edge and the bodies of its requests are kept, and how much of them.
pub struct ResponseStore {
    /// Bytes of all responses in memory, and from how many on they go to their files earlier.
    pub memory: Arc<SharedBytes>,
    /// Bytes of the bodies of requests that are in memory although they are long.
    pub long_bodies: Arc<SharedBytes>,
    /// Files of bodies and responses that outgrow memory.
    pub spools: SpoolPlace,
    /// What each application has of both, by its number, where there are several.
    parts: Arc<[ApplicationPart]>,
    /// Bytes of one response in memory before it goes to a file.
    pub memory_limit: Cell<usize>,
    /// Bytes of one response in a file; then the application waits for the client.
    pub file_limit: Cell<u64>,
    /// Who hears that there is room again.
    dispatcher: OnceCell<Weak<dyn Dispatch>>,
}

/// What one of several applications has of memory and files.
#[derive(Debug)]
struct ApplicationPart {
    memory: Arc<SharedBytes>,
    space: Arc<SharedBytes>,
}

/// What the stores of all edges count together.
#[derive(Clone, Debug)]
pub(crate) struct StoredBytes {
    memory: Arc<SharedBytes>,
    long_bodies: Arc<SharedBytes>,
    spools: SpoolPlace,
    parts: Arc<[ApplicationPart]>,
}

impl ResponseStore {
    /// Returns an empty store within the limits of these settings, of so many applications.
    pub fn new(settings: &Settings, applications: usize) -> Self {
        let memory = SharedBytes::new(settings.response_buffer_total_bytes);
        let spools = SpoolPlace::new(settings.spool_dir.as_deref(), settings.spool_max_bytes);
        let part = |_| ApplicationPart {
            memory: SharedBytes::part_of(&memory),
            space: SharedBytes::part_of(&spools.space),
        };
        // One alone may have all.
        let several = if applications > 1 { applications } else { 0 };
        let bytes = StoredBytes {
            parts: (0..several).map(part).collect(),
            memory,
            long_bodies: SharedBytes::new(LONG_BODIES_BYTES),
            spools,
        };
        Self::sharing(settings, bytes)
    }

    /// The same, of which memory and files count together with those of other edges.
    pub(crate) fn sharing(settings: &Settings, bytes: StoredBytes) -> Self {
        let StoredBytes {
            memory,
            long_bodies,
            spools,
            parts,
        } = bytes;
        Self {
            memory,
            long_bodies,
            spools,
            parts,
            memory_limit: Cell::new(settings.response_buffer_bytes),
            file_limit: Cell::new(settings.response_spool_max_bytes),
            dispatcher: OnceCell::new(),
        }
    }

    /// What it counts together with the stores of other edges.
    pub(crate) fn bytes(&self) -> StoredBytes {
        StoredBytes {
            memory: Arc::clone(&self.memory),
            long_bodies: Arc::clone(&self.long_bodies),
            spools: self.spools.clone(),
            parts: Arc::clone(&self.parts),
        }
    }

    /// The memory for responses of the application with this number.
    pub(crate) fn memory_of(&self, application: u16) -> &Arc<SharedBytes> {
        let part = self.parts.get(usize::from(application));
        part.map_or(&self.memory, |part| &part.memory)
    }

    /// The space in files for bodies and responses of the application with this number.
    pub(crate) fn space_of(&self, application: u16) -> &Arc<SharedBytes> {
        let part = self.parts.get(usize::from(application));
        part.map_or(&self.spools.space, |part| &part.space)
    }

    /// Names who hears that there is room again. The first one stays.
    pub fn set_dispatcher(&self, dispatcher: &Rc<dyn Dispatch>) {
        let _ = self.dispatcher.set(Rc::downgrade(dispatcher));
    }

    /// Keeps the limits of these settings from now on.
    pub fn apply(&self, settings: &Settings) {
        let spool_max_bytes = usize::try_from(settings.spool_max_bytes).unwrap_or(usize::MAX);
        self.spools.space.set_limit(spool_max_bytes);
        self.memory.set_limit(settings.response_buffer_total_bytes);
        self.memory_limit.set(settings.response_buffer_bytes);
        self.file_limit.set(settings.response_spool_max_bytes);
    }

    /// There is room for more of a response.
    pub(super) fn consumed(&self, id: SubmissionId) {
        if let Some(dispatcher) = self.dispatcher.get().and_then(Weak::upgrade) {
            dispatcher.consumed(id);
        }
    }
}
