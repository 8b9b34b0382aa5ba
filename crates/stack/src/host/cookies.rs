//! Stateless handshakes (SYN cookies, RFC 4987 section 3.6): everything known from the SYN is in
//! the sequence number and the timestamp of the SYN-ACK.

use alloc::boxed::Box;
use core::net::SocketAddr;

use base::Instant;
use base::settings::{Ecn, SizeRule};
use base::tcp::TcpFlags;

use super::{Host, SocketId};
use crate::Arc;
use crate::cookie::{CookieOptions, decode_options, encode_options};
use crate::packet::{EcnMark, Packet, Segment, SegmentOptions, Timestamps, option_bytes};
use crate::recv::Receiver;
use crate::tcp::Connection;

/// What Linux remembers of a peer's MSS over IPv4 (`msstab`): the largest of these that is not
/// larger, or the smallest.
const LINUX_MSS: [u16; 4] = [1460, 1440, 1300, 536];

fn linux_mss(mss: u16) -> u16 {
    let is_known = |known: &u16| *known <= mss;
    LINUX_MSS.into_iter().find(is_known).unwrap_or(536)
}

impl Host {
    /// Answers a SYN without keeping state.
    pub(super) fn send_cookie(
        &mut self,
        now: Instant,
        id: SocketId,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Segment,
    ) {
        let Some(listener) = self.sockets.listener(id) else {
            return;
        };
        listener.cookie_sent = Some(now);
        let settings = Arc::clone(&listener.settings);
        let own = &settings.options;
        let headers = if local.is_ipv4() { 40 } else { 60 };
        let mss = self.shared.mtu.saturating_sub(headers);
        let bounds = own.mss.into_iter().chain(own.advmss);
        let mss = bounds.fold(mss, u16::min);
        let timestamps = syn.options.timestamps.filter(|_| own.timestamps);
        let options = CookieOptions {
            window_scale: syn.options.window_scale.filter(|_| own.window_scaling),
            sack: own.sack && syn.options.sack_permitted,
            ecn: own.ecn != Ecn::Off
                && syn.flags.contains(TcpFlags::ECE)
                && syn.flags.contains(TcpFlags::CWR),
        };
        let mut receiver = Receiver::new(&settings, self.shared.tick);
        // Of segments as they will come.
        let segment = u32::from(mss)
            .saturating_sub(option_bytes(timestamps.is_some()))
            .max(1);
        let window = receiver.first_window(segment).min(u32::from(u16::MAX)) as u16;
        let peer_mss = syn.options.mss.filter(|mss| *mss > 0);
        let peer_mss = peer_mss.unwrap_or(own.default_mss);
        let is_linux = matches!(settings.recv.buffer.rule, SizeRule::Linux(_));
        let peer_mss = match is_linux && local.is_ipv4() {
            true => linux_mss(peer_mss),
            false => peer_mss,
        };
        let offset = self.isn.timestamp_offset(local.ip(), remote.ip());
        let clock = (now.as_nanos() / 1_000_000) as u32;
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        // Without timestamps nothing but the MSS is remembered, so nothing else is agreed.
        let agreed = timestamps.map(|_| options).unwrap_or_default();
        if agreed.ecn {
            flags |= TcpFlags::ECE;
        }
        let answer = Segment {
            source_port: local.port(),
            destination_port: remote.port(),
            seq: self.cookies.make(now, local, remote, syn.seq, peer_mss),
            ack: syn.seq + 1,
            flags,
            window,
            options: SegmentOptions {
                mss: Some(mss),
                window_scale: agreed.window_scale.map(|_| receiver.window_scale()),
                sack_permitted: agreed.sack,
                timestamps: timestamps.map(|peer| Timestamps {
                    value: encode_options(clock, options).wrapping_add(offset),
                    echo: peer.value,
                }),
                sack: None,
            },
            ..Segment::default()
        };
        self.shared.counters.cookies_sent += 1;
        let packet = Packet::of_segment(local.ip(), remote.ip(), answer);
        self.shared.transmit(now, None, Box::new(packet));
    }

    /// An ACK for a listener: the answer to a cookie, or invalid.
    pub(super) fn handle_cookie(
        &mut self,
        now: Instant,
        id: SocketId,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment,
    ) {
        let Some(listener) = self.sockets.listener(id) else {
            return;
        };
        let is_wanted = listener.expects_cookie(now);
        let is_full = listener.is_accept_queue_full();
        let mss = is_wanted
            .then(|| {
                let (peer_isn, ack) = (segment.seq - 1, segment.ack);
                self.cookies.check(now, local, remote, peer_isn, ack)
            })
            .flatten();
        let Some(mss) = mss.filter(|_| self.has_room()) else {
            self.shared.counters.cookies_failed += u64::from(is_wanted);
            self.shared.reset_in_reply(now, local, remote, segment);
            return;
        };
        if is_full {
            // The peer retransmits its data, and by then a place in the accept queue may be free.
            self.shared.counters.accept_overflows += 1;
            return;
        }
        self.shared.counters.cookies_accepted += 1;
        let syn = self.remembered_syn(local, remote, segment, mss);
        let iss = segment.ack - 1;
        self.open_half(
            now,
            id,
            (local, remote, iss),
            &syn,
            Connection::accept_cookie,
        );
        self.handle_segment(now, local, remote, &mut segment.clone(), EcnMark::NotEct);
    }

    /// The SYN as far as cookie and timestamp remember it.
    fn remembered_syn(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment,
        mss: u16,
    ) -> Segment {
        let offset = self.isn.timestamp_offset(local.ip(), remote.ip());
        let timestamps = segment.options.timestamps;
        let options = timestamps
            .map(|stamps| decode_options(stamps.echo.wrapping_sub(offset)))
            .unwrap_or_default();
        let mut flags = TcpFlags::SYN;
        if options.ecn {
            flags |= TcpFlags::ECE | TcpFlags::CWR;
        }
        Segment {
            seq: segment.seq - 1,
            flags,
            window: segment.window,
            options: SegmentOptions {
                mss: Some(mss),
                window_scale: options.window_scale,
                sack_permitted: options.sack,
                timestamps,
                sack: None,
            },
            ..Segment::default()
        }
    }
}
