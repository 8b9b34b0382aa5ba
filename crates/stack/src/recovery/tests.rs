//! Tests of the whole: what a sender does on ACKs, timers and losses.

use alloc::boxed::Box;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use base::settings::{Detection, SocketSettings};
use base::{CongestionState, Instant};

use super::rack::ReorderInput;
use super::{AckInput, LossRecovery, Probe, RecoveryTimer};
use crate::Arc;
use crate::cc::{AckSample, CongestionControl, Window};
use crate::profile::linux_6_18;
use crate::tick::TickClock;

/// Settings as Linux has them.
pub(super) fn settings() -> SocketSettings {
    linux_6_18().settings
}

const MSS: u32 = 1000;

/// A small fixed controller: slow start, halving, and the calls that it got.
#[derive(Debug, Default)]
struct Half {
    idles: Vec<Duration>,
}

impl CongestionControl for Half {
    fn name(&self) -> &'static str {
        "half"
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        use CongestionState::{Disorder, Loss, Open};
        let may_grow = matches!(ack.state, Open | Disorder | Loss) && ack.acked > 0;
        if may_grow && window.may_grow() && window.in_slow_start() {
            window.slow_start(ack.delivered);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Instant) -> u32 {
        (window.cwnd / 2).max(2)
    }

    fn on_timeout(&mut self, _window: &mut Window, _now: Instant) {}

    fn on_restart(&mut self, _window: &mut Window, _now: Instant, idle: Duration) {
        self.idles.push(idle);
    }
}

/// A sender of segments 0, 1, 2 ... of 1000 bytes (segment n is at 1 + 1000 n), and its clock.
struct Sender {
    recovery: LossRecovery,
    now: Instant,
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn offset(segment: u64) -> u64 {
    1 + segment * u64::from(MSS)
}

impl Sender {
    fn with(settings: &SocketSettings, hz: u32, rtt: Option<Duration>) -> Self {
        let tick = TickClock::new(hz, 63, 1);
        let mut recovery = LossRecovery::new(
            &Arc::new(settings.clone()),
            MSS,
            Box::new(Half::default()),
            tick,
        );
        recovery.set_options(settings.options.sack, settings.options.timestamps);
        let now = Instant::from_nanos(5_000_000_000);
        recovery.on_established(now, rtt, 0);
        Self { recovery, now }
    }

    /// Exact timers, 40 ms.
    fn new() -> Self {
        Self::with(&settings(), 0, Some(ms(40)))
    }

    fn changed(change: impl FnOnce(&mut SocketSettings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        Self::with(&settings, 0, Some(ms(40)))
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    /// Sends `count` segments as one chain.
    fn send(&mut self, count: u64) -> &mut Self {
        let start = self.recovery.next();
        let end = start + count * u64::from(MSS);
        self.recovery
            .on_transmit(self.now, (start, end), MSS, false);
        self
    }

    fn input<'a>(&self, ack: u64, sack: &'a [(u64, u64)]) -> AckInput<'a> {
        AckInput {
            now: self.now,
            ack: offset(ack),
            sack,
            timestamp_rtt: None,
            timestamp_echo: None,
            has_data: false,
            is_window_update: false,
            ece: false,
            has_new_data: false,
        }
    }

    fn before_transmit(&mut self) {
        self.recovery.before_transmit(self.now);
    }

    fn after_transmit(&mut self, writer_waits: bool) {
        let round = super::SendRound {
            is_window_limited: false,
            has_sent: true,
            writer_waits,
        };
        self.recovery.after_transmit(self.now, &round);
    }

    /// An ACK of everything below segment `ack`, with SACK blocks in segments.
    fn ack(&mut self, ack: u64, sack: &[(u64, u64)]) -> super::AckOutcome {
        let sack: Vec<_> = sack.iter().map(|&(a, b)| (offset(a), offset(b))).collect();
        let input = self.input(ack, &sack);
        self.recovery.on_ack(&input)
    }

    /// Retransmits all that may be retransmitted, one segment each; the numbers of the segments.
    fn retransmit(&mut self, timestamp: u32) -> Vec<u64> {
        let mut retransmitted = vec![];
        while let Some((start, end)) = self.recovery.poll_retransmit(MSS, MSS) {
            self.recovery
                .on_retransmit(self.now, (start, end), MSS, (self.now, timestamp));
            retransmitted.push((start - 1) / u64::from(MSS));
        }
        retransmitted
    }

