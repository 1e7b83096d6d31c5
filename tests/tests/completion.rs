//! The completions in real shells: each reads the file from the place that `highball completion --help` names, and a tab
//! is pressed. What the files contain is tested in `crates/command-line`.

use test_support::{Directory, Program, TerminalSession, binary};

/// What `highball re` may become.
const EXPECTED: [&str; 2] = ["reload", "restart"];

/// A home with the completion for this shell, where its guide has it put.
fn home(shell: &str, file: &str) -> Directory {
    let home = Directory::new();
    let script = Program::highball(["completion", shell]).run();
    assert!(script.status.success(), "{}", script.output());
    home.write(file, script.stdout);
    home
}

/// The first line of the prompt.
const PROMPT: &str = "at your service";

/// Types `highball re` and two tabs into a shell, once it has shown its prompt, and looks at what it offers.
fn press_tab(home: &Directory, shell: &str) {
    let line = format!(
        "exec env -i HOME='{0}' ZDOTDIR='{0}' PATH=\"$PATH\" LANG=C.UTF-8 TERM=xterm {shell}",
        home.path().display()
    );
    let mut terminal = TerminalSession::of(home.path(), &line);
    terminal.log().wait(|line| line.contains(PROMPT));
    terminal.press("highball re\t\t");
    // Ctrl-U takes back what stands there.
    terminal.press("\x15exit\n");
    let (status, shown) = terminal.wait_end();
    assert!(status.success(), "{status}: {shown:#?}");
    let shown = shown.join("\n");
    for command in EXPECTED {
        assert!(shown.contains(command), "{command}: {shown}");
    }
}

#[test]
fn bash_completes_a_command() {
    let home = home("bash", ".local/share/bash-completion/completions/highball");
    home.write(
        ".bashrc",
        format!(". /usr/share/bash-completion/bash_completion\nPS1='{PROMPT}\\n> '\n"),
    );
    press_tab(&home, "bash -i");
}

#[test]
fn zsh_completes_a_command() {
    let home = home("zsh", ".zfunc/_highball");
    home.write(
        ".zshrc",
        format!(
            "fpath=(~/.zfunc $fpath)\nautoload -Uz compinit\ncompinit -u\nPS1=$'{PROMPT}\\n> '\n"
        ),
    );
    press_tab(&home, "zsh -i --no-globalrcs");
}

#[test]
fn fish_completes_a_command() {
    let home = home("fish", ".config/fish/completions/highball.fish");
    // fish asks for a program of that name before it reads the file.
    let folder = binary().parent().expect("a file").display().to_string();
    let path = std::env::var("PATH").expect("a shell has one");
    let ran = Program::new("fish")
        .args(["--command", "complete --do-complete 'highball re'"])
        .env("PATH", format!("{folder}:{path}"))
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.join(".config"))
        .env("XDG_DATA_HOME", home.join(".local/share"))
        .run();
    for command in EXPECTED {
        let offered = ran.stdout.lines().any(|line| line.starts_with(command));
        assert!(offered, "{command}: {}", ran.output());
    }
}
