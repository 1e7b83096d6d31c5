//! The certificate of a stack that speaks TLS: self-signed and made for one start. Nobody trusts it, and it never
//! leaves the trial's folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Its names. An ECDSA key, as certificate authorities advise: an RSA one would cost each handshake many times that.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// The file of the certificate in `folder`, and that of its key.
pub(super) const FILES: [&str; 2] = ["certificate.pem", "key.pem"];

/// Writes a new certificate and its key.
///
/// # Errors
/// A file can't be written.
pub(super) fn write(folder: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))
        .context("make a certificate for the stack")?;
    let contents = [made.cert.pem(), made.signing_key.serialize_pem()];
    for (name, content) in FILES.iter().zip(contents) {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()));
        written.with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
