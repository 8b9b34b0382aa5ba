//! The samples of one connection, packed.
//!
//! A sample has about ninety values, of which a dozen change from one to the next. The first sample
//! is kept whole, and so is each that differs in a value which seldom changes; of the others only
//! the changes are kept, as differences in a few bytes. Ten samples a second of thousands of
//! connections fit into memory that way. When a connection has ended, its whole samples, too, are
//! kept as differences from those of others ([`Samples::settled`]).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{BbrState, CongestionState, FlowKey, FlowSample, Instant, Rate};

use crate::facts::Facts;

/// Marks a value that has become unknown.
const UNKNOWN: u8 = 0x80;
/// Follows the last change of a sample.
const END: u8 = 0x7f;
/// Initial room for the changes of some samples, in bytes.
const CHANGES_BYTES: usize = 128;
/// Memory of whole samples that is kept for the next ones.
const WHOLE_KEPT: usize = 4;
/// Of a connection idle for longer than this, only samples with changes are kept: pauses of
/// programs that think are shorter.
pub const LONG_IDLE: Duration = Duration::from_secs(1);
/// The first of the four numbers of BBR's model.
const BBR: u8 = END - 4;

/// The samples of one connection in the order of time.
#[derive(Clone, Default)]
pub struct Samples {
    /// Samples that are kept whole.
    whole: Vec<Whole>,
    /// Changes of the other samples, one after the other.
    changes: Vec<u8>,
    /// How many are packed.
    packed: usize,
    /// The time of the first of these, cached.
    began: Instant,
    /// The newest that is packed.
    before: Option<Arc<FlowSample>>,
    /// The newest of all, which may still be replaced.
    last: Option<Arc<FlowSample>>,
    /// Own changes, if the samples in `whole` are those of other connections.
    settled: Option<Box<Settled>>,
}

#[derive(Clone)]
struct Whole {
    /// Samples before it.
    index: usize,
    /// Bytes of the changes of these.
    offset: usize,
    sample: Arc<FlowSample>,
}

/// Differences of samples that are kept as changes of other connections' samples.
#[derive(Clone)]
struct Settled {
    key: FlowKey,
    cookie: Option<u64>,
    /// Facts, computed while the samples were unpacked.
    facts: Facts,
    /// The oldest and the newest, once they were unpacked.
    ends: OnceLock<Box<[FlowSample; 2]>>,
}

/// Samples of some connections, of which those of others are kept as changes: thousands of short
/// connections are nearly the same.
#[derive(Debug, Default)]
pub struct Alike {
    looks: Vec<Arc<FlowSample>>,
    /// The next one to replace.
    oldest: usize,
    /// Changes of one connection, before they get memory of their own.
    changes: Vec<u8>,
}

/// How many are kept of these: one connection has two ends, and few states at each.
const ALIKE_MAX: usize = 16;

impl Alike {
    /// Appends what is different in `sample` from the sample that is returned.
    fn tell(&mut self, sample: &Arc<FlowSample>) -> Arc<FlowSample> {
        let length = self.changes.len();
        for like in &self.looks {
            if put_changes_of_any(like, sample, &mut self.changes) {
                return Arc::clone(like);
            }
            self.changes.truncate(length);
        }
        self.changes.push(END);
        if self.looks.len() < ALIKE_MAX {
            self.looks.push(Arc::clone(sample));
        } else {
            self.looks[self.oldest] = Arc::clone(sample);
            self.oldest = (self.oldest + 1) % ALIKE_MAX;
        }
        Arc::clone(sample)
    }
}