    /// What is due next, after how long; time goes on to it.
    fn next_timer(&mut self) -> (RecoveryTimer, Duration) {
        let (at, timer) = self.recovery.deadline().unwrap();
        let wait = at.since(self.now);
        self.now = self.now.max(at);
        match timer {
            RecoveryTimer::Retransmit => self.recovery.on_retransmit_timeout(self.now),
            RecoveryTimer::Reorder => self.recovery.on_reorder_timeout(self.now),
            RecoveryTimer::LossProbe => {
                if let Probe::NewOr { start, end } = self.recovery.on_probe_timeout(self.now, MSS) {
                    self.recovery
                        .on_retransmit(self.now, (start, end), MSS, (self.now, 1));
                }
            }
        }
        (timer, wait)
    }

    fn cwnd(&self) -> u32 {
        self.recovery.window().cwnd
    }

    fn state(&self) -> CongestionState {
        self.recovery.state()
    }

    fn set_window(&mut self, cwnd: u32) {
        self.recovery.window.cwnd = cwnd;
    }
}

/// A probe and the timeouts after it, within the ticks of 4 ms that Linux was measured with.
fn check_timers(name: &str, packets: u64, rtt: u64, expected_ms: &[(RecoveryTimer, u64, u64)]) {
    let mut sender = Sender::with(&settings(), 250, Some(micros(rtt)));
    sender.send(packets);
    for &(timer, least, most) in expected_ms {
        let (got, wait) = sender.next_timer();
        assert_eq!(got, timer, "{name}");
        let wait = wait.as_micros() as u64;
        assert!(
            (least..=most).contains(&wait),
            "{name}: {timer:?} after {wait} us"
        );
        if timer == RecoveryTimer::Retransmit {
            assert!(!sender.retransmit(1).is_empty(), "{name}");
        }
    }
}

#[test]
fn probes_and_timeouts_come_when_linux_sends_them() {
    use RecoveryTimer::{LossProbe, Retransmit};
    let timeouts = [
        (Retransmit, 244_000, 248_000),
        (Retransmit, 488_000, 520_000),
        (Retransmit, 976_000, 1_008_000),
    ];
    let with = |probe: (u64, u64)| {
        let mut all = vec![(LossProbe, probe.0, probe.1)];
        all.extend(timeouts);
        all
    };
    check_timers("T9", 1, 40_200, &with((244_000, 248_000)));
    check_timers("T10", 2, 40_650, &with((83_300, 88_000)));
    check_timers("T11", 5, 40_500, &with((83_000, 88_000)));
}

#[test]
fn the_probe_is_bounded_by_the_timeout() {
    let mut sender = Sender::with(&settings(), 0, Some(ms(10)));
    assert_eq!(
        sender.send(1).next_timer(),
        (RecoveryTimer::LossProbe, ms(210)),
        "T12"
    );
    let mut sender = Sender::with(&settings(), 0, None);
    assert_eq!(
        sender.send(3).next_timer(),
        (RecoveryTimer::LossProbe, ms(1000)),
        "T13"
    );
}

#[test]
fn no_probe_without_sack_or_when_it_is_off() {
    let timer_of = |change: fn(&mut SocketSettings)| Sender::changed(change).send(3).next_timer();
    let rto = (RecoveryTimer::Retransmit, ms(240));
    assert_eq!(timer_of(|s| s.options.sack = false), rto);
    assert_eq!(timer_of(|s| s.recovery.tail_loss_probe = false), rto);
}

#[test]
fn idle_times_halve_the_window_once_per_timeout() {
    let check = |name, rtt: u64, idle: u64, before: u32, after: u32| {
        let mut sender = Sender::with(&settings(), 250, Some(micros(rtt)));
        sender.send(1).wait(ms(40)).ack(1, &[]);
        sender.set_window(before);
        sender.wait(ms(idle - 40)).before_transmit();
        assert_eq!(sender.cwnd(), after, "{name}");
    };
    check("C9", 40_200, 300, 1286, 643);
    check("C10", 44_500, 600, 1334, 333);
    check("C11", 40_200, 1000, 1024, 64);
    check("C12", 40_200, 2000, 755, 10);
    check("C13", 40_200, 100, 755, 755);
}

#[test]
fn an_unused_window_shrinks_after_a_timeout() {
    let mut sender = Sender::new();
    sender.set_window(40);
    sender.recovery.window.ssthresh = 40;
    sender.send(4).after_transmit(false);
    sender.wait(ms(40)).ack(4, &[]);
    sender.send(4).wait(ms(201)).after_transmit(false);
    assert_eq!(sender.cwnd(), 40, "the ACK began the time anew");
    sender.wait(ms(40)).after_transmit(false);
    assert_eq!(sender.cwnd(), 25, "C14");
    assert_eq!(sender.recovery.window().ssthresh, 40);

    let mut sender = Sender::new();
    sender.set_window(40);
    sender.recovery.window.ssthresh = 40;
    sender.send(4).wait(ms(241)).after_transmit(true);
    assert_eq!(sender.cwnd(), 40, "a writer waits for room");
}

#[test]
fn slow_start_grows_only_where_the_window_is_used() {
    let grown = |packets: u64| {
        let mut sender = Sender::new();
        sender.send(packets).after_transmit(false);
        sender.wait(ms(40)).ack(1, &[]);
        sender.cwnd()
    };
    assert_eq!((grown(6), grown(5)), (11, 10), "C4");
}

#[test]
fn three_sacked_segments_begin_a_recovery_that_prr_carries() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40));
    assert_eq!(sender.ack(0, &[(1, 2)]).delivered, 1);
    assert_eq!(sender.state(), CongestionState::Disorder);
    sender.ack(0, &[(1, 3)]);
    assert_eq!((sender.recovery.lost(), sender.retransmit(1)), (0, vec![]));
    let outcome = sender.ack(0, &[(1, 4)]);
    assert_eq!((outcome.lost, sender.recovery.take_cwr()), (1, true));
    assert_eq!(sender.state(), CongestionState::Recovery);
    assert_eq!(sender.recovery.window().ssthresh, 5);
    assert_eq!(sender.retransmit(1), [0]);
    // Everything arrives: the window ends at the threshold.
    sender.wait(ms(40)).ack(10, &[]);
    assert_eq!((sender.state(), sender.cwnd()), (CongestionState::Open, 5));
    assert_eq!(sender.recovery.packets_out(), 0);
    assert_eq!(sender.recovery.deadline(), None);
}

