//! Looks at one connection, packed.
//!
//! A look has about ninety values, of which a dozen change from one to the next. The first look is
//! kept whole, and so is each that differs in a value which seldom changes; of the others only what
//! has changed is kept, as differences in a few bytes. Ten looks a second at thousands of
//! connections fit into memory that way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{BbrState, CongestionState, FlowSample, Instant, Rate};

/// Marks a value that has become unknown.
const UNKNOWN: u8 = 0x80;
/// Follows the last change of a look.
const END: u8 = 0x7f;
/// Room for the changes of some looks, without growing step by step.
const CHANGES_BYTES: usize = 128;
/// Of a connection idle for longer than this, only looks with changes are kept: pauses of programs
/// that think are shorter.
pub const LONG_IDLE: Duration = Duration::from_secs(1);
/// The first of the four numbers of BBR's model.
const BBR: u8 = END - 4;

/// The looks at one connection in the order of time.
#[derive(Clone, Default)]
pub struct Samples {
    /// Looks that are kept whole.
    whole: Vec<Whole>,
    /// Changes of the other samples, one look after the other.
    changes: Vec<u8>,
    /// How many are packed.
    packed: usize,
    /// The time of the first of these: to ask it of thousands of connections takes longer.
    began: Instant,
    /// The newest that is packed.
    before: Option<Arc<FlowSample>>,
    /// The newest of all, which may still be replaced.
    last: Option<Arc<FlowSample>>,
}

#[derive(Clone)]
struct Whole {
    /// Looks before it.
    index: usize,
    sample: Arc<FlowSample>,
}

impl Samples {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one more.
    pub fn push(&mut self, sample: impl Into<Arc<FlowSample>>) {
        if let Some(last) = self.last.replace(sample.into()) {
            self.pack(last);
        }
    }

    /// The same, into the memory of a look that has been packed, unless that is kept elsewhere:
    /// with thousands of connections allocating would take more time than packing.
    pub fn push_look(&mut self, sample: &FlowSample) {
        let spare = self.last.take().and_then(|last| self.pack(last));
        self.last = Some(placed(spare, sample.clone()));
    }

    /// The same of a connection that is looked at again and again; whether there is one more than
    /// before. While nothing happens for long only the first and the last look are kept.
    pub fn take_look(&mut self, sample: &FlowSample) -> bool {
        let is_rest = |later: &FlowSample, earlier: &FlowSample| {
            let idle = earlier.since_data_sent.min(earlier.since_data_received);
            idle >= Some(LONG_IDLE) && later.repeats(earlier)
        };
        if let (Some(earlier), Some(last)) = (self.before_last(), self.last())
            && is_rest(last, earlier)
            && is_rest(sample, last)
        {
            let sample = FlowSample {
                looks: sample.looks.saturating_add(last.looks),
                // Read seldom: the last reading stays.
                owner_cpu_time: sample.owner_cpu_time.or(last.owner_cpu_time),
                ..sample.clone()
            };
            self.replace_last(sample);
            return false;
        }
        self.push_look(sample);
        true
    }

    /// The same of one that has memory already, for which that of a look that has been packed is
    /// given back, where there is one and nothing else keeps it.
    pub fn push_in_exchange(&mut self, sample: Arc<FlowSample>) -> Option<Arc<FlowSample>> {
        let last = self.last.replace(sample)?;
        let spare = self.pack(last)?;
        (Arc::strong_count(&spare) == 1).then_some(spare)
    }

    /// Takes one more in place of the newest, and into its memory, unless that is kept elsewhere.
    pub fn replace_last(&mut self, sample: FlowSample) {
        self.last = Some(placed(self.last.take(), sample));
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed + usize::from(self.last.is_some())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Memory that they take, about.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        let each = size_of::<FlowSample>() + size_of::<Whole>();
        self.whole.len() * each + self.changes.len()
    }

    /// The oldest.
    #[must_use]
    pub fn first(&self) -> Option<&FlowSample> {
        let first = self.whole.first().map(|whole| &whole.sample);
        first.or(self.last.as_ref()).map(|sample| &**sample)
    }

    /// When the oldest was taken.
    #[must_use]
    pub fn began(&self) -> Option<Instant> {
        match self.packed {
            0 => self.last().map(|last| last.at),
            _ => Some(self.began),
        }
    }

    /// The newest.
    #[must_use]
    pub fn last(&self) -> Option<&FlowSample> {
        self.last.as_deref()
    }

    /// The newest, to be kept by others.
    #[must_use]
    pub fn last_shared(&self) -> Option<Arc<FlowSample>> {
        self.last.clone()
    }

