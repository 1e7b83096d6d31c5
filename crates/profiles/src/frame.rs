//! One frame of a backtrace, as Ruby writes it. Every text that comes from a worker is made printable here.

use serde::{Deserialize, Serialize};

/// Most bytes of a file's path or a method's name; the rest is left out.
const MAX_NAME_BYTES: usize = 256;

/// A line of a backtrace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The method, as Ruby names it: `total`, `block in total`, from Ruby 3.4 on `Order#total`.
    pub method: String,
    /// The file; within the application's folder without that.
    pub file: String,
    /// The line; 0 where there is none.
    pub line: u32,
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The application's own.
    Application,
    /// A gem's.
    Gem,
    /// Ruby's, with its standard library.
    Ruby,
}

impl Frame {
    /// Reads a line of a backtrace: ``app/order.rb:12:in `total'`` of Ruby up to 3.3, `app/order.rb:12:in 'Order#total'`
    /// since then. What has another form is a method without a file.
    pub fn parse(line: &str) -> Self {
        let whole = || Self {
            method: printable(line, MAX_NAME_BYTES),
            file: String::new(),
            line: 0,
        };
        let (place, method) = match line.rsplit_once(":in ") {
            Some((place, method)) => (place, method.trim_matches(['`', '\''])),
            None => (line, "<main>"),
        };
        let Some((file, number)) = place.rsplit_once(':') else {
            return whole();
        };
        let Ok(number) = number.parse() else {
            return whole();
        };
        Self {
            method: printable(method, MAX_NAME_BYTES),
            file: printable(file, MAX_NAME_BYTES),
            line: number,
        }
    }

    /// Takes the application's folder off the file's path.
    pub fn make_relative(&mut self, folder: &str) {
        let within = self.file.strip_prefix(folder.trim_end_matches('/'));
        if let Some(within) = within.and_then(|path| path.strip_prefix('/')) {
            self.file = within.to_owned();
        }
    }

    /// Whether it is of the code with which Highball starts a worker and calls the application. All stacks begin with it.
    pub fn is_highballs_own(&self) -> bool {
        let own = ["template", "forker", "worker", "runner"];
        let file = self.file.strip_suffix(".rb");
        let name = file.and_then(|file| file.rsplit_once("/lib/highball/"));
        name.is_some_and(|(_, name)| own.contains(&name))
    }

    /// Whose code it is, by the path of its file.
    pub fn origin(&self) -> Origin {
        let gem = self.file.contains("/gems/") || self.file.starts_with("vendor/bundle/");
        match self.file.starts_with(['/', '<']) || self.file.is_empty() {
            _ if gem => Origin::Gem,
            true => Origin::Ruby,
            false => Origin::Application,
        }
    }

    /// The file's path, of gems and of Ruby's library only the part that tells them apart.
    pub fn short_file(&self) -> &str {
        let after = |mark: &str| {
            let at = self.file.rfind(mark)? + mark.len();
            Some(&self.file[at..])
        };
        after("/gems/")
            .or_else(|| after("/lib/ruby/"))
            .unwrap_or(&self.file)
    }

    /// The place, as people write it: `app/order.rb:12`.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.short_file().to_owned(),
            line => format!("{}:{line}", self.short_file()),
        }
    }

    /// The bytes that it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.method.len() + self.file.len() + size_of::<Self>()
    }
}

/// The text without characters that a terminal or a page could act upon, cut to so many bytes.
pub fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if shown.len() + character.len_utf8() > limit {
            break;
        }
        shown.push(match character.is_control() || is_invisible(character) {
            true => '\u{fffd}',
            false => character,
        });
    }
    shown
}

/// Whether a character changes the direction of text or is not seen at all.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_of_ruby_are_read() {
        for (line, method, file, number) in [
            ("/app/order.rb:12:in `total'", "total", "/app/order.rb", 12),
            (
                "/app/order.rb:3:in 'Order#total'",
                "Order#total",
                "/app/order.rb",
                3,
            ),
            (
                "/a:b/x.rb:3:in `block (2 levels) in <top (required)>'",
                "block (2 levels) in <top (required)>",
                "/a:b/x.rb",
                3,
            ),
            (
                "<internal:kernel>:18:in `tap'",
                "tap",
                "<internal:kernel>",
                18,
            ),
            ("config.ru:7", "<main>", "config.ru", 7),
            ("nothing", "nothing", "", 0),
            ("a:99999999999999:in `x'", "a:99999999999999:in `x'", "", 0),
            ("", "", "", 0),
        ] {
            let frame = Frame::parse(line);
            assert_eq!(
                (&*frame.method, &*frame.file, frame.line),
                (method, file, number)
            );
        }
    }

    #[test]
    fn a_frame_holds_nothing_that_a_terminal_acts_upon() {
        let frame = Frame::parse("/a\x1b[2J\u{202e}.rb:1:in `x\ny\u{feff}'");
        assert_eq!(frame.file, "/a\u{fffd}[2J\u{fffd}.rb");
        assert_eq!(frame.method, "x\u{fffd}y\u{fffd}");
        assert_eq!(printable(&"é".repeat(300), 255).len(), 254);
    }

    #[test]
    fn a_path_says_whose_code_it_is() {
        for (file, origin, short) in [
            (
                "/srv/app/models/order.rb",
                Origin::Application,
                "models/order.rb",
            ),
            (
                "/usr/lib/gems/rack-2.2.6/lib/rack.rb",
                Origin::Gem,
                "rack-2.2.6/lib/rack.rb",
            ),
            (
                "/srv/app/vendor/bundle/ruby/3.1.0/gems/x-1/x.rb",
                Origin::Gem,
                "x-1/x.rb",
            ),
            ("/usr/lib/ruby/3.1.0/set.rb", Origin::Ruby, "3.1.0/set.rb"),
            ("<internal:kernel>", Origin::Ruby, "<internal:kernel>"),
        ] {
            let mut frame = Frame::parse(&format!("{file}:1:in `x'"));
            frame.make_relative("/srv/app/");
            assert_eq!(
                (frame.origin(), frame.short_file()),
                (origin, short),
                "{file}"
            );
        }
    }
}