impl Samples {
    /// No samples yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: impl Into<Arc<FlowSample>>) {
        self.unsettle();
        if let Some(last) = self.last.replace(sample.into()) {
            self.pack(last);
        }
    }

    /// As [`Samples::push`], into the memory of a sample that has been packed, unless that is used
    /// elsewhere: with thousands of connections allocating would take more time than packing.
    pub fn push_look(&mut self, sample: &FlowSample) {
        self.unsettle();
        let spare = self.last.take().and_then(|last| self.pack(last));
        self.last = Some(placed(spare, sample.clone()));
    }

    /// The same of a connection that is sampled repeatedly; whether there is one more than before.
    /// While nothing happens only the first and the last sample are kept.
    pub fn take_look(&mut self, sample: &FlowSample) -> bool {
        self.unsettle();
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
                // Options are read seldom: the last reading stays.
                owner_cpu_time: sample.owner_cpu_time.or(last.owner_cpu_time),
                ..sample.clone()
            };
            self.replace_last(sample);
            return false;
        }
        self.push_look(sample);
        true
    }

    /// As [`Samples::push`], for a sample in memory of its own; returns the memory of a sample that
    /// has been packed, if there is one and it is not used elsewhere.
    pub fn push_in_exchange(&mut self, sample: Arc<FlowSample>) -> Option<Arc<FlowSample>> {
        self.unsettle();
        let last = self.last.replace(sample)?;
        let spare = self.pack(last)?;
        (Arc::strong_count(&spare) == 1).then_some(spare)
    }

    /// Replaces the newest sample, in its memory unless that is used elsewhere.
    pub fn replace_last(&mut self, sample: FlowSample) {
        self.unsettle();
        self.last = Some(placed(self.last.take(), sample));
    }

    /// The same samples in the least memory, for a connection that has ended.
    #[must_use]
    pub fn settled(&self, alike: &mut Alike) -> Self {
        let Some((first, last)) = self.first().zip(self.last.as_ref()) else {
            return self.clone();
        };
        let whole = || self.whole.iter().map(|whole| &whole.sample).chain([last]);
        if !whole().all(|sample| is_of_same(first, sample)) {
            return self.clone();
        }
        let mut told = Vec::with_capacity(self.whole.len() + 1);
        let mut offset = 0;
        alike.changes.clear();
        for whole in &self.whole {
            let between = &self.changes[offset..whole.offset];
            alike.changes.extend_from_slice(between);
            told.push(Whole {
                index: whole.index,
                offset: alike.changes.len(),
                sample: alike.tell(&whole.sample),
            });
            offset = whole.offset;
        }
        alike.changes.extend_from_slice(&self.changes[offset..]);
        let offset = alike.changes.len();
        let before = self.before.as_deref();
        if !before.is_some_and(|before| put_changes(before, last, &mut alike.changes)) {
            alike.changes.truncate(offset);
            told.push(Whole {
                index: self.packed,
                offset,
                sample: alike.tell(last),
            });
        }
        Self {
            whole: told,
            changes: alike.changes.as_slice().into(),
            packed: self.packed + 1,
            began: first.at,
            before: None,
            last: None,
            settled: Some(Box::new(Settled {
                key: first.key,
                cookie: first.cookie,
                facts: Facts::of(self),
                ends: OnceLock::new(),
            })),
        }
    }

    /// The opposite of [`Samples::settled`]: ready for more samples.
    fn unsettle(&mut self) {
        if self.settled.is_some() {
            *self = self.iter().collect();
        }
    }

    /// Drops all samples. Memory that is not used elsewhere goes to `spare`, until that has `most`.
    pub fn clear_into(&mut self, spare: &mut Vec<Arc<FlowSample>>, most: usize) {
        self.before = None;
        let whole = self.whole.drain(..).map(|whole| whole.sample);
        let mut free = whole
            .chain(self.last.take())
            .filter(|sample| Arc::strong_count(sample) == 1);
        spare.extend(free.by_ref().take(most.saturating_sub(spare.len())));
        drop(free);
        self.changes.clear();
        self.changes.shrink_to(CHANGES_BYTES);
        self.whole.shrink_to(WHOLE_KEPT);
        (self.packed, self.settled) = (0, None);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed + usize::from(self.last.is_some())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate memory, in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        let each = match self.settled {
            Some(_) => 0,
            None => size_of::<FlowSample>(),
        };
        self.whole.len() * (each + size_of::<Whole>()) + self.changes.len()
    }

    /// The oldest.
    #[must_use]
    pub fn first(&self) -> Option<&FlowSample> {
        if let Some(settled) = &self.settled {
            return Some(&self.ends(settled)[0]);
        }
        let first = self.whole.first().map(|whole| &whole.sample);
        first.or(self.last.as_ref()).map(|sample| &**sample)
    }

    /// The oldest and the newest of settled ones.
    fn ends<'s>(&self, settled: &'s Settled) -> &'s [FlowSample; 2] {
        settled.ends.get_or_init(|| {
            let mut walk = self.walk();
            walk.step();
            let first = walk.newest().clone();
            while walk.step() {}
            Box::new([first, walk.newest().clone()])
        })
    }

    /// Facts about them, where these are known already.
    pub(crate) fn facts(&self) -> Option<Facts> {
        self.settled.as_ref().map(|settled| settled.facts)
    }

    fn walk(&self) -> Walk<'_> {
        Walk {
            whole: self.whole.iter().peekable(),
            changes: &self.changes,
            index: 0,
            packed: self.packed,
            last: self.last.as_ref(),
            settled: self.settled.as_deref(),
            shared: None,
            own: None,
        }
    }

    /// When the oldest was taken.
    #[must_use]
    pub fn began(&self) -> Option<Instant> {
        match self.packed {
            0 => self.last.as_ref().map(|last| last.at),
            _ => Some(self.began),
        }
    }

    /// The newest.
    #[must_use]
    pub fn last(&self) -> Option<&FlowSample> {
        match &self.settled {
            Some(settled) => Some(&self.ends(settled)[1]),
            None => self.last.as_deref(),
        }
    }

    /// The newest, shared.
    #[must_use]
    pub fn last_shared(&self) -> Option<Arc<FlowSample>> {
        match &self.settled {
            Some(settled) => Some(Arc::new(self.ends(settled)[1].clone())),
            None => self.last.clone(),
        }
    }

    /// The sample before the newest, while more may come.
    fn before_last(&self) -> Option<&FlowSample> {
        self.before.as_deref()
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { walk: self.walk() }
    }

    /// Samples that differ from the previous one in a value which seldom changes, such as the state
    /// or the source, the first among them; and the newest. Read only such values: in settled
    /// samples, the others are those of another connection.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &FlowSample> {
        let whole = self.whole.iter().map(|whole| &*whole.sample);
        whole.chain(self.last.as_deref())
    }

    /// Calls `each` for all samples, oldest first, unpacking into the same memory.
    pub fn each(&self, mut take: impl FnMut(&FlowSample)) {
        let mut walk = self.walk();
        while walk.step() {
            take(walk.newest());
        }
    }

    /// Passes all samples on, oldest first: whole ones shared, the rest in memory from `spare`
    /// while there is any.
    pub(crate) fn share(
        &self,
        spare: &mut Vec<Arc<FlowSample>>,
        mut take: impl FnMut(Arc<FlowSample>),
    ) {
        let mut walk = self.walk();
        while walk.step() {
            take(walk.share(spare));
        }
    }

    /// Returns the one that was packed before.
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
                offset: length,
                sample: Arc::clone(&sample),
            });
        }
        self.packed += 1;
        self.before.replace(sample)
    }
}

