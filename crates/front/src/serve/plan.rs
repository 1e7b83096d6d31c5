//! What is known of an application before it is served. Data only.

use std::rc::Rc;

use config::{HostPattern, Settings};

use crate::serve::reader::Reader;

/// What the front of an application is made from.
pub struct ApplicationPlan {
    /// Its name, where there are several.
    pub name: Option<String>,
    /// The hosts whose requests it gets; none for all that no other application has.
    pub hosts: Vec<HostPattern>,
    /// What the paths of its requests begin with, without a slash at the end; empty for all.
    pub prefix: String,
    /// Its settings.
    pub settings: Rc<Settings>,
    /// Its first generation.
    pub generation: u32,
    /// For whom files that it names are read.
    pub reader: Reader,
}