#[test]
fn every_detection_repairs_every_pattern_of_one_lost_flight() {
    use Detection::{DupSack, NewReno, Rack};
    for detection in [Rack, DupSack, NewReno] {
        for prr in [true, false] {
            for lost in 0..1_u64 << 10 {
                check_repair(detection, prr, lost);
            }
        }
    }
}

/// Sends 10 segments of which those in `lost` are lost, once; ACKs come in order, 40 ms later.
fn check_repair(detection: Detection, prr: bool, lost: u64) {
    let mut sender = Sender::changed(|settings| {
        settings.recovery.detection = detection;
        settings.recovery.prr = prr;
    });
    let case = std::format!("{detection:?}, prr {prr}, lost {lost:b}");
    sender.send(10).wait(ms(40));
    let mut has: Vec<bool> = (0..10).map(|n| lost & 1 << n == 0).collect();
    let mut arrivals: Vec<u64> = (0..10).filter(|&n| has[n as usize]).collect();
    has.fill(false);
    for round in 0..60 {
        for segment in core::mem::take(&mut arrivals) {
            has[segment as usize] = true;
            let una = has.iter().take_while(|&&has| has).count() as u64;
            let blocks: Vec<_> = (una..10)
                .filter(|&n| has[n as usize])
                .map(|n| (n, n + 1))
                .collect();
            sender.ack(una, &blocks);
            assert!(sender.cwnd() <= 20, "{case}");
            arrivals.extend(sender.retransmit(round));
        }
        if has.iter().all(|&has| has) && arrivals.is_empty() {
            assert_eq!(sender.recovery.packets_out(), 0, "{case}");
            assert_eq!(sender.recovery.in_flight(), 0, "{case}");
            return;
        }
        if arrivals.is_empty() {
            let (at, timer) = sender.recovery.deadline().expect("something is out");
            sender.now = sender.now.max(at);
            match timer {
                RecoveryTimer::Retransmit => sender.recovery.on_retransmit_timeout(sender.now),
                RecoveryTimer::Reorder => sender.recovery.on_reorder_timeout(sender.now),
                RecoveryTimer::LossProbe => {
                    if let Probe::NewOr { start, end } =
                        sender.recovery.on_probe_timeout(sender.now, MSS)
                    {
                        sender.recovery.on_retransmit(
                            sender.now,
                            (start, end),
                            MSS,
                            (sender.now, round),
                        );
                        arrivals.push((start - 1) / u64::from(MSS));
                    }
                }
            }
            arrivals.extend(sender.retransmit(round));
        }
        sender.wait(ms(40));
    }
    panic!("{case} was not repaired: {:?}", sender.recovery);
}

