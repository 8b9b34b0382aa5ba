//! Whatever arrives: bytes are conserved, windows kept, and memory is bounded.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Bytes at a distance from the next one, backwards or forwards.
    Data(i64, u32, bool),
    Read(usize),
    Send,
    Wait(u64),
    Resize(u32),
}

impl Connection {
    /// Whether an ACK is wanted of a segment, as of each but what Linux drops behind a gap.
    fn answers(&self, outcome: &DataOutcome) -> bool {
        let is_silent = self.receiver.buffer.is_truesize()
            && outcome.dropped == Some(DropReason::OutOfOrderFull);
        is_silent || self.receiver.ack_wanted() != AckWanted::No
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (-3000_i64..6000, 1_u32..3000, any::<bool>())
            .prop_map(|(distance, length, push)| Step::Data(distance, length, push)),
        6 => (1_u32..3000, any::<bool>()).prop_map(|(b, c)| Step::Data(0, b, c)),
        2 => (0_usize..20_000).prop_map(Step::Read),
        5 => Just(Step::Send),
        1 => (0_u64..300_000).prop_map(Step::Wait),
        1 => (1000_u32..100_000).prop_map(Step::Resize),
    ]
}

fn any_settings() -> impl Strategy<Value = SocketSettings> {
    prop_oneof![
        Just(linux()),
        Just({
            let mut small = linux();
            small.recv.buffer.fixed = Some(16_384);
            small
        }),
        Just(bsd(16_384, 2, millis(100), Duration::ZERO)),
        Just(netburner(5, 4)),
    ]
}

proptest! {
    #[test]
    fn bytes_are_conserved_windows_kept_and_memory_bounded(
        settings in any_settings(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut settings = settings;
        let mut connection = open(&settings);
        let mut received = vec![false; 2 << 20];
        let (mut read, mut micros, mut edge) = (1_u64, 0, connection.receiver.window_end());
        let mut largest = connection.receiver.memory().rcvbuf_bytes;
        for step in steps {
            micros += 7;
            match step {
                Step::Data(distance, length, push) => {
                    let start = (connection.receiver.next() as i64 + distance).max(1) as u64;
                    let before = connection.receiver.next();
                    let receiver = &connection.receiver;
                    let is_empty = receiver.queue.unread() == 0;
                    let edge = match receiver.buffer.is_truesize() && is_empty {
                        true => u64::MAX,
                        false => receiver.window_end(),
                    };
                    let end = (start + u64::from(length)).min(edge);
                    let outcome = connection.data_at(micros, start, length, push);
                    if outcome.accepted {
                        received[start as usize..end as usize].fill(true);
                    }
                    let advanced = connection.receiver.next() > before;
                    prop_assert_eq!(outcome.readable, advanced);
                    prop_assert!(all_of(&received, before, connection.receiver.next()));
                    if outcome.accepted && start <= before {
                        prop_assert!(connection.receiver.next() >= end);
                    }
                    prop_assert!(connection.answers(&outcome));
                }
                Step::Read(max) => {
                    let taken = connection.read_at(micros, max);
                    prop_assert_eq!(&taken[..], &stream(read, taken.len() as u32)[..]);
                    read += taken.len() as u64;
                }
                Step::Send => {
                    connection.send_at(micros, push_of(micros));
                    prop_assert_eq!(connection.receiver.ack_wanted(), AckWanted::No);
                }
                Step::Wait(wait) => {
                    micros += wait;
                    connection.run_until(micros);
                }
                Step::Resize(bytes) => {
                    settings.recv.buffer.fixed = Some(bytes);
                    connection.receiver.configure(at(micros), &Arc::new(settings.clone()));
                }
            }
            let receiver = &connection.receiver;
            // Without memory Linux alone takes back what it offered (rule 3.4.7).
            let is_taken_back = receiver.buffer.is_truesize() && receiver.current_window() == 0;
            prop_assert!(receiver.window_end() >= edge || is_taken_back);
            edge = receiver.window_end();
            prop_assert_eq!(receiver.next(), read + receiver.unread_bytes());
            let memory = receiver.memory();
            largest = largest.max(memory.rcvbuf_bytes);
            // One packet too many in each queue; whole buffers round up.
            prop_assert!(memory.rmem_bytes <= 2 * largest + 12_000, "{memory:?}");
            if receiver.buffer.is_truesize() {
                prop_assert!(memory.rmem_bytes <= largest + 2 * 6000, "{memory:?}");
            }
        }
        check_blocks(&connection.receiver, &received)?;
    }
}

fn push_of(micros: u64) -> bool {
    micros.is_multiple_of(2)
}

/// Every block is data that came, that is not in order, and that no other names or touches; all
/// of it, or as much of it as Linux remembers.
fn check_blocks(receiver: &Receiver, received: &[bool]) -> Result<(), TestCaseError> {
    for whole in [true, false] {
        let blocks = receiver.queue.blocks(4, whole);
        for (index, &(start, end)) in blocks.iter().enumerate() {
            prop_assert!(start > receiver.next() && start < end);
            prop_assert!(all_of(received, start, end));
            let apart = |&(from, to): &(u64, u64)| to < start || end < from;
            prop_assert!(blocks[..index].iter().all(apart), "{:?}", blocks);
        }
    }
    prop_assert_eq!(receiver.has_out_of_order(), receiver.queue.span() > 0);
    Ok(())
}

fn all_of(received: &[bool], start: u64, end: u64) -> bool {
    received[start as usize..end as usize].iter().all(|it| *it)
}
