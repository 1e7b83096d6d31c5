//! Bundles with Highball in their Gemfile, and the environment of commands that use them: that of a fresh login, whatever
//! the surroundings of the tests are. Downloads nothing: all gems are installed.

use std::path::Path;

use test_support::{Directory, Program, binary, ruby_library};

/// What a gem of the built server needs: its version, and its Ruby files.
const GEMSPEC: &str = r#"
Gem::Specification.new do |spec|
  spec.name = "highball"
  spec.version = "0.0.1"
  spec.summary = spec.description = "the server under test"
  spec.authors = ["Highball"]
  spec.files = ["lib/highball.rb"]
end
"#;

/// Writes a Gemfile into `folder` with these gems and Highball, which lies in a folder of its own.
///
/// # Panics
/// When it cannot be written.
pub fn write_gemfile(root: &Directory, folder: &str, gems: &[&str]) {
    root.write("highball/highball.gemspec", GEMSPEC);
    let lib = root.join("highball/lib");
    if !lib.exists() {
        std::os::unix::fs::symlink(ruby_library(), lib).expect("the link can be made");
    }
    let mut gemfile = "source \"https://rubygems.org\"\n".to_owned();
    for gem in gems {
        gemfile.push_str(&format!("gem \"{gem}\"\n"));
    }
    let path = root.join("highball");
    gemfile.push_str(&format!(
        "gem \"highball\", path: {:?}\n",
        path.display().to_string()
    ));
    root.write(&format!("{folder}/Gemfile"), gemfile);
}

/// The variables of a command that finds Highball: nothing else is in its environment.
pub fn environment(home: &Path) -> Vec<(String, String)> {
    let text = |path: &Path| path.display().to_string();
    let path = std::env::var("PATH").expect("a search path in UTF-8");
    [
        ("PATH", path),
        ("HOME", text(home)),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "xterm".to_owned()),
        ("HIGHBALL_BIN", text(&binary())),
        ("HIGHBALL_RUBY_LIB", text(&ruby_library())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A program in this folder with that environment alone.
pub fn program(name: &str, folder: &Path, home: &Path) -> Program {
    let mut program = Program::new("env").arg("-i");
    for (name, value) in environment(home) {
        program = program.arg(format!("{name}={value}"));
    }
    program.arg(name).current_dir(folder)
}