#[test]
fn a_timeout_marks_everything_and_begins_with_one_packet() {
    let mut sender = Sender::new();
    sender.send(10).after_transmit(false);
    sender.next_timer();
    sender.next_timer();
    assert_eq!(sender.state(), CongestionState::Loss);
    assert_eq!((sender.recovery.lost(), sender.cwnd()), (10, 1));
    assert_eq!(sender.recovery.window().ssthresh, 5);
    assert_eq!(sender.retransmit(1), [0]);
    assert_eq!(
        (sender.recovery.timeouts(), sender.recovery.backoff()),
        (1, 1)
    );
    sender.wait(ms(40)).ack(1, &[]);
    assert_eq!(sender.recovery.timeouts(), 0);
    assert_eq!(sender.retransmit(2), [1, 2], "slow start");
}

#[test]
fn frto_sends_new_data_and_restores_the_window() {
    let mut sender = Sender::changed(|s| s.recovery.tail_loss_probe = false);
    sender.send(10).after_transmit(false);
    sender.next_timer();
    assert_eq!(sender.retransmit(1), [0]);
    // The ACK of the first segment only was late: new data instead of retransmissions.
    sender.wait(ms(5));
    let input = AckInput {
        has_new_data: true,
        ..sender.input(1, &[])
    };
    sender.recovery.on_ack(&input);
    assert_eq!(sender.recovery.poll_retransmit(u32::MAX, MSS), None);
    assert!(sender.recovery.allowance() >= 2);
    sender.send(2);
    // The next one acknowledges what was sent once only: nothing was lost.
    sender.wait(ms(5)).ack(2, &[]);
    assert_eq!(sender.state(), CongestionState::Open);
    assert_eq!(sender.cwnd(), 11, "the old window, and this ACK");
    assert_eq!(sender.recovery.lost(), 0);
    assert_eq!(sender.recovery.stats().spurious_timeouts, 1);
}

#[test]
fn frto_falls_back_where_the_loss_was_real() {
    let mut sender = Sender::changed(|s| s.recovery.tail_loss_probe = false);
    sender.send(10).after_transmit(false);
    sender.next_timer();
    sender.retransmit(1);
    sender.wait(ms(40));
    let input = AckInput {
        has_new_data: true,
        ..sender.input(1, &[])
    };
    sender.recovery.on_ack(&input);
    sender.send(1).wait(ms(40)).ack(1, &[(10, 11)]);
    assert_eq!(sender.state(), CongestionState::Loss);
    assert!(sender.retransmit(2).starts_with(&[1]));
}

/// Linux `tcp_try_undo_recovery`: the reordering window is narrow again after 16 recoveries that
/// were right.
#[test]
fn a_recovery_that_is_taken_back_keeps_the_reordering_window_wide() {
    let mut sender = Sender::new();
    sender.recovery.rack.on_dsack();
    sender.recovery.rack.adapt(Some(0), 1);
    for round in 0..16 {
        let una = 10 * round;
        sender.send(10).wait(ms(40)).ack(una, &[(una + 1, una + 4)]);
        assert_eq!(sender.retransmit(70), [una]);
        let is_late = round == 7;
        sender.wait(if is_late { ms(1) } else { ms(40) });
        let input = AckInput {
            timestamp_echo: is_late.then_some(69),
            ..sender.input(una + 10, &[])
        };
        sender.recovery.on_ack(&input);
        assert_eq!(sender.state(), CongestionState::Open);
    }
    sender.send(1).wait(ms(40)).ack(161, &[]);
    let window = sender.recovery.rack.reorder_window(&ReorderInput {
        reordering_seen: true,
        is_recovering: false,
        sacked: 0,
        threshold: 3,
        min_rtt: Some(ms(40)),
        srtt: Some(ms(40)),
    });
    assert_eq!(window, ms(20));
}