    /// The sample before the newest.
    #[must_use]
    pub fn before_last(&self) -> Option<&FlowSample> {
        self.before.as_deref()
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            whole: self.whole.iter().peekable(),
            changes: &self.changes,
            index: 0,
            packed: self.packed,
            before: None,
            last: self.last.as_ref(),
        }
    }

    /// Samples that differ from the previous one in a value which seldom changes, such as the state
    /// or the source, the first among them; and the newest.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &FlowSample> {
        let whole = self.whole.iter().map(|whole| &*whole.sample);
        whole.chain(self.last())
    }

    /// Shows all of them, oldest first, those that are not whole in the same memory.
    pub fn each(&self, mut take: impl FnMut(&FlowSample)) {
        let mut whole = self.whole.iter().peekable();
        let mut changes = &self.changes[..];
        let mut changed: Option<FlowSample> = None;
        let mut newest_whole: Option<&FlowSample> = None;
        for index in 0..self.packed {
            if let Some(next) = whole.next_if(|whole| whole.index == index) {
                (changed, newest_whole) = (None, Some(&*next.sample));
                take(&next.sample);
                continue;
            }
            let Some(whole) = newest_whole else { continue };
            let sample = changed.get_or_insert_with(|| whole.clone());
            take_changes(sample, &mut changes);
            take(sample);
        }
        if let Some(last) = self.last() {
            take(last);
        }
    }

    /// Gives all of them to others, oldest first: those that are whole as they are, the rest in
    /// memory that is taken from `spare` while there is any.
    pub(crate) fn share(
        &self,
        spare: &mut Vec<Arc<FlowSample>>,
        mut take: impl FnMut(Arc<FlowSample>),
    ) {
        let mut whole = self.whole.iter().peekable();
        let mut changes = &self.changes[..];
        let mut before: Option<FlowSample> = None;
        let mut newest_whole: Option<&Arc<FlowSample>> = None;
        for index in 0..self.packed {
            if let Some(next) = whole.next_if(|whole| whole.index == index) {
                (before, newest_whole) = (None, Some(&next.sample));
                take(Arc::clone(&next.sample));
                continue;
            }
            let Some(whole) = newest_whole else { continue };
            let sample = before.get_or_insert_with(|| FlowSample::clone(whole));
            take_changes(sample, &mut changes);
            take(placed(spare.pop(), sample.clone()));
        }
        if let Some(last) = &self.last {
            take(Arc::clone(last));
        }
    }

    /// Gives back the one that was packed before.
    fn pack(&mut self, sample: Arc<FlowSample>) -> Option<Arc<FlowSample>> {
        if self.packed == 0 {
            self.began = sample.at;
        }
        let length = self.changes.len();
        let follows = self
            .before
            .as_ref()
            .is_some_and(|before| put_changes(before, &sample, &mut self.changes));
        if !follows {
            self.changes.truncate(length);
            self.whole.push(Whole {
                index: self.packed,
                sample: Arc::clone(&sample),
            });
        }
        self.packed += 1;
        self.before.replace(sample)
    }
}

