//! Bodies that pause, end and are cut, through a real thread. No test asks when something is encoded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::Read;

use super::*;
use crate::serve::compression::accept::Coding;

/// What the plain body does next.
enum Step {
    Piece(&'static [u8]),
    Pause,
    Cut,
    End,
}

fn stream() -> EncodedStream {
    let threads = FileThreads::new("test", 1).unwrap();
    let encoder = StreamEncoder::new(Coding::Gzip, 3).unwrap();
    EncodedStream::new(Rc::new(threads), encoder, Share::default())
}

/// What `stream` gives out until it ends or the body pauses with nothing left to give out, and whether it was cut.
async fn run(stream: &mut EncodedStream, steps: Vec<Step>) -> (Vec<u8>, Option<bool>) {
    let (mut steps, mut encoded) = (VecDeque::from(steps), Vec::new());
    let mut paused = false;
    loop {
        let next = poll_fn(|cx| {
            let polled = stream.poll(cx, |_| match steps.pop_front() {
                Some(Step::Piece(piece)) => Poll::Ready(Some(Ok(Bytes::from_static(piece)))),
                Some(Step::Cut) => Poll::Ready(Some(Err("cut"))),
                Some(Step::End) => Poll::Ready(None),
                Some(Step::Pause) | None => {
                    paused = steps.is_empty();
                    Poll::Pending
                }
            });
            match polled {
                Poll::Pending if paused && matches!(stream.state, State::Idle(_)) => {
                    Poll::Ready(None)
                }
                polled => polled.map(Some),
            }
        });
        match next.await {
            Some(Some(Ok(piece))) => encoded.extend_from_slice(&piece),
            Some(Some(Err(Broken))) => return (encoded, Some(true)),
            Some(None) => return (encoded, Some(false)),
            None => return (encoded, None),
        }
    }
}

fn decoded(encoded: &[u8]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    let read = flate2::read::GzDecoder::new(encoded).read_to_end(&mut plain);
    (plain, read.is_ok())
}

#[tokio::test]
async fn a_pause_lets_the_client_read_all_that_came_before() {
    let mut stream = stream();
    let steps = vec![Step::Piece(b"one "), Step::Piece(b"two"), Step::Pause];
    let (mut encoded, end) = run(&mut stream, steps).await;
    assert_eq!(end, None);
    assert_eq!(decoded(&encoded), (b"one two".to_vec(), false));
    let (more, end) = run(&mut stream, vec![Step::Piece(b" three"), Step::End]).await;
    encoded.extend(more);
    assert_eq!(
        (decoded(&encoded), end),
        ((b"one two three".to_vec(), true), Some(false))
    );
}

#[tokio::test]
async fn a_body_that_was_cut_has_no_valid_end() {
    let (encoded, end) = run(&mut stream(), vec![Step::Piece(b"one"), Step::Cut]).await;
    assert_eq!(
        (decoded(&encoded), end),
        ((b"one".to_vec(), false), Some(true))
    );
}

#[tokio::test]
async fn a_piece_of_any_size_is_encoded_in_turns() {
    static LARGE: [u8; 5 * PIECE_BYTES + 1] = [b'x'; 5 * PIECE_BYTES + 1];
    let (encoded, end) = run(&mut stream(), vec![Step::Piece(&LARGE), Step::End]).await;
    assert!(decoded(&encoded) == (LARGE.to_vec(), true));
    assert_eq!(end, Some(false));
}

#[tokio::test]
async fn an_empty_body_ends_as_a_valid_one() {
    let (encoded, end) = run(&mut stream(), vec![Step::End]).await;
    assert_eq!((decoded(&encoded), end), ((Vec::new(), true), Some(false)));
    let ended = poll_fn(|cx| stream().poll(cx, |_| Poll::Ready(None::<Result<_, Infallible>>)));
    assert!(ended.await.is_some());
}