#[test]
fn an_old_echo_takes_the_recovery_back() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40)).ack(0, &[(1, 4)]);
    assert_eq!(sender.retransmit(70), [0]);
    sender.wait(ms(1));
    let input = AckInput {
        timestamp_echo: Some(69),
        ..sender.input(10, &[])
    };
    sender.recovery.on_ack(&input);
    assert_eq!((sender.state(), sender.cwnd()), (CongestionState::Open, 10));
    assert_eq!(sender.recovery.stats().undos, 1);

    let mut sender = Sender::changed(|s| s.recovery.undo = false);
    sender.send(10).wait(ms(40)).ack(0, &[(1, 4)]);
    sender.retransmit(70);
    let input = AckInput {
        timestamp_echo: Some(69),
        ..sender.input(10, &[])
    };
    sender.recovery.on_ack(&input);
    assert_eq!(sender.cwnd(), 5, "it is off");
}

#[test]
fn a_reported_duplicate_takes_the_recovery_back() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40)).ack(0, &[(1, 4)]);
    assert_eq!(sender.retransmit(70), [0]);
    sender.wait(ms(1)).ack(5, &[]);
    sender.wait(ms(40)).ack(6, &[(0, 1)]);
    assert_eq!(sender.recovery.stats().dsacks, 1);
    assert_eq!(sender.cwnd(), 10);
}

#[test]
fn an_acknowledged_probe_that_repaired_a_loss_reduces_once() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40)).ack(9, &[]);
    let (timer, _) = sender.next_timer();
    assert_eq!(timer, RecoveryTimer::LossProbe);
    sender.send(1);
    let before = sender.cwnd();
    sender.wait(ms(40)).ack(11, &[]);
    assert_eq!(sender.recovery.stats().tlp_recoveries, 1);
    assert_eq!(sender.cwnd(), before / 2);
    assert_eq!(sender.state(), CongestionState::Open);
}

#[test]
fn a_probe_of_new_data_or_a_reported_duplicate_reduces_nothing() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40)).ack(9, &[]);
    sender.next_timer();
    let before = sender.cwnd();
    sender.wait(ms(40)).ack(10, &[(9, 10)]);
    assert_eq!(
        (sender.cwnd(), sender.recovery.stats().tlp_recoveries),
        (before, 0)
    );
}

#[test]
fn marks_reduce_once_per_window() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40));
    for acked in 1..=10 {
        let input = AckInput {
            ece: true,
            ..sender.input(acked, &[])
        };
        sender.recovery.on_ack(&input);
        assert_eq!(sender.recovery.take_cwr(), acked == 1);
    }
    assert_eq!(sender.recovery.stats().ecn_reductions, 1);
    assert_eq!(sender.recovery.window().ssthresh, 5);
    assert_eq!(sender.state(), CongestionState::Cwr);
}

#[test]
fn reordering_waits_a_quarter_of_the_round_trip() {
    let mut sender = Sender::new();
    sender
        .send(1)
        .wait(ms(1))
        .send(1)
        .wait(ms(39))
        .ack(0, &[(1, 2)]);
    // The second took 39 ms; the first has a quarter of that more, and the timer adds 2 ms.
    let (timer, wait) = sender.next_timer();
    assert_eq!(
        (timer, wait),
        (
            RecoveryTimer::Reorder,
            micros(39_000 + 9_750 - 40_000 + 2_000)
        )
    );
    assert_eq!(
        (sender.state(), sender.retransmit(1)),
        (CongestionState::Recovery, vec![0])
    );
}