/// A sample in the memory of another one, if that is not used elsewhere.
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

/// Unpacks samples one after the other.
#[derive(Clone)]
struct Walk<'s> {
    whole: std::iter::Peekable<std::slice::Iter<'s, Whole>>,
    changes: &'s [u8],
    index: usize,
    packed: usize,
    last: Option<&'s Arc<FlowSample>>,
    settled: Option<&'s Settled>,
    /// The newest so far, where it is kept whole ...
    shared: Option<&'s Arc<FlowSample>>,
    /// ... and else.
    own: Option<FlowSample>,
}

impl<'s> Walk<'s> {
    /// Advances to the next sample; whether there is one.
    fn step(&mut self) -> bool {
        if self.index == self.packed {
            self.shared = self.last.take();
            return self.shared.is_some();
        }
        let index = self.index;
        self.index += 1;
        let next = self.whole.next_if(|whole| whole.index == index);
        match (next, self.settled) {
            (Some(next), None) => {
                self.shared = Some(&next.sample);
                return true;
            }
            (Some(next), Some(settled)) => {
                let own = self.own.insert(FlowSample::clone(&next.sample));
                (own.key, own.cookie) = (settled.key, settled.cookie);
            }
            (None, _) => {
                if let Some(shared) = self.shared.take() {
                    self.own = Some(FlowSample::clone(shared));
                }
            }
        }
        let Some(own) = &mut self.own else {
            return false;
        };
        take_changes(own, &mut self.changes);
        true
    }

    /// The present sample.
    fn newest(&self) -> &FlowSample {
        let shared = self.shared.map(|shared| &**shared);
        shared.or(self.own.as_ref()).expect("a step was taken")
    }

    /// The present sample, shared.
    fn share(&self, spare: &mut Vec<Arc<FlowSample>>) -> Arc<FlowSample> {
        match self.shared {
            Some(shared) => Arc::clone(shared),
            None => placed(spare.pop(), self.newest().clone()),
        }
    }
}

/// The samples of a connection, unpacked one after the other.
#[derive(Clone)]
pub struct Iter<'s> {
    walk: Walk<'s>,
}

