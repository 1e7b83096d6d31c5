//! Framing of every kind.
