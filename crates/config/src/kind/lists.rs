//! Kinds that are lists: how an item is checked, and how the whole is read. Knows no setting.

use crate::address_list::{self, AddressList};
use crate::kind::text_forms::is_request_path;
use crate::kind::{Kind, Value, path_list};
use crate::listen::{Hosts, Listen};
use crate::log_fields::{self, LogFields};
use crate::media_types::{self, MediaTypes};
use crate::parameters::{self, ParameterNames};

/// The most paths of a list of paths of requests.
pub(super) const MAX_REQUEST_PATHS: usize = 20;
/// The item of such a list that stands for the paths that clients ask for most.
pub(crate) const FREQUENT: &str = "frequent";

/// An item of [`Kind::Counts`].
const COUNT: Kind = Kind::Integer {
    min: 1,
    max: 1_000_000_000_000,
};

impl Kind {
    /// Checks one item of a list.
    ///
    /// # Errors
    /// As [`Kind::parse`].
    pub(crate) fn check_item(&self, text: &str) -> Result<(), String> {
        match self {
            Self::Listen => Listen::parse(text, Hosts::new(false, false), None).map(drop),
            Self::Addresses => address_list::check_item(text),
            Self::ParameterNames => parameters::check_item(text),
            Self::MediaTypes => media_types::check_item(text),
            Self::LogFields => log_fields::check_item(text),
            Self::Paths(values) => path_list::parse_item(*values, text).map(drop),
            Self::Texts(_) => self.check_text(text),
            Self::RequestPaths if ["none", FREQUENT].contains(&text) || is_request_path(text) => {
                Ok(())
            }
            Self::RequestPaths => Err(self.not_allowed(text)),
            Self::Counts if text == "none" => Ok(()),
            Self::Counts => COUNT.parse(text).map(drop),
            _ => self.parse(text).map(drop),
        }
    }

    /// Reads a list whose items were checked.
    ///
    /// # Errors
    /// As [`Kind::parse`].
    pub(crate) fn parse_list(&self, items: &[String]) -> Result<Value, String> {
        match self {
            Self::Listen if items.is_empty() => {
                return Err("the list is empty; give at least one address".to_owned());
            }
            Self::Addresses => drop(AddressList::parse(items)?),
            Self::ParameterNames => drop(ParameterNames::parse(items)?),
            Self::MediaTypes => drop(MediaTypes::parse(items)?),
            Self::LogFields => drop(LogFields::parse(items)?),
            Self::Paths(values) => return path_list::parse(*values, items).map(Value::Rules),
            Self::Texts(_) | Self::RequestPaths | Self::Counts if *items == ["none"] => {
                return Ok(Value::List(Vec::new()));
            }
            Self::Texts(_) | Self::RequestPaths | Self::Counts
                if items.iter().any(|item| item == "none") =>
            {
                return Err("\"none\" must stand alone in the list".to_owned());
            }
            Self::RequestPaths if count_paths(items) > MAX_REQUEST_PATHS => {
                return Err(format!(
                    "{} paths are too many; expected {}",
                    count_paths(items),
                    self.allowed()
                ));
            }
            _ => items.iter().try_for_each(|item| self.check_item(item))?,
        }
        Ok(Value::List(items.to_vec()))
    }

    /// Checks one item of a list of texts.
    fn check_text(&self, text: &str) -> Result<(), String> {
        match text.is_empty() || text.chars().any(char::is_control) {
            true => Err(self.not_allowed(text)),
            false => Ok(()),
        }
    }
}

/// The number of items that are paths.
fn count_paths(items: &[String]) -> usize {
    let paths = items.iter().filter(|item| *item != FREQUENT);
    paths.count()
}