impl Iterator for Iter<'_> {
    type Item = Arc<FlowSample>;

    fn next(&mut self) -> Option<Arc<FlowSample>> {
        let has_next = self.walk.step();
        has_next.then(|| self.walk.share(&mut Vec::new()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let walk = &self.walk;
        let left = walk.packed - walk.index + usize::from(walk.last.is_some());
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

/// Which values are kept as differences, which make a sample whole if they change, and which
/// identify the connection: each is in one of the three lists.
macro_rules! slots {
    (changing: $($slot:ident)*; steady: $($steady:ident)*; own: $($own:ident)*;) => {
        /// The numbers of the values that are kept as differences, in their order.
        #[expect(non_camel_case_types, reason = "each is called as its value is")]
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Number { $($slot),* }

        /// Appends what is different in `after`; false if that cannot be expressed as changes.
        fn put_changes(before: &FlowSample, after: &FlowSample, out: &mut Vec<u8>) -> bool {
            is_of_same(before, after) && put_changes_of_any(before, after, out)
        }

        /// Whether both are of one connection.
        fn is_of_same(one: &FlowSample, other: &FlowSample) -> bool {
            $(one.$own == other.$own)&&*
        }

        /// As [`put_changes`], without the values that identify the connection.
        fn put_changes_of_any(before: &FlowSample, after: &FlowSample, out: &mut Vec<u8>) -> bool {
            // Without `..`: a new field has to be assigned to a kind.
            let FlowSample { $($slot,)* $($steady,)* $($own: _,)* bbr } = after;
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

        /// Applies the first changes in `from`, and removes them.
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
    steady: inode uid cgroup_id source state congestion timestamps sack
        window_scaling ecn upper snd_wscale rcv_wscale advmss_bytes pmtu_bytes limit;
    own: key cookie;
}

const _: () = assert!(
    (Number::looks as u8) < BBR,
    "each value has a number of its own"
);

/// The numbers of BBR's model, which differ in each sample. False if the model appears or
/// disappears.
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
    let difference = after.wrapping_sub(before.unwrap_or(0)).cast_signed();
    // Small ones of either sign in few bytes (zigzag, then seven bits a byte).
    let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
    if rest < 0x80 {
        out.extend_from_slice(&[number, rest as u8]);
        return;
    }
    out.push(number);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The next change of a sample; `None` after the last one.
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
        // Twice, since the second time others are like them.
        let mut alike = Alike::default();
        check_settled(&packed.settled(&mut alike), &packed);
        check_settled(&packed.settled(&mut alike), &packed);
        packed
    }

    fn check_settled(settled: &Samples, samples: &Samples) {
        assert_eq!(settled, samples);
        assert_eq!(
            (settled.first(), settled.last(), settled.began()),
            (samples.first(), samples.last(), samples.began())
        );
        let mut shown = Vec::new();
        settled.each(|sample| shown.push(sample.clone()));
        assert!(
            shown.iter().eq(samples
                .iter()
                .map(|sample| (*sample).clone())
                .collect::<Vec<_>>()
                .iter())
        );
        let states = |of: &Samples| -> Vec<_> { of.turns().map(|sample| sample.state).collect() };
        let (mut few, mut all) = (states(settled), states(samples));
        few.dedup();
        all.dedup();
        assert_eq!(few, all);
        // More may come after all.
        let (mut later, mut same) = (settled.clone(), samples.clone());
        later.push(look(9_000_000));
        same.push(look(9_000_000));
        assert_eq!(later, same);
    }

    #[test]
    fn of_connections_that_are_alike_a_few_bytes_are_kept() {
        let mut alike = Alike::default();
        let of_port = |port: u16| -> Samples {
            let sample = |at: u64, state| {
                let mut sample = look(u64::from(port) + at);
                sample.key.local.set_port(port);
                FlowSample {
                    cookie: Some(u64::from(port)),
                    state: Some(state),
                    bytes_acked: Some(at * 1000),
                    ..sample
                }
            };
            let states = [TcpState::SynSent, TcpState::Established, TcpState::Closed];
            (0..3).map(|at| sample(at, states[at as usize])).collect()
        };
        for port in 1..100 {
            let samples = of_port(port);
            let settled = samples.settled(&mut alike);
            check_settled(&settled, &samples);
            assert!(
                settled.changes.len() < 20,
                "{} bytes",
                settled.changes.len()
            );
        }
        assert_eq!(alike.looks.len(), 3);
        // Looks of more kinds than are kept.
        for kind in 0..2 * ALIKE_MAX as u32 {
            let samples = packed(&[FlowSample {
                uid: Some(kind),
                ..look(0)
            }]);
            check_settled(&samples.settled(&mut alike), &samples);
        }
        assert_eq!(alike.looks.len(), ALIKE_MAX);
    }

    #[test]
    fn memory_of_forgotten_looks_is_used_again_but_for_what_others_keep() {
        let mut samples = packed(&[look(0), look(10), look(20)]);
        let kept = samples.last_shared();
        let mut spare = Vec::new();
        samples.clear_into(&mut spare, 2);
        assert_eq!((samples.len(), spare.len()), (0, 1));
        assert_eq!(kept.map(|kept| kept.at), Some(look(20).at));
        assert_eq!(check(&[look(5)]), {
            samples.push(placed(spare.pop(), look(5)));
            samples.clone()
        });
        samples.clear_into(&mut spare, 0);
        assert!(spare.is_empty());
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
