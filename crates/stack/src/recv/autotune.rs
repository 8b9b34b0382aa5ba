//! Automatic sizing of the receive buffer: Linux's dynamic right-sizing by version, and the three
//! rules of `FreeBSD`.
//!
//! Decides from what the application reads (Linux) or what arrives (`FreeBSD`) within a round-trip
//! time. Linux estimates that time itself, as a host that only receives has no other samples.

use core::time::Duration;

use base::Instant;
use base::settings::{LinuxVersion, SizeRule};

use super::accounting::Buffer;
use super::window::Window;

/// Longest measurement of the 2006 rule.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Round-trip time below which Linux 6.19 grows more slowly (`tcp_rcvbuf_low_rtt`), in us.
const LOW_RTT_MICROS: u64 = 1000;

/// Longest plausible round-trip time, about 1.6 days (microseconds).
const MICROS_MAX: u128 = 1 << 37;

/// State of automatic sizing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotune {
    rule: SizeRule,
    /// Estimate of the round-trip time in 1/8 us; 0: none.
    rtt: u64,
    /// End of the window at the start of the present measurement, as offset, and that start.
    mark: Option<(u64, Instant)>,
    last_echo: Option<u32>,
    /// Linux: bytes read in the last period, its begin as offset and as time.
    space: u32,
    period_start: u64,
    period_at: Instant,
    /// `FreeBSD`: start of the measurement, and bytes since.
    interval_at: Option<Instant>,
    interval_bytes: u32,
}

/// Input to a growth rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The next byte to be read.
    pub(super) read: u64,
    /// Bytes that wait to be read.
    pub(super) unread: u64,
    /// Bytes up to the end of what is kept out of order.
    pub(super) span: u64,
}

impl Autotune {
    pub(super) const fn new(rule: SizeRule) -> Self {
        Self {
            rule,
            rtt: 0,
            mark: None,
            last_echo: None,
            space: 0,
            period_start: 1,
            period_at: Instant::ZERO,
            interval_at: None,
            interval_bytes: 0,
        }
    }

    pub(super) const fn set_rule(&mut self, rule: SizeRule) {
        self.rule = rule;
    }

    /// The handshake is done (rule 3.2; Linux `tcp_init_buffer_space`).
    pub(super) fn establish(&mut self, now: Instant, window: &Window) {
        self.space = window
            .threshold()
            .min(window.first())
            .min(10 * window.mss());
        self.period_at = now;
    }

    /// The window sampler (rule 4.1; Linux `tcp_rcv_rtt_measure`).
    pub(super) fn on_in_order(&mut self, now: Instant, next: u64, offered: u32) {
        if let Some((offset, since)) = self.mark {
            if next < offset {
                return;
            }
            let micros = now.since(since).as_micros().min(MICROS_MAX) as u64;
            self.sample_by_window(micros.max(1));
        }
        self.mark = Some((next + u64::from(offered), now));
    }

    fn sample_by_window(&mut self, micros: u64) {
        if self.rtt == 0 || 8 * micros < self.rtt {
            self.rtt = 8 * micros;
        }
    }

    /// Whether [`Autotune::on_echo`] or [`Autotune::on_fast_path`] does anything with this one.
    #[inline]
    pub(super) fn measures_echo(&self, echo: u32) -> bool {
        self.last_echo != Some(echo) || self.goes_by_arrival()
    }

    /// The timestamp sampler (rule 4.1; Linux `tcp_rcv_rtt_measure_ts`) for a full segment.
    pub(super) fn on_echo(&mut self, echo: u32, rtt: Duration, has_unread: bool) {
        if self.last_echo.replace(echo) == Some(echo) {
            return;
        }
        let micros = rtt.as_micros().min(MICROS_MAX) as u64;
        if micros == 0 {
            return;
        }
        if self.rtt == 0 || 8 * micros < self.rtt {
            self.rtt = 8 * micros;
        } else if !(has_unread && self.linux().is_some_and(|it| it >= LinuxVersion::V6_16)) {
            self.rtt = self.rtt - self.rtt / 8 + micros;
        }
    }

    /// The application took bytes (rule 4.2; Linux `tcp_rcv_space_adjust`). `now`: the time in
    /// 6.12; later the time of the last packet.
    pub(super) fn on_read(
        &mut self,
        now: Instant,
        progress: Progress,
        buffer: &mut Buffer,
        window: &mut Window,
    ) {
        if self.rtt == 0 {
            return;
        }
        let elapsed = now.as_nanos().saturating_sub(self.period_at.as_nanos());
        if elapsed < self.rtt * 125 {
            return;
        }
        let read = progress.read - self.period_start;
        let copied = read.saturating_sub(progress.unread).min(u32::MAX.into()) as u32;
        if copied > self.space {
            self.grow(copied, progress, buffer, window);
        }
        self.period_start = progress.read;
        self.period_at = now;
    }

    /// Data arrived behind a gap: since 6.16 the gap is added to what is wanted.
    pub(super) fn on_out_of_order(
        &mut self,
        progress: Progress,
        buffer: &mut Buffer,
        window: &mut Window,
    ) {
        if self.linux().is_some_and(|it| it >= LinuxVersion::V6_16) {
            self.grow(self.space, progress, buffer, window);
        }
        self.on_slow_path();
    }

    fn grow(&mut self, copied: u32, progress: Progress, buffer: &mut Buffer, window: &mut Window) {
        let before = core::mem::replace(&mut self.space, copied);
        let Some(version) = self.linux() else {
            return;
        };
        if buffer.is_locked() {
            return;
        }
        let wanted = wanted_window(&Wanted {
            version,
            copied,
            before,
            mss: window.mss(),
            rtt: self.rtt,
            span: progress.span,
        });
        if buffer.grow_to(buffer.space_of(wanted)) {
            window.follow_buffer(buffer);
        }
    }

