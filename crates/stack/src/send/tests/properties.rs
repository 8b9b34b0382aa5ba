//! Whatever is written, acknowledged and changed: nothing is lost, no limit is passed, and nothing
//! stays for ever.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        bytes: usize,
        more: bool,
    },
    /// Acknowledges this many 1/16 of what is out.
    Ack {
        part: u64,
    },
    Window {
        bytes: u32,
    },
    Cwnd {
        packets: u32,
    },
    Nagle {
        nagle: Nagle,
    },
    Cork {
        cork: bool,
    },
    Push {
        push: Push,
    },
    Mss {
        mss: u32,
    },
    Probe,
    Wait {
        micros: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let nagle = prop_oneof![Just(Nagle::Off), Just(Nagle::Rfc896), Just(Nagle::Minshall)];
    let push = prop_oneof![
        Just(Push::EachWrite),
        Just(Push::BufferEmpty),
        Just(Push::Never)
    ];
    prop_oneof![
        4 => (0_usize..3000, any::<bool>()).prop_map(|(bytes, more)| Step::Write { bytes, more }),
        2 => (3000_usize..30_000).prop_map(|bytes| Step::Write { bytes, more: false }),
        4 => (0_u64..=16).prop_map(|part| Step::Ack { part }),
        1 => (0_u32..100_000).prop_map(|bytes| Step::Window { bytes }),
        1 => (0_u32..100).prop_map(|packets| Step::Cwnd { packets }),
        1 => nagle.prop_map(|nagle| Step::Nagle { nagle }),
        1 => any::<bool>().prop_map(|cork| Step::Cork { cork }),
        1 => push.prop_map(|push| Step::Push { push }),
        1 => (300_u32..9000).prop_map(|mss| Step::Mss { mss }),
        1 => Just(Step::Probe),
        1 => (0_u64..3000).prop_map(|micros| Step::Wait { micros }),
    ]
}

fn profile() -> impl Strategy<Value = SocketSettings> {
    let buffers = |mut settings: SocketSettings| {
        settings.send.accounting = Accounting::Buffers {
            payload_bytes: 1460,
        };
        settings.send.buffer.fixed = Some(5 * 1460);
        settings.send.unacked_budget = Some(5 * 1460);
        settings
    };
    let small = |mut settings: SocketSettings| {
        settings.send.buffer.fixed = Some(3000);
        settings
    };
    prop_oneof![
        Just(linux()),
        Just(small(linux())),
        Just(bsd()),
        Just(small(bsd())),
        Just(buffers(bsd())),
        Just(winsock(8192)),
        Just(winsock(0)),
    ]
}

/// Checks one packet against the windows and the stream, and says how long it is.
fn check_packet(bench: &mut Bench, outgoing: &Outgoing, env: &SendEnv) {
    let Outgoing {
        start,
        end,
        gso_size,
        ..
    } = *outgoing;
    let bytes = end - start;
    assert!(end <= env.window_end, "{end} beyond {}", env.window_end);
    assert!(bytes > 0 || outgoing.fin);
    let size = u64::from(gso_size);
    assert!(size <= u64::from(env.sizes.mss));
    let segments = if size == 0 { 1 } else { bytes.div_ceil(size) };
    assert!(size > 0 || bytes <= u64::from(env.sizes.mss));
    assert!(size == 0 || segments > 1);
    assert!(bytes == 0 || segments <= u64::from(env.allowance));
    assert!(bytes <= u64::from(env.sizes.gso_max.max(env.sizes.mss)));
    let payload = bench.sender.payload(start, end).to_vec();
    assert!(
        payload
            .iter()
            .zip(start - 1..)
            .all(|(&byte, at)| byte == byte_at(at))
    );
    assert_eq!(payload.len() as u64, bytes);
}

