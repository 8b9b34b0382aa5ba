//! Cuts a stream of bytes into lines of limited length.

/// The line is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Bytes that came in and are not whole lines yet.
#[derive(Debug)]
pub(super) struct LineBuffer {
    pending: Vec<u8>,
    /// Up to here there is no end of a line.
    searched: usize,
    line_bytes_max: usize,
}

impl LineBuffer {
    pub(super) const fn new(line_bytes_max: usize) -> Self {
        Self {
            pending: Vec::new(),
            searched: 0,
            line_bytes_max,
        }
    }

    /// Brings bytes in.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Takes the next line out, without its end; `None` where it is not whole yet.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let end = self.pending[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|offset| self.searched + offset);
        let length = end.unwrap_or(self.pending.len());
        if length > self.line_bytes_max {
            return Err(TooLong);
        }
        self.searched = if end.is_some() { 0 } else { length };
        Ok(end.map(|end| {
            let rest = self.pending.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.pending, rest);
            line.pop();
            line
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the bytes are cut, the lines are the same, and what is kept is bounded.
        #[test]
        fn cuts_do_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
            cuts in proptest::collection::vec(1_usize..40, 1..50),
            line_bytes_max in 0_usize..80,
        ) {
            let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            expected.pop();
            let fits = expected.iter().take_while(|line| line.len() <= line_bytes_max).count();
            let too_long = fits < expected.len();
            let mut buffer = LineBuffer::new(line_bytes_max);
            let mut got = Vec::new();
            let mut rest = &bytes[..];
            let mut failed = false;
            for cut in cuts.iter().cycle() {
                if rest.is_empty() || failed {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                rest = later;
                buffer.push(now);
                loop {
                    match buffer.next_line() {
                        Ok(Some(line)) => got.push(line),
                        Ok(None) => break,
                        Err(TooLong) => {
                            failed = true;
                            break;
                        }
                    }
                }
                prop_assert!(buffer.pending.len() <= line_bytes_max + 40);
            }
            prop_assert_eq!(&got[..], &expected[..fits]);
            prop_assert!(failed || !too_long);
        }
    }
}
