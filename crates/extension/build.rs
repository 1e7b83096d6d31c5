//! Passes on which Ruby the extension is built for, as rb-sys has found it. It looks for nothing itself.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(ruby_gte_3_3)");
    println!("cargo:rerun-if-env-changed=DEP_RB_VERSION_GTE_3_3");
    if std::env::var("DEP_RB_VERSION_GTE_3_3").is_ok_and(|value| value == "true") {
        println!("cargo:rustc-cfg=ruby_gte_3_3");
    }
}
