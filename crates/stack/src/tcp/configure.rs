//! Settings that change while the connection runs.

use base::Instant;
use base::settings::SocketSettings;

use super::{Connection, State};
use crate::Arc;
use crate::host::Shared;

impl Connection {
    /// Changes settings. What acts only in the handshake no longer has an effect.
    pub(crate) fn configure(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        change: impl FnOnce(&mut SocketSettings),
    ) {
        let before = Arc::clone(&self.settings);
        change(Arc::make_mut(&mut self.settings));
        if self.linux().is_some() && self.state.is_synchronized() {
            // Linux reads `TCP_MAXSEG` only when SYNs are sent and received.
            Arc::make_mut(&mut self.settings).options.mss = before.options.mss;
        }
        if self.settings == before {
            self.settings = before;
            return;
        }
        let settings = &self.settings;
        self.send.configure(settings);
        self.recv.configure(now, settings);
        self.recovery.configure(settings);
        if settings.congestion.name != before.congestion.name
            || settings.congestion.hystart != before.congestion.hystart
        {
            let controller = shared.controller(self.remote(), &settings.congestion);
            self.recovery.set_congestion(now, controller);
        }
        self.size.configure(now, &settings.path);
        if before.options.mss != settings.options.mss {
            self.resize();
        }
        if before.life.keepalive != self.settings.life.keepalive {
            self.rearm_keepalive(now, shared, before.life.keepalive.is_some());
        }
        if before.life.user_timeout != self.settings.life.user_timeout && self.linux().is_some() {
            // It ends nothing before the next timeout or probe.
            self.awaits_timeout = self.stall.is_begun();
        }
        if self.state != State::Closed {
            self.output(now, shared);
        }
        if before.recv.lowat != self.settings.recv.lowat {
            let is_readable = self.recv.is_readable();
            self.socket.on_lowat(shared, is_readable);
        }
    }

    /// The application asks for immediate ACKs, or no longer (rule 8.7).
    pub(crate) fn set_quickack(&mut self, now: Instant, shared: &mut Shared, value: u32) {
        self.recv.set_quickack(now, value);
        if self.state != State::Closed {
            self.output(now, shared);
        }
    }
}
