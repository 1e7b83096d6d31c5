//! The names of an application's routes and their numbers, which all threads share. Their number is bounded: what comes
//! later is one route more, [`OTHER`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The most routes of an application that are told apart.
pub const MAX_ROUTES: usize = 200;
/// The most of them that were made of paths: a client that invents paths must not use up the places of real routes.
const MAX_PATHS: usize = 100;
/// The number of the requests that have no place of their own.
pub(crate) const OTHER_NUMBER: usize = MAX_ROUTES;
/// The name of the requests that have no place of their own.
pub const OTHER: &str = "other";
/// The name of the requests that have no route: the server answered itself, or the application found nothing.
pub const UNROUTED: &str = "(none)";

/// Names and numbers.
#[derive(Default)]
pub(crate) struct Names {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<Box<[u8]>, usize>,
    /// Each with whether it was made of a path.
    names: Vec<(String, bool)>,
    /// How many of them were made of paths.
    paths: usize,
}

impl Names {
    /// The number of the route with this name; that of the rest where there is no room for one more. `path`: whether it was made
    /// of a path.
    pub(crate) fn number(&self, name: &[u8], path: bool) -> usize {
        let known = &mut *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = known.numbers.get(name) {
            return number;
        }
        if known.names.len() == MAX_ROUTES || path && known.paths == MAX_PATHS {
            return OTHER_NUMBER;
        }
        let text = printable(name);
        // Two that differ in what is not printable are one route.
        let number = match known.names.iter().position(|(one, _)| *one == text) {
            Some(number) => number,
            None => {
                known.names.push((text, path));
                known.paths += usize::from(path);
                known.names.len() - 1
            }
        };
        if known.numbers.len() < 2 * MAX_ROUTES {
            known.numbers.insert(name.into(), number);
        }
        number
    }

    /// The name of a number, and whether it was made of a path.
    pub(crate) fn name(&self, number: usize) -> (String, bool) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = known.names.get(number).cloned();
        name.unwrap_or_else(|| (OTHER.to_owned(), false))
    }
}

/// A name as text without control characters.
fn printable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let shown = text.chars().map(|letter| match letter.is_control() {
        true => '\u{fffd}',
        false => letter,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_routes_is_bounded_and_paths_leave_room_for_names() {
        let names = Names::default();
        for path in 0..10_000 {
            names.number(format!("GET /{path}x").as_bytes(), true);
        }
        assert_eq!(names.number(b"GET /none", true), OTHER_NUMBER);
        let first = names.name(names.number(b"GET /0x", true));
        assert_eq!(first, ("GET /0x".to_owned(), true));
        let named = names.number(b"GET /books/:id", false);
        assert_eq!(names.name(named).0, "GET /books/:id");
        for route in 0..1_000 {
            names.number(format!("GET /named/{route}x").as_bytes(), false);
        }
        assert_eq!(names.number(b"one more", false), OTHER_NUMBER);
        assert_eq!(names.name(OTHER_NUMBER).0, OTHER);
        assert_eq!(names.number(b"GET /books/:id", false), named);
    }

    #[test]
    fn names_have_no_control_characters() {
        let names = Names::default();
        let number = names.number(b"GET /a\n\x1b[31m\xff", false);
        assert_eq!(names.name(number).0, "GET /a\u{fffd}\u{fffd}[31m\u{fffd}");
    }
}