fn send_checked(bench: &mut Bench) {
    loop {
        let env = bench.env();
        match bench.sender.poll_segment(&env) {
            Ok(first) => {
                // Who asks again gets the same, or more: each time the head takes in one packet
                // behind it that has room there (Linux `tcp_grow_skb`).
                let outgoing = bench.sender.poll_segment(&env).expect("asked twice");
                assert_eq!(outgoing.start, first.start);
                assert!(outgoing.end >= first.end, "{outgoing:?} after {first:?}");
                check_packet(bench, &outgoing, &env);
                bench.on_sent(&outgoing);
            }
            Err(_) => break,
        }
    }
    check_accounts(bench);
}

/// What is counted as it changes equals what is counted anew.
fn check_accounts(bench: &Bench) {
    let sender = &bench.sender;
    assert_eq!(sender.end(), 1 + bench.written);
    assert_eq!(
        bench.progress.unacked_bytes() + bench.unsent_bytes(),
        sender.outstanding_bytes(&bench.progress)
    );
    sender.ledger.check_accounts(&bench.progress);
    let hard_limit = match sender.settings.send.completion {
        Completion::Bsd => sender.size.bytes(),
        Completion::Linux | Completion::Winsock => u64::MAX,
    };
    assert!(sender.queued_bytes(&bench.progress) <= hard_limit);
}

fn acknowledge(bench: &mut Bench, part: u64) {
    let out = bench.progress.unacked_bytes();
    bench.on_ack(bench.progress.data_acked() + out * part / 16);
}

fn apply(bench: &mut Bench, step: Step) {
    match step {
        Step::Write { bytes, more } => {
            let flags = WriteFlags {
                more,
                ..WriteFlags::default()
            };
            bench.offer(bytes, flags);
            let window_end = bench.env().window_end;
            for outgoing in core::mem::take(&mut bench.early) {
                assert!(outgoing.end <= window_end, "sent in the middle of a write");
            }
        }
        Step::Ack { part } => acknowledge(bench, part),
        Step::Window { bytes } => {
            bench.window = bytes;
            bench.window_max = bench.window_max.max(bytes);
        }
        Step::Cwnd { packets } => bench.cwnd = packets,
        Step::Nagle { nagle } => bench.settings.small_writes.nagle = nagle,
        Step::Cork { cork } => bench.settings.small_writes.cork = cork,
        Step::Push { push } => bench.settings.small_writes.push = push,
        Step::Mss { mss } => bench.mss = mss,
        Step::Probe => {
            let (env, sizes) = (bench.env(), bench.sizes());
            if let Some(probe) =
                bench
                    .sender
                    .poll_probe(&bench.progress, env.window_end, &sizes, NewProbe::OfWindow)
            {
                assert!(probe.end <= env.window_end);
                bench.on_sent(&probe);
            }
        }
        Step::Wait { micros } => bench.wait(Duration::from_micros(micros)),
    }
    bench.sender.configure(&Arc::new(bench.settings.clone()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_byte_leaves_once_and_within_the_limits(
        settings in profile(),
        burst in 0_u32..50,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut bench = Bench::new(settings);
        bench.burst = burst;
        for step in steps {
            apply(&mut bench, step);
            send_checked(&mut bench);
            bench.is_woken();
        }
        // With an open path, no cork and everything acknowledged, all of it leaves.
        bench.settings.small_writes.cork = false;
        bench.settings.small_writes.push = Push::EachWrite;
        bench.sender.configure(&Arc::new(bench.settings.clone()));
        bench.window = 1 << 20;
        bench.window_max = 1 << 20;
        bench.cwnd = 100;
        // Each round sends at least one segment.
        for _ in 0..bench.sender.end() {
            if bench.progress.data_acked() == bench.sender.end() {
                break;
            }
            bench.wait(WAIT);
            acknowledge(&mut bench, 16);
            // What `MSG_MORE` holds is released by the timer.
            bench.sender.release_held();
            send_checked(&mut bench);
        }
        acknowledge(&mut bench, 16);
        prop_assert_eq!(bench.unsent_bytes(), 0);
        prop_assert_eq!(bench.memory().wmem_queued_bytes, 0);
        prop_assert!(bench.is_woken() || !bench.memory().writer_waits);
        bench.sender.close();
        prop_assert_eq!(bench.send(), "0F");
    }
}