#[test]
fn packets_that_overtake_each_other_widen_the_tolerance() {
    let mut sender = Sender::new();
    sender.set_window(40);
    sender.send(30).wait(ms(40)).ack(0, &[(9, 10)]);
    sender.ack(0, &[(1, 2), (9, 10)]);
    sender.ack(9, &[(9, 10)]);
    assert_eq!(sender.recovery.reordering(), 10);
    assert_eq!(sender.recovery.stats().reordering_seen, 2);
}

#[test]
fn reneging_is_found_and_everything_sent_again() {
    let mut sender = Sender::new();
    sender.send(10).wait(ms(40)).ack(0, &[(1, 4)]);
    sender.retransmit(1);
    // It takes 0, and says that it never had 1.
    sender.wait(ms(40)).ack(1, &[]);
    let (timer, wait) = sender.next_timer();
    assert_eq!((timer, wait), (RecoveryTimer::Retransmit, ms(20)));
    assert_eq!(sender.recovery.stats().renegings, 1);
    assert_eq!((sender.recovery.sacked(), sender.recovery.lost()), (0, 9));
    assert!(sender.retransmit(2).starts_with(&[1]));
}

#[test]
fn without_sack_duplicates_count_and_partial_acks_go_on() {
    let mut sender = Sender::changed(|s| s.options.sack = false);
    sender.send(10).wait(ms(40));
    for count in 1..=3 {
        assert!(sender.ack(0, &[]).is_duplicate);
        let expected = if count < 3 {
            CongestionState::Disorder
        } else {
            CongestionState::Recovery
        };
        assert_eq!(sender.state(), expected);
    }
    assert_eq!(sender.retransmit(1), [0]);
    assert_eq!(
        sender.ack(5, &[]).lost,
        1,
        "a partial ACK shows the next hole"
    );
    assert_eq!(sender.retransmit(2), [5]);
    sender.wait(ms(40)).ack(10, &[]);
    assert_eq!(
        sender.state(),
        CongestionState::Recovery,
        "until something above is acknowledged"
    );
    sender.send(1).wait(ms(40)).ack(11, &[]);
    assert_eq!(sender.state(), CongestionState::Open);
}

#[test]
fn limited_transmit_is_a_setting() {
    let allowance = |limited_transmit: bool| {
        let mut sender = Sender::changed(|s| s.recovery.limited_transmit = limited_transmit);
        sender.send(10).wait(ms(40)).ack(0, &[(1, 3)]);
        sender.recovery.allowance()
    };
    assert_eq!((allowance(true), allowance(false)), (2, 0));
}

#[test]
fn a_lost_mtu_probe_is_no_congestion() {
    let mut sender = Sender::new();
    let probe = (offset(0), offset(0) + 1400);
    sender.recovery.on_transmit(sender.now, probe, 0, false);
    assert_eq!(sender.recovery.packets_out(), 1);
    let data = (probe.1, probe.1 + 9000);
    sender.recovery.on_transmit(sender.now, data, MSS, false);
    sender.wait(ms(40));
    let input = sender.input(0, &[]);
    sender.recovery.on_ack(&AckInput {
        sack: &[(data.0, data.0 + 4000)],
        ..input
    });
    assert_eq!(sender.state(), CongestionState::Recovery);
    sender
        .recovery
        .on_mtu_probe_lost(sender.now, probe.0, probe.1);
    assert_eq!(sender.cwnd(), 10);
    assert_eq!(sender.recovery.poll_retransmit(u32::MAX, MSS), Some(probe));
}

#[test]
fn hostile_acks_change_nothing() {
    let mut sender = Sender::new();
    sender.send(3).wait(ms(40));
    let input = AckInput {
        ack: u64::MAX,
        ..sender.input(0, &[])
    };
    assert_eq!(sender.recovery.on_ack(&input).acked_bytes, 0);
    sender.ack(0, &[(50, 60), (5, 2)]);
    assert_eq!(sender.recovery.stats().sack_rejected, 2);
    assert_eq!((sender.recovery.una(), sender.recovery.in_flight()), (1, 3));
}

#[test]
fn a_handshake_that_was_retransmitted_begins_small() {
    let cwnd = |retransmitted: u32| {
        let mut sender = Sender::new();
        sender
            .recovery
            .on_established(sender.now, None, retransmitted);
        sender.cwnd()
    };
    assert_eq!((cwnd(0), cwnd(1), cwnd(2)), (10, 10, 1));
}