    /// The ratio of window to memory changed: a period cannot have held more than the window.
    pub(super) fn clamp_space(&mut self, clamp: u32) {
        self.space = self.space.min(clamp);
    }

    /// Whether [`Autotune::on_fast_path`] has something to do.
    #[inline]
    pub(super) const fn goes_by_arrival(&self) -> bool {
        !matches!(self.rule, SizeRule::Fixed | SizeRule::Linux(_))
    }

    /// Data arrived in order, without a gap behind it: the rules of `FreeBSD`. `echoed_at`: when
    /// the segment was sent whose timestamp came back.
    pub(super) fn on_fast_path(
        &mut self,
        now: Instant,
        payload: u32,
        echoed_at: Option<Instant>,
        srtt: Option<Duration>,
        buffer: &mut Buffer,
    ) {
        let bytes = u64::from(buffer.bytes());
        let (is_over, threshold, grown) = match self.rule {
            SizeRule::Fixed | SizeRule::Linux(_) => return,
            SizeRule::FreeBsd2006 { step } => {
                let Some(echoed_at) = echoed_at else {
                    return;
                };
                let is_over = self.interval_at.is_some_and(|since| {
                    echoed_at > since && echoed_at.since(since) < INTERVAL_MAX
                });
                (is_over, bytes / 8 * 7, bytes + u64::from(step))
            }
            SizeRule::FreeBsd2017 { step } => {
                let is_over = self.has_lasted(now, srtt);
                (is_over, bytes / 8 * 7, bytes + u64::from(step))
            }
            SizeRule::FreeBsd14 { .. } => {
                let is_over = self.has_lasted(now, srtt.map(|srtt| srtt / 2));
                (is_over, bytes / 2 / 4 * 3, bytes + bytes / 2)
            }
        };
        if !is_over {
            self.interval_bytes = self.interval_bytes.saturating_add(payload);
            return;
        }
        if u64::from(self.interval_bytes) > threshold && !buffer.is_locked() {
            buffer.reserve(grown);
        }
        self.begin_interval();
    }

    /// Whether the measurement has lasted longer than `period`; never, where that is unknown.
    fn has_lasted(&self, now: Instant, period: Option<Duration>) -> bool {
        let lasted = self.interval_at.map(|since| now.since(since));
        lasted
            .zip(period)
            .is_some_and(|(lasted, period)| lasted > period)
    }

    /// A measurement begins with the first packet that is sent.
    pub(super) fn on_segment_sent(&mut self, now: Instant) {
        if self.interval_at.is_none() {
            self.interval_at = Some(now);
        }
    }

    /// Anything but plain data in order ends a measurement of the rule of 2006 (FB18). Later rules
    /// continue and leave it out (`tcp_do_segment` of 2018 resets nothing there).
    pub(super) const fn on_slow_path(&mut self) {
        if matches!(self.rule, SizeRule::FreeBsd2006 { .. }) {
            self.begin_interval();
        }
    }

    const fn begin_interval(&mut self) {
        self.interval_at = None;
        self.interval_bytes = 0;
    }

    /// The estimate of the round-trip time.
    pub(super) fn rtt(&self) -> Option<Duration> {
        (self.rtt > 0).then(|| Duration::from_nanos(self.rtt_nanos()))
    }

    /// The same in nanoseconds; 0: unknown.
    pub(super) const fn rtt_nanos(&self) -> u64 {
        self.rtt * 125
    }

    pub(super) const fn space(&self) -> u32 {
        self.space
    }

    /// The version, where the rule is Linux's.
    pub(super) const fn linux(&self) -> Option<LinuxVersion> {
        match self.rule {
            SizeRule::Linux(version) => Some(version),
            SizeRule::Fixed
            | SizeRule::FreeBsd2006 { .. }
            | SizeRule::FreeBsd2017 { .. }
            | SizeRule::FreeBsd14 { .. } => None,
        }
    }

    #[cfg(test)]
    pub(super) const fn set_for_test(&mut self, rtt: u64, space: u32) {
        self.rtt = rtt;
        self.space = space;
    }

    #[cfg(test)]
    pub(super) const fn rtt_units(&self) -> u64 {
        self.rtt
    }
}

/// Inputs of [`wanted_window`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) version: LinuxVersion,
    /// Bytes read in this period and in the one before.
    pub(super) copied: u32,
    pub(super) before: u32,
    pub(super) mss: u32,
    /// In 1/8 us.
    pub(super) rtt: u64,
    pub(super) span: u64,
}

/// The window that Linux wants the buffer to give (rule 4.3; `tcp_rcv_space_adjust`,
/// `tcp_rcvbuf_grow`).
pub(super) fn wanted_window(wanted: &Wanted) -> u64 {
    let (copied, before) = (u64::from(wanted.copied), u64::from(wanted.before.max(1)));
    let growth = copied.saturating_sub(before);
    let window = 2 * copied;
    match wanted.version {
        LinuxVersion::V6_12 => {
            let window = window + 16 * u64::from(wanted.mss);
            window + 2 * scaled(window, growth, before)
        }
        LinuxVersion::V6_16 => window + wanted.span,
        LinuxVersion::V6_18 => window + 2 * scaled(window, growth, before) + wanted.span,
        LinuxVersion::V6_19 => {
            let micros = wanted.rtt / 8;
            let more = if micros < LOW_RTT_MICROS {
                scaled(window, micros, LOW_RTT_MICROS)
            } else {
                scaled(2 * window, growth, before)
            };
            window + more + wanted.span
        }
    }
}

/// `value` x `numerator` / `denominator`; the quotient is bounded so that sums do not overflow.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    product.min(u128::from(u64::MAX >> 16)) as u64
}
