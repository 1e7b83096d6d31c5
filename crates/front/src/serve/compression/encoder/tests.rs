//! Every decoder reads what the encoders write, whole or flushed, with padding or without.

use std::io::Read;

use super::*;

const CODINGS: [Coding; 3] = [Coding::Zstd, Coding::Gzip, Coding::Brotli];

fn decoded(coding: Coding, encoded: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let read = match coding {
        Coding::Zstd => zstd::Decoder::new(encoded).unwrap().read_to_end(&mut plain),
        Coding::Gzip => flate2::read::MultiGzDecoder::new(encoded).read_to_end(&mut plain),
        Coding::Brotli => brotli::Decompressor::new(encoded, 4096).read_to_end(&mut plain),
    };
    read.unwrap();
    plain
}

/// A body of so many bytes, half text and half noise.
fn body(bytes: usize, seed: u64) -> Vec<u8> {
    let random = RandomState::new();
    let word = |at: usize| random.hash_one((seed, at / 8)).to_le_bytes()[at % 8];
    let byte = |at: usize| match at / 100 % 2 {
        0 => b"<td>row</td>"[at % 12],
        _ => word(at),
    };
    (0..bytes).map(byte).collect()
}

#[test]
fn a_body_that_comes_in_any_pieces_decodes_to_itself() {
    let mut random = Padding::default();
    for (coding, bytes) in CODINGS
        .into_iter()
        .flat_map(|coding| [0, 1, 40, 1024, 300_000].map(|bytes| (coding, bytes)))
    {
        let plain = body(bytes, bytes as u64);
        for padding in [0, 1, MAX_PADDING_BYTES] {
            let mut encoder = StreamEncoder::new(coding, padding).unwrap();
            let (mut encoded, mut rest) = (Vec::new(), &plain[..]);
            while !rest.is_empty() {
                let count = (random.draw() * random.draw() * 40 + 1).min(rest.len());
                encoder.push(&rest[..count]).unwrap();
                rest = &rest[count..];
                if random.draw() < 5 {
                    encoder.flush().unwrap();
                }
                encoded.extend(encoder.take());
            }
            encoder.finish().unwrap();
            encoded.extend(encoder.take());
            assert!(
                decoded(coding, &encoded) == plain,
                "{coding:?} {bytes} {padding}"
            );
        }
    }
}

#[test]
fn what_was_flushed_can_be_read_before_more_comes() {
    for coding in CODINGS {
        let mut encoder = StreamEncoder::new(coding, 7).unwrap();
        encoder.push(b"the first part").unwrap();
        encoder.flush().unwrap();
        let encoded = encoder.take();
        let mut plain = [0; 14];
        let read = match coding {
            Coding::Zstd => zstd::Decoder::new(&encoded[..])
                .unwrap()
                .read_exact(&mut plain),
            Coding::Gzip => flate2::read::GzDecoder::new(&encoded[..]).read_exact(&mut plain),
            Coding::Brotli => brotli::Decompressor::new(&encoded[..], 64).read_exact(&mut plain),
        };
        read.unwrap();
        assert_eq!(&plain, b"the first part", "{coding:?}");
    }
}

#[test]
fn whole_bodies_decode_to_themselves_with_the_same_encoder() {
    let mut encoder = WholeEncoder::default();
    for coding in [Coding::Zstd, Coding::Gzip, Coding::Gzip, Coding::Zstd] {
        for bytes in [1024, 5000, 32 * 1024] {
            let plain = body(bytes, 0);
            for padding in [0, MAX_PADDING_BYTES] {
                let encoded = encoder.encode(coding, &plain, padding).unwrap();
                assert!(encoded.len() < plain.len());
                assert!(decoded(coding, &encoded) == plain, "{coding:?} {bytes}");
            }
        }
    }
}

#[test]
fn a_body_that_would_not_get_shorter_is_left_alone() {
    let noise: Vec<u8> = (0..4000_u64)
        .map(|at| RandomState::new().hash_one(at) as u8)
        .collect();
    for coding in CODINGS {
        assert_eq!(WholeEncoder::default().encode(coding, &noise, 0), None);
    }
}

#[test]
fn padding_makes_bodies_longer_and_differs() {
    let plain = body(4000, 1);
    let mut padding = Padding::default();
    let lengths: std::collections::BTreeSet<_> = (0..500).map(|_| padding.draw()).collect();
    assert_eq!(lengths.len(), MAX_PADDING_BYTES + 1);
    let mut encoder = WholeEncoder::default();
    for coding in [Coding::Zstd, Coding::Gzip] {
        let none = encoder.encode(coding, &plain, 0).unwrap();
        let some = encoder.encode(coding, &plain, 20).unwrap();
        assert_eq!(some.len(), none.len() + 20, "{coding:?}");
    }
}
