//! Payload: slices of one fixed pattern, so that nothing is copied and misplaced bytes are noticed.

use std::sync::LazyLock;

use base::Rng;
use bytes::Bytes;

/// After this many bytes the pattern repeats: a prime, so that no segment or buffer size divides
/// it.
const PERIOD_BYTES: u64 = 1_048_573;
/// Longest piece that is handed over at once.
pub(super) const PIECE_BYTES_MAX: u64 = 1 << 20;
/// Never the first byte of a stream of payload; see [`role`].
const ROLE: u8 = 1;

/// The pattern, and so much of its repetition that a piece may begin anywhere.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let mut rng = Rng::new(0, "pattern");
    let mut bytes = Vec::with_capacity((PERIOD_BYTES + PIECE_BYTES_MAX) as usize);
    while bytes.len() < PERIOD_BYTES as usize {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(PERIOD_BYTES as usize);
    if bytes[0] == ROLE {
        bytes[0] += 1;
    }
    // The longest piece may be a little longer than the period.
    while bytes.len() < (PERIOD_BYTES + PIECE_BYTES_MAX) as usize {
        let missing = (PERIOD_BYTES + PIECE_BYTES_MAX) as usize - bytes.len();
        bytes.extend_from_within(..missing.min(PERIOD_BYTES as usize));
    }
    bytes.into()
});

/// Makes the pattern now, which takes a millisecond that would count later.
pub(super) fn prepare() {
    LazyLock::force(&PATTERN);
}

/// The `length` bytes at `offset` of every stream.
///
/// # Panics
/// Where `length` exceeds [`PIECE_BYTES_MAX`].
pub(super) fn piece(offset: u64, length: u64) -> Bytes {
    assert!(length <= PIECE_BYTES_MAX, "a write of {length} bytes");
    let start = (offset % PERIOD_BYTES) as usize;
    PATTERN.slice(start..start + length as usize)
}

/// Whether `chunk` is what stands at `offset` of every stream.
pub(super) fn is_at(offset: u64, chunk: &[u8]) -> bool {
    let mut offset = offset;
    chunk.chunks(PIECE_BYTES_MAX as usize).all(|part| {
        let start = (offset % PERIOD_BYTES) as usize;
        let expected = &PATTERN[start..start + part.len()];
        offset += part.len() as u64;
        // The very slice that was written needs no look at its bytes.
        core::ptr::eq(expected.as_ptr(), part.as_ptr()) || expected == part
    })
}

/// The byte that asks the server to send.
pub(super) const fn role() -> Bytes {
    Bytes::from_static(&[ROLE])
}

/// Whether a stream that begins with this byte asks the server to send.
pub(super) const fn asks_to_send(first: u8) -> bool {
    first == ROLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_known_by_its_place() {
        for (offset, length) in [(0, 1), (7, 1448), (PERIOD_BYTES - 3, 65_536), (1 << 40, 9)] {
            let piece = piece(offset, length);
            assert!(is_at(offset, &piece));
            let copy = Bytes::copy_from_slice(&piece);
            assert!(is_at(offset, &copy), "a copy");
            assert!(length < 8 || !is_at(offset + 1, &piece), "misplaced by one");
            assert!(
                length < 8 || !is_at(offset + 1448, &piece),
                "misplaced by a segment"
            );
        }
        assert!(!asks_to_send(piece(0, 1)[0]));
        assert!(asks_to_send(role()[0]));
    }
}
