//! Traffic and its cost.

use std::fmt::Write as _;
use std::net::SocketAddr;

use base::{Instant, human};
use linux::{Clock, Driver, process_cpu_time};
use serde::Serialize;
use stack::Host;

use super::super::ports::Ports;

/// Connections that are shown one by one.
const SHOWN: usize = 5;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    duration_s: f64,
    accepted: u64,
    open: usize,
    received_bytes: u64,
    sent_bytes: u64,
    segments_in: u64,
    segments_out: u64,
    resets_sent: u64,
    cookies_sent: u64,
    not_for_us: u64,
    #[serde(rename = "loop")]
    loop_: Loop,
    busiest: Vec<Busy>,
    /// State of the pool, where the stack has one.
    pool: Option<Pool>,
}

/// The shared buffers: the first thing to look at where a host with a pool is slow.
#[derive(Debug, Serialize)]
struct Pool {
    buffers: u32,
    free: u32,
    /// Least that were ever free.
    low_watermark: u32,
    /// Times that a buffer was wanted and none was free.
    refused: u64,
    /// Most first.
    held_by: Vec<Holder>,
}

#[derive(Debug, Serialize)]
struct Holder {
    remote: Option<SocketAddr>,
    /// Buffers of data that it sent and that was not acknowledged.
    received: u32,
    /// Buffers with what it has not acknowledged.
    sent: u32,
    /// Since anything came from it.
    silent_s: Option<f64>,
}

/// Counters of the driver. A GSO packet counts as one packet.
#[derive(Debug, Serialize)]
struct Loop {
    cpu_s: Option<f64>,
    cpu_us_per_packet: Option<f64>,
    packets_read: u64,
    packets_written: u64,
    packets_ignored: u64,
    packets_lost: u64,
    turns: u64,
    sleeps: u64,
    /// Share of its awake time spent in reads and writes of the device.
    device_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Busy {
    remote: Option<SocketAddr>,
    received_bytes: u64,
    sent_bytes: u64,
    /// The limit of the sender.
    limit: Option<&'static str>,
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Report {
    pub(super) fn new(driver: &Driver<Ports>, began: Instant) -> Self {
        let now = Clock.now();
        let (host, app) = (driver.host(), driver.app());
        let counters = host.counters();
        let (received_bytes, sent_bytes) = app.carried();
        let mut busiest: Vec<Busy> = app
            .connections()
            .map(|(id, received_bytes, sent_bytes)| Busy {
                remote: host.remote_addr(id),
                received_bytes,
                sent_bytes,
                limit: host.limit(now, id).map(|wait| wait.limit.name()),
            })
            .collect();
        let open = busiest.len();
        busiest.sort_by_key(|busy| std::cmp::Reverse(busy.received_bytes + busy.sent_bytes));
        busiest.truncate(SHOWN);
        Self {
            duration_s: now.since(began).as_secs_f64(),
            accepted: app.accepted(),
            open,
            received_bytes,
            sent_bytes,
            segments_in: counters.segments_in,
            segments_out: counters.segments_out,
            resets_sent: counters.resets_sent,
            cookies_sent: counters.cookies_sent,
            not_for_us: counters.not_for_us,
            loop_: Loop::of(driver),
            busiest,
            pool: Pool::of(host, now),
        }
    }

    pub(super) fn render(&self) -> String {
        let Self {
            duration_s: _,
            accepted,
            open,
            received_bytes,
            sent_bytes,
            segments_in,
            segments_out,
            resets_sent,
            cookies_sent,
            not_for_us,
            loop_,
            busiest,
            pool,
        } = self;
        let (received, sent) = (human::bytes(*received_bytes), human::bytes(*sent_bytes));
        let mut text = format!(
            "carried: received {received} in {segments_in} segments, sent {sent} in \
             {segments_out}\nconnections: {accepted} accepted, {open} open; {resets_sent} resets \
             and {cookies_sent} SYN cookies sent, {not_for_us} packets for others\n"
        );
        if let Some(pool) = pool {
            pool.render(&mut text);
        }
        loop_.render(&mut text);
        for busy in busiest {
            let remote = busy.remote.map_or("-".into(), |remote| remote.to_string());
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "  {remote}: received {}, sent {}; limit {}",
                human::bytes(busy.received_bytes),
                human::bytes(busy.sent_bytes),
                busy.limit.unwrap_or("-"),
            );
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl Pool {
    fn of(host: &Host, now: Instant) -> Option<Self> {
        let pool = host.pool();
        let mut held_by: Vec<Holder> = pool
            .by_owner
            .iter()
            .map(|owner| {
                let flow = host.sample(now, owner.socket);
                let since = flow.and_then(|flow| {
                    let since = [flow.since_data_received, flow.since_ack_received];
                    since.into_iter().flatten().min()
                });
                Holder {
                    remote: host.remote_addr(owner.socket),
                    received: owner.received,
                    sent: owner.sent,
                    silent_s: since.map(|since| since.as_secs_f64()),
                }
            })
            .collect();
        held_by.sort_by_key(|holder| std::cmp::Reverse(holder.received + holder.sent));
        held_by.truncate(SHOWN);
        (pool.buffers > 0).then_some(Self {
            buffers: pool.buffers,
            free: pool.free,
            low_watermark: pool.low_watermark,
            refused: pool.refused,
            held_by,
        })
    }

    fn render(&self, text: &mut String) {
        let Self {
            buffers,
            free,
            low_watermark,
            refused,
            held_by,
        } = self;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "pool: {free} of {buffers} buffers free, {low_watermark} at least; {refused} times none \
             was"
        );
        for holder in held_by {
            let remote = holder
                .remote
                .map_or("-".into(), |remote| remote.to_string());
            let silent = holder
                .silent_s
                .map_or_else(String::new, |silent| format!("; silent for {silent:.0} s"));
            let _ = writeln!(
                text,
                "  {remote} holds {} with what it sent, {} with what it has not acknowledged{silent}",
                holder.received, holder.sent
            );
        }
    }
}

impl Loop {
    fn of(driver: &Driver<Ports>) -> Self {
        let stats = driver.stats();
        let port = stats.port;
        let cpu_s = process_cpu_time(std::process::id()).map(|time| time.as_secs_f64());
        let packets = (port.reads + port.writes) as f64;
        Self {
            cpu_s,
            cpu_us_per_packet: cpu_s.and_then(|cpu_s| ratio(cpu_s * 1e6, packets)),
            packets_read: port.reads,
            packets_written: port.writes,
            packets_ignored: port.ignored,
            packets_lost: port.lost,
            turns: stats.turns,
            sleeps: stats.sleeps,
            device_share: ratio(stats.timed_device.as_secs_f64(), stats.timed.as_secs_f64()),
        }
    }

    fn render(&self, text: &mut String) {
        let per_turn = ratio(self.packets_read as f64, self.turns as f64).unwrap_or_default();
        let cpu = match (self.cpu_s, self.cpu_us_per_packet) {
            (Some(cpu_s), Some(each)) => format!("{cpu_s:.2} s of CPU time, {each:.1} us a packet"),
            _ => "CPU time unknown".into(),
        };
        let device = self.device_share.map_or("-".into(), human::share);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "device: {} packets read ({} ignored), {} written ({} lost)\nloop: {cpu}; {} turns, \
             {per_turn:.1} packets read in each, {} sleeps; {device} of the time in the device",
            self.packets_read,
            self.packets_ignored,
            self.packets_written,
            self.packets_lost,
            self.turns,
            self.sleeps,
        );
    }
}
