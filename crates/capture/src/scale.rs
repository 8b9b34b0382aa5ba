//! The scale of a window, where the SYN that tells it was not captured.

/// The largest that there is (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;
/// So many full windows that fit one scale show that it is that.
const SCALE_HITS: u32 = 8;
/// ... where they are one in this many flights: what a program writes at a time may be as large as
/// a window by chance, but a window that is the limit stops each flight.
const SCALE_SHARE: u32 = 2;
/// ... and hardly one is larger, since no sender passes the end of a window; a clock that is off
/// may show so few.
const SCALE_PASSED: u32 = 16;

/// Evidence on the scale of the other end's windows, from the flights of a sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScaleVotes {
    /// The window that the sender has, as it stands in the packet.
    offered: u16,
    /// Known from the handshake: the flights are not examined.
    is_told: bool,
    /// Apart from what each packet needs, since most connections have none.
    votes: Option<Box<Votes>>,
}

#[derive(Clone, Debug, Default)]
struct Votes {
    /// By scale: full windows, and flights that no window of it allows.
    hits: [u32; SCALE_MAX as usize + 1],
    passed: [u32; SCALE_MAX as usize + 1],
    /// Flights that were regarded.
    flights: u32,
}

impl ScaleVotes {
    /// A window reaches the sender.
    pub(crate) const fn offer(&mut self, window: u16) {
        self.offered = window;
    }

    /// The SYN of the other end was seen, which tells the scale or that there is none.
    pub(crate) fn settle(&mut self) {
        self.is_told = true;
        self.votes = None;
    }

    /// The sender had this many bytes in flight when an ACK came: a scale that makes them a full
    /// window has a vote. Less than two segments would fit several scales. A flight whose newest
    /// segment is not full is all that the program had to say, unless it ends where the window
    /// does: a sender that is stopped has more.
    pub(crate) fn vote(&mut self, flight: u64, mss: u32, ends_full: bool) {
        if self.is_told || self.offered == 0 || flight < 2 * u64::from(mss) {
            return;
        }
        let votes = self.votes.get_or_insert_default();
        votes.flights = votes.flights.saturating_add(1);
        let mss = u64::from(mss);
        for scale in 0..votes.hits.len() {
            let window = u64::from(self.offered) << scale;
            let is_full =
                window == flight || (ends_full && window > flight && window - flight < mss);
            let is_passed = window + mss <= flight;
            votes.hits[scale] = votes.hits[scale].saturating_add(u32::from(is_full));
            votes.passed[scale] = votes.passed[scale].saturating_add(u32::from(is_passed));
        }
    }

    pub(crate) fn scale(&self) -> Option<u8> {
        let votes = self.votes.as_deref()?;
        let hits = votes.hits.iter().enumerate();
        let (scale, hits) = hits.max_by_key(|(_, hits)| **hits)?;
        let is_steady = hits.saturating_mul(SCALE_SHARE) >= votes.flights;
        let is_kept = votes.passed[scale].saturating_mul(SCALE_PASSED) <= *hits;
        (*hits >= SCALE_HITS && is_steady && is_kept).then_some(scale as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1448;

    fn scale(window: u16, flights: &[u64]) -> Option<u8> {
        let mut votes = ScaleVotes::default();
        for flight in flights {
            votes.offer(window);
            votes.vote(*flight, MSS, flight % u64::from(MSS) == 0);
        }
        votes.scale()
    }

    #[test]
    fn full_windows_tell_their_scale() {
        assert_eq!(scale(63, &[63_712; 20]), Some(10));
        assert_eq!(scale(502, &[63_712; 20]), Some(7));
        assert_eq!(scale(63, &[63_712; 7]), None, "too few");
    }

    /// Messages of 3080 bytes, of which 502 << 3 would allow two segments and some more.
    #[test]
    fn messages_that_end_in_a_part_of_a_segment_tell_nothing() {
        assert_eq!(scale(502, &[3080; 40]), None);
        assert_eq!(
            scale(385, &[3080; 40]),
            Some(3),
            "it ends where the window does"
        );
    }

    /// Chunks of 32 000 bytes, whose ACKs come one by one: half of a window of 63 << 10.
    #[test]
    fn flights_of_other_sizes_tell_nothing() {
        let chunk: Vec<u64> = (0..11).map(|acked| 32_000 - acked * 2896).collect();
        assert_eq!(scale(63, &chunk.repeat(20)), None);
        // BBR keeps 75 to 90 kB in flight, within a window of 160 << 10.
        let around: Vec<u64> = (52..63).map(|segments| segments * 1448).collect();
        assert_eq!(scale(80, &around.repeat(20)), None);
    }
}
