//! Passes on which Ruby the extension is built for, as rb-sys has found it. It looks for nothing itself.

/// The releases of Ruby from which something differs here.
const RELEASES: [(u8, u8); 2] = [(3, 3), (3, 4)];

fn main() {
    for (major, minor) in RELEASES {
        let variable = format!("DEP_RB_VERSION_GTE_{major}_{minor}");
        println!("cargo:rustc-check-cfg=cfg(ruby_gte_{major}_{minor})");
        println!("cargo:rerun-if-env-changed={variable}");
        if std::env::var(variable).is_ok_and(|value| value == "true") {
            println!("cargo:rustc-cfg=ruby_gte_{major}_{minor}");
        }
    }
}
