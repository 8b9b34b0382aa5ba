//! What is seen of a run while it is under way: how its flow goes, and what its sender counts in
//! the time that counts.
//!
//! It only looks, a bounded number of times, and between its looks costs a comparison per step.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{Instant, Limit};
use stack::Host;

use crate::app::Program;
use crate::outcome::{Point, SenderOutcome};
use crate::series::{FlowLook, Series};
use crate::world::{LinkId, NodeId, World};

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) client: NodeId,
    pub(super) server: NodeId,
    /// The one of both that sends what is measured.
    pub(super) sender: NodeId,
    /// The first link in front of the sender, where it is emulated.
    pub(super) link: Option<LinkId>,
    /// Payload goes both ways.
    pub(super) is_two_way: bool,
}

/// The looks at one run.
#[derive(Debug)]
pub(super) struct Course {
    places: Places,
    series: Series,
    next: Instant,
    /// What the sender had counted when the time that counts began.
    begin: Option<Sent>,
    /// What it had counted when that time ended.
    end: Option<Sent>,
    held: BTreeMap<Limit, Duration>,
    rtt_sum_us: u64,
    rtts: u64,
}

/// Data segments of one host.
#[derive(Clone, Copy, Debug)]
struct Sent {
    segments: u64,
    retransmitted: u64,
}

impl Sent {
    fn of(host: &Host) -> Self {
        let counters = host.counters();
        Self {
            segments: counters.data_segments_out,
            retransmitted: counters.segments_retransmitted,
        }
    }
}

impl Course {
    /// Of a run that begins now and takes so long, where that is known.
    pub(super) fn new(places: Places, expected: Option<Duration>) -> Self {
        Self {
            places,
            series: Series::new(Instant::ZERO, expected),
            next: Instant::ZERO,
            begin: None,
            end: None,
            held: BTreeMap::new(),
            rtt_sum_us: 0,
            rtts: 0,
        }
    }

    /// Looks, where it is time for that. To be called after each step.
    pub(super) fn handle_step(&mut self, world: &mut World<Program>) {
        if world.now() >= self.next {
            self.look(world, false);
        }
    }

    /// The last look.
    pub(super) fn finish(
        mut self,
        world: &mut World<Program>,
    ) -> (Vec<Point>, Option<SenderOutcome>) {
        if self.end.is_none() {
            self.look(world, true);
        }
        let end = self
            .end
            .unwrap_or_else(|| Sent::of(world.host(self.places.sender)));
        let sender = self.begin.map(|begin| SenderOutcome {
            data_segments: end.segments - begin.segments,
            retransmitted_segments: end.retransmitted - begin.retransmitted,
            rtt_mean_us: self.rtt_sum_us.checked_div(self.rtts),
        });
        (self.series.points(), sender)
    }

    fn look(&mut self, world: &mut World<Program>, is_last: bool) {
        let now = world.now();
        let span = program(world, self.places.client).measured_span();
        let begins = span.map(|(begin, _)| begin);
        let ends = span.and_then(|(_, end)| end);
        let is_begun = begins.is_some_and(|begin| now >= begin);
        if is_begun && self.begin.is_none() {
            // A run that counts from its first byte on counts what left with it, too.
            self.begin = Some(match program(world, self.places.client).warms_up() {
                true => Sent::of(world.host(self.places.sender)),
                false => Sent {
                    segments: 0,
                    retransmitted: 0,
                },
            });
        }
        let is_over = ends.is_some_and(|end| now >= end);
        if is_over {
            self.end = Some(Sent::of(world.host(self.places.sender)));
        }
        if self.series.is_due(now) || is_over || is_last {
            self.record(world, is_begun);
        }
        self.next = match is_over {
            true => Instant::MAX,
            false => {
                let cuts = [begins.filter(|_| !is_begun), ends];
                let cuts = cuts.into_iter().flatten();
                cuts.fold(self.series.next(), Instant::min)
            }
        };
    }

    fn record(&mut self, world: &mut World<Program>, is_begun: bool) {
        let now = world.now();
        let Places {
            client,
            server,
            sender,
            link,
            is_two_way,
        } = self.places;
        let read = [client, server].map(|node| program(world, node).counts().received_bytes);
        let host = world.host(sender);
        let samples = program(world, sender)
            .sockets()
            .filter_map(|id| host.sample(now, id))
            // One that only receives has a window that says nothing.
            .filter(|sample| sample.data_segs_out != Some(0));
        let samples: Vec<_> = samples.collect();
        let look = FlowLook {
            received_bytes: match is_two_way {
                true => read[0] + read[1],
                // The payload of a workload goes one way; what comes back are answers.
                false => read[0].max(read[1]),
            },
            queue_bytes: link.map(|link| world.link_stats(link).queue_bytes),
            ..FlowLook::of(&samples)
        };
        if let Some(rtt) = look.rtt_us.filter(|_| is_begun) {
            self.rtt_sum_us += rtt;
            self.rtts += 1;
        }
        let held = world.limit_times(sender).held_until(now);
        let before = core::mem::take(&mut self.held);
        let since = |(limit, time): (&Limit, &Duration)| {
            (
                *limit,
                *time - before.get(limit).copied().unwrap_or_default(),
            )
        };
        let longest = held.iter().map(since).max_by_key(|(_, time)| *time);
        self.series
            .push(now, look, longest.filter(|(_, time)| !time.is_zero()));
        self.held = held;
    }
}

fn program(world: &World<Program>, node: NodeId) -> &Program {
    world.app(node).expect("both hosts have a program")
}