/// A look in the memory of another one, where nothing else keeps that.
#[must_use]
pub fn placed(spare: Option<Arc<FlowSample>>, sample: FlowSample) -> Arc<FlowSample> {
    let Some(mut spare) = spare else {
        return Arc::new(sample);
    };
    match Arc::get_mut(&mut spare) {
        Some(place) => {
            *place = sample;
            spare
        }
        None => Arc::new(sample),
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Samples {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<S: Into<Arc<FlowSample>>> FromIterator<S> for Samples {
    fn from_iter<I: IntoIterator<Item = S>>(samples: I) -> Self {
        let mut packed = Self::new();
        for sample in samples {
            packed.push(sample);
        }
        packed
    }
}

impl<'s> IntoIterator for &'s Samples {
    type Item = Arc<FlowSample>;
    type IntoIter = Iter<'s>;

    fn into_iter(self) -> Iter<'s> {
        self.iter()
    }
}

/// The looks at a connection, unpacked one after the other.
#[derive(Clone)]
pub struct Iter<'s> {
    whole: std::iter::Peekable<std::slice::Iter<'s, Whole>>,
    changes: &'s [u8],
    index: usize,
    packed: usize,
    before: Option<Arc<FlowSample>>,
    last: Option<&'s Arc<FlowSample>>,
}

impl Iterator for Iter<'_> {
    type Item = Arc<FlowSample>;

    fn next(&mut self) -> Option<Arc<FlowSample>> {
        if self.index == self.packed {
            return self.last.take().map(Arc::clone);
        }
        let index = self.index;
        self.index += 1;
        let sample = match self.whole.next_if(|whole| whole.index == index) {
            Some(whole) => Arc::clone(&whole.sample),
            None => {
                let mut sample = FlowSample::clone(self.before.as_ref()?);
                take_changes(&mut sample, &mut self.changes);
                Arc::new(sample)
            }
        };
        self.before = Some(Arc::clone(&sample));
        Some(sample)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.packed - self.index + usize::from(self.last.is_some());
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// A value that is kept as a difference.
trait Slot: Copy + PartialEq {
    fn number(self) -> Option<u64>;
    fn of(number: Option<u64>) -> Self;
}

impl Slot for Option<u64> {
    fn number(self) -> Option<u64> {
        self
    }
    fn of(number: Option<u64>) -> Self {
        number
    }
}

/// Whether an `u64` holds the value without loss.
fn is_kept_whole<S: Slot>(value: S) -> bool {
    S::of(value.number()) == value
}

/// Types that an `u64` holds without loss, or nearly all values of them.
macro_rules! slots_by {
    ($($kind:ty: $to:expr, $of:expr;)*) => {$(
        impl Slot for $kind {
            fn number(self) -> Option<u64> {
                let to: fn(Self) -> Option<u64> = $to;
                to(self)
            }
            fn of(number: Option<u64>) -> Self {
                let of: fn(Option<u64>) -> Self = $of;
                of(number)
            }
        }
    )*};
}

const STATES: [CongestionState; 5] = [
    CongestionState::Open,
    CongestionState::Disorder,
    CongestionState::Cwr,
    CongestionState::Recovery,
    CongestionState::Loss,
];

slots_by! {
    Option<u32>: |value| value.map(u64::from), |number| number.map(|n| n as u32);
    Option<u8>: |value| value.map(u64::from), |number| number.map(|n| n as u8);
    Option<bool>: |value| value.map(u64::from), |number| number.map(|n| n != 0);
    Option<Rate>: |value| value.map(Rate::bits_per_second),
        |number| number.map(Rate::from_bits_per_second);
    Option<Duration>: |value| value.map(|time| time.as_nanos() as u64),
        |number| number.map(Duration::from_nanos);
    Option<CongestionState>:
        |value| STATES.iter().position(|state| Some(*state) == value).map(|at| at as u64),
        |number| number.and_then(|n| STATES.get(n as usize).copied());
    u32: |value| Some(u64::from(value)), |number| number.map_or(0, |n| n as Self);
    Instant: |value| Some(value.since(Self::ZERO).as_nanos() as u64),
        |number| Self::from_nanos(number.unwrap_or(0));
}

/// Which values are kept as differences, and which make a look whole if they change: each is in one
/// of the two lists.
macro_rules! slots {
    (changing: $($slot:ident)*; steady: $($steady:ident)*;) => {
        /// The numbers of the values that are kept as differences, in their order.
        #[expect(non_camel_case_types, reason = "each is called as its value is")]
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Number { $($slot),* }

        /// Appends what is different in `after`; false where that cannot be told in changes.
        fn put_changes(before: &FlowSample, after: &FlowSample, out: &mut Vec<u8>) -> bool {
            // Without `..`: who adds a value has to say which kind it is.
            let FlowSample { $($slot,)* $($steady,)* bbr } = after;
            if $(*$steady != before.$steady)||* {
                return false;
            }
            $(
                if *$slot != before.$slot {
                    if !is_kept_whole(*$slot) {
                        return false;
                    }
                    let (old, new) = (Slot::number(before.$slot), Slot::number(*$slot));
                    put(out, Number::$slot as u8, old, new);
                }
            )*
            let model = put_model(before.bbr, *bbr, out);
            out.push(END);
            model
        }

        /// Makes the changes that come first in `from`, and takes them away.
        fn take_changes(sample: &mut FlowSample, from: &mut &[u8]) {
            while let Some((changed, value)) = take(from) {
                match changed {
                    $(number if number == Number::$slot as u8 => {
                        sample.$slot = Slot::of(value.applied(Slot::number(sample.$slot)));
                    })*
                    _ => {
                        debug_assert!(changed >= BBR, "no value has the number {changed}");
                        take_model(sample, changed - BBR, value);
                    }
                }
            }
        }
    };
}

slots! {
    changing: at congestion_state unacked_pkts sacked_pkts lost_pkts retrans_pkts timeouts probes
        backoff cwnd_pkts ssthresh_pkts reordering_pkts snd_mss_bytes rcv_mss_bytes snd_wnd_bytes
        rcv_wnd_bytes rcv_ssthresh_bytes rcv_space_bytes notsent_bytes send_queue_bytes unread_bytes
        srtt last_rtt gaps gap_ranks rttvar min_rtt rcv_rtt rto ato
        since_data_sent since_data_received since_ack_received
        bytes_sent bytes_retrans bytes_acked bytes_received segs_out segs_in data_segs_out
        data_segs_in delivered_pkts delivered_ce_pkts retrans_total_pkts dsack_dups reord_seen
        out_of_order_pkts rto_total busy_time rwnd_limited_time sndbuf_limited_time delivery_rate
        delivery_app_limited pacing_rate max_pacing_rate rmem_bytes rcvbuf_bytes wmem_queued_bytes
        sndbuf_bytes local_queue_bytes backlog_bytes socket_drops nodelay cork quickack
        sndbuf_locked rcvbuf_locked notsent_lowat_bytes owner_cpu_time looks;
    steady: key cookie inode uid cgroup_id source state congestion timestamps sack
        window_scaling ecn upper snd_wscale rcv_wscale advmss_bytes pmtu_bytes limit;
}

const _: () = assert!(
    (Number::looks as u8) < BBR,
    "each value has a number of its own"
);

/// The numbers of BBR's model, of which each look has others. False where the model comes or goes.
fn put_model(before: Option<BbrState>, after: Option<BbrState>, out: &mut Vec<u8>) -> bool {
    let (Some(old), Some(new)) = (before, after) else {
        return before == after;
    };
    let slots = [
        (Some(old.bandwidth).number(), Some(new.bandwidth).number()),
        (Some(old.min_rtt).number(), Some(new.min_rtt).number()),
        (old.pacing_gain.number(), new.pacing_gain.number()),
        (old.cwnd_gain.number(), new.cwnd_gain.number()),
    ];
    for (number, (old, new)) in (BBR..END).zip(slots) {
        if old != new {
            put(out, number, old, new);
        }
    }
    is_kept_whole(Some(new.min_rtt))
}

fn take_model(sample: &mut FlowSample, place: u8, value: Delta) {
    let Some(model) = &mut sample.bbr else {
        return;
    };
    let by = |before: Option<u64>| value.applied(before).unwrap_or(0);
    match place {
        0 => {
            let bits = by(Some(model.bandwidth).number());
            model.bandwidth = Rate::from_bits_per_second(bits);
        }
        1 => model.min_rtt = Duration::from_nanos(by(Some(model.min_rtt).number())),
        2 => model.pacing_gain = Slot::of(Some(by(model.pacing_gain.number()))),
        _ => model.cwnd_gain = Slot::of(Some(by(model.cwnd_gain.number()))),
    }
}

/// Change of a value.
#[derive(Clone, Copy)]
enum Delta {
    Unknown,
    /// By a difference, modulo 2^64.
    By(u64),
}

impl Delta {
    fn applied(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::By(difference) => Some(before.unwrap_or(0).wrapping_add(difference)),
        }
    }
}

fn put(out: &mut Vec<u8>, number: u8, before: Option<u64>, after: Option<u64>) {
    let Some(after) = after else {
        out.push(number | UNKNOWN);
        return;
    };
    if out.capacity() == 0 {
        out.reserve(CHANGES_BYTES);
    }
    out.push(number);
    let difference = after.wrapping_sub(before.unwrap_or(0)).cast_signed();
    // Small ones of either sign in few bytes (zigzag, then seven bits a byte).
    let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The next change of a look; `None` after the last one.
fn take(from: &mut &[u8]) -> Option<(u8, Delta)> {
    let (&number, mut rest) = from.split_first()?;
    if number == END || number & UNKNOWN != 0 {
        *from = rest;
        return (number != END).then_some((number & !UNKNOWN, Delta::Unknown));
    }
    let (mut value, mut shift) = (0, 0);
    while let Some((&next, behind)) = rest.split_first() {
        rest = behind;
        value |= u64::from(next & 0x7f) << shift;
        shift += 7;
        if next & 0x80 == 0 {
            break;
        }
    }
    *from = rest;
    let difference = (value >> 1).cast_signed() ^ -((value & 1).cast_signed());
    Some((number, Delta::By(difference.cast_unsigned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, TcpState};
    use proptest::prelude::*;

    fn look(millis: u64) -> FlowSample {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        FlowSample {
            congestion: Some("cubic".into()),
            ..FlowSample::empty(Instant::ZERO + Duration::from_millis(millis), key)
        }
    }

    fn packed(samples: &[FlowSample]) -> Samples {
        samples.iter().cloned().collect()
    }

    fn check(samples: &[FlowSample]) -> Samples {
        let packed = packed(samples);
        assert_eq!(packed.len(), samples.len());
        let unpacked: Vec<FlowSample> = packed.iter().map(|sample| (*sample).clone()).collect();
        assert_eq!(unpacked, samples);
        let mut shown = Vec::new();
        packed.each(|sample| shown.push(sample.clone()));
        assert_eq!(shown, samples);
        assert_eq!(packed.first(), samples.first());
        assert_eq!(packed.began(), samples.first().map(|first| first.at));
        assert_eq!(packed.last(), samples.last());
        packed
    }

    #[test]
    fn what_changes_takes_a_few_bytes() {
        let samples: Vec<FlowSample> = (0..100)
            .map(|at| FlowSample {
                bytes_acked: Some(at * 20_000),
                srtt: Some(Duration::from_micros(20_000 + at % 7)),
                owner_cpu_time: (at % 5 == 0).then(|| Duration::from_micros(at * 90)),
                congestion_state: Some(STATES[at as usize % 5]),
                ..look(at * 10)
            })
            .collect();
        let packed = check(&samples);
        assert_eq!(packed.whole.len(), 1);
        let each = packed.changes.len() / 98;
        assert!(each < 25, "{each} bytes");
    }

    #[test]
    fn what_seldom_changes_makes_a_look_whole() {
        let bbr = BbrState {
            bandwidth: Rate::from_bits_per_second(9_000_000),
            min_rtt: Duration::from_millis(20),
            pacing_gain: 256,
            cwnd_gain: 512,
        };
        let samples = [
            look(0),
            FlowSample {
                state: Some(TcpState::Established),
                ..look(10)
            },
            FlowSample {
                bbr: Some(bbr),
                ..look(20)
            },
            FlowSample {
                bbr: Some(BbrState {
                    bandwidth: Rate::from_bits_per_second(8_500_000),
                    pacing_gain: 320,
                    ..bbr
                }),
                ..look(25)
            },
            // Longer than nanoseconds in 64 bits can tell.
            FlowSample {
                rto: Some(Duration::MAX),
                ..look(30)
            },
            look(40),
            look(50),
        ];
        assert_eq!(check(&samples).whole.len(), 4);
    }

    #[test]
    fn memory_is_used_again_but_not_that_of_looks_that_others_keep() {
        let looks: Vec<FlowSample> = (0..21).map(|at| look(at * 10)).collect();
        let mut samples = Samples::new();
        let mut kept = Vec::new();
        for (at, sample) in looks.iter().enumerate() {
            samples.push_look(sample);
            if at % 3 == 0 {
                kept.extend(samples.last_shared());
            }
        }
        assert_eq!(samples, packed(&looks));
        let expected: Vec<&FlowSample> = looks.iter().step_by(3).collect();
        assert!(kept.iter().map(|kept| &**kept).eq(expected), "{kept:?}");
        // None of the last two is kept.
        let before = samples.before.as_ref().map(Arc::as_ptr);
        samples.push_look(&look(200));
        assert_eq!(samples.last.as_ref().map(Arc::as_ptr), before);
        let newest = samples.last.as_ref().map(Arc::as_ptr);
        samples.replace_last(look(210));
        assert_eq!(samples.last.as_ref().map(Arc::as_ptr), newest);
        assert_eq!(samples.last(), Some(&look(210)));
    }

    #[test]
    fn the_newest_may_be_replaced() {
        let mut samples = packed(&[look(0), look(10)]);
        samples.replace_last(look(20));
        assert_eq!(samples, packed(&[look(0), look(20)]));
        assert_eq!(samples.before_last(), Some(&look(0)));
        assert_eq!(check(&[]).before_last(), None);
        check(&[look(5)]);
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(
            values in proptest::collection::vec(any::<[Option<u64>; 4]>(), 0..20),
        ) {
            let samples: Vec<FlowSample> = values
                .iter()
                .map(|&[a, b, c, d]| FlowSample {
                    bytes_sent: a,
                    cwnd_pkts: b.map(|n| n as u32),
                    rto: c.map(Duration::from_nanos),
                    backoff: d.map(|n| n as u8),
                    delivery_app_limited: a.map(|n| n % 2 == 0),
                    ..look(b.unwrap_or(0) % 1_000_000)
                })
                .collect();
            check(&samples);
        }
    }
}
