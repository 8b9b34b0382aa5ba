//! Presets: changes of a profile's settings for a kind of traffic.
//!
//! Each acts on settings of whatever profile, and on an open connection through
//! [`Host::configure`](crate::Host::configure).

use base::settings::{Accounting, Nagle, Push, SocketSettings};

/// Payload of a buffer where the profile does not count in buffers: the MSS of Ethernet.
const PAYLOAD_BYTES: u32 = 1460;

/// Bulk transfer (NB1, NB35): as much data per packet as possible. Nagle on, and no partial segment
/// before the application turns push on again or closes.
pub const fn bulk(settings: &mut SocketSettings) {
    nagle_on(settings);
    settings.small_writes.push = Push::Never;
    settings.small_writes.cork = false;
}

/// A medium setting for both (NB2): Nagle on, each write is pushed.
pub const fn balanced(settings: &mut SocketSettings) {
    nagle_on(settings);
    push_on(settings);
    settings.small_writes.cork = false;
}

/// Data leaves as soon as there is any, even one byte (NB1, NB34).
pub const fn interactive(settings: &mut SocketSettings) {
    settings.small_writes.nagle = Nagle::Off;
    push_on(settings);
    settings.small_writes.cork = false;
}

/// `buffers` packet buffers each for receiving, for data not yet sent and for data not yet
/// acknowledged; on a lossy network all but one of the receive buffers may hold data out of order,
/// otherwise as many as the profile says (NB18 to NB23, NB64). Limited to what the profile allows
/// (5 to 43).
pub fn netburner(settings: &mut SocketSettings, buffers: u32, lossy: bool) {
    let payload_bytes = match settings.recv.accounting {
        Accounting::Buffers { payload_bytes } => payload_bytes,
        Accounting::Payload | Accounting::Truesize { .. } => PAYLOAD_BYTES,
    };
    let bytes = buffers.saturating_mul(payload_bytes);
    let allowed = |min: u32, max: u32| bytes.max(min).min(max);
    let send_bytes = allowed(settings.send.buffer.min, settings.send.buffer.request_max);
    let recv_bytes = allowed(settings.recv.buffer.min, settings.recv.buffer.request_max);
    settings.send.buffer.fixed = Some(send_bytes);
    settings.send.unacked_budget = Some(send_bytes);
    settings.recv.buffer.fixed = Some(recv_bytes);
    if lossy {
        // NB20.
        settings.recv.out_of_order_budget = Some(recv_bytes.saturating_sub(payload_bytes));
    }
}

/// The variant of Nagle's algorithm that the settings' stack has.
const fn nagle_on(settings: &mut SocketSettings) {
    if matches!(settings.small_writes.nagle, Nagle::Off) {
        settings.small_writes.nagle = settings.usual_nagle();
    }
}

const fn push_on(settings: &mut SocketSettings) {
    if matches!(settings.small_writes.push, Push::Never) {
        settings.small_writes.push = Push::EachWrite;
    }
}
