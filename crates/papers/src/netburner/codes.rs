//! The numbers of that system: option bits, error codes, states, ranges (experiments NB15, NB32,
//! NB46, NB47, NB54). The names are those of its public interface.

use base::TcpState;
use stack::{ConnectError, Failure, ListenError, ReadError, WriteError};

/// Option bit: say what happens. It is kept and returned, and does nothing: a trace of the host
/// says it all (see [`stack::Host::set_trace`]).
pub const SO_DEBUG: i32 = 1;
/// Option bit: Nagle's algorithm is off, every byte is sent when available (NB27).
pub const SO_NONAGLE: i32 = 2;
/// Option bit: only full segments leave, a partial one waits until the bit is cleared (NB29).
pub const SO_NOPUSH: i32 = 4;

/// All went well.
pub const TCP_ERR_NORMAL: i32 = 0;
/// The time for it is over.
pub const TCP_ERR_TIMEOUT: i32 = -1;
/// There is no connection, and none can be had.
pub const TCP_ERR_NOCON: i32 = -2;
/// This side is closed.
pub const TCP_ERR_CLOSING: i32 = -3;
/// No socket has that number.
pub const TCP_ERR_NOSUCH_SOCKET: i32 = -4;
/// Nothing is available: no socket, no port, no listener there any more.
pub const TCP_ERR_NONE_AVAIL: i32 = -5;
/// The peer reset the connection.
pub const TCP_ERR_CON_RESET: i32 = -6;
/// This side aborted it.
pub const TCP_ERR_CON_ABORT: i32 = -7;

/// There is no connection.
pub const TCP_STATE_CLOSED: i32 = 0;
/// There is a listener.
pub const TCP_STATE_LISTEN: i32 = 1;
/// A SYN is out.
pub const TCP_STATE_SYN_SENT: i32 = 2;
/// A SYN came, and ours is out.
pub const TCP_STATE_SYN_RCVD: i32 = 3;
/// Established, with a window of 0 until accepted.
pub const TCP_STATE_WAIT_FOR_ACCEPT: i32 = 4;
/// Data flows.
pub const TCP_STATE_ESTABLISHED: i32 = 5;
/// The peer has closed.
pub const TCP_STATE_CLOSE_WAIT: i32 = 6;
/// Both have closed, the peer first.
pub const TCP_STATE_LAST_ACK: i32 = 7;
/// This side has closed.
pub const TCP_STATE_FIN_WAIT_1: i32 = 8;
/// This side has closed, and the peer knows.
pub const TCP_STATE_FIN_WAIT_2: i32 = 9;
/// Both have closed at once.
pub const TCP_STATE_CLOSING: i32 = 10;
/// Both have closed, old segments are awaited.
pub const TCP_STATE_TIME_WAIT: i32 = 11;

/// Ticks of that system's clock per second, the unit of all its timeouts (NB54).
pub const TICKS_PER_SECOND: u32 = 20;
/// Fewest buffers of a kind that a socket has, the default (NB18, NB22, NB23).
pub const BUFFERS_MIN: u8 = 5;
/// Most buffers of a kind that are of use (NB15). The window field has 16 bits, and 43 buffers of
/// 1460 bytes are 62 780. The article divides 65536 by 1500 and gets the same number, though the
/// window is at most 65535 and a buffer carries 1460 bytes of payload (D-N3, D-N4): 44 of them, 64
/// 240 bytes, would still fit.
pub const BUFFERS_MAX: u8 = 43;
/// Connections that wait to be accepted where a program names no number (NB48).
pub const MAXPEND: u8 = 5;
/// Connect gives up after this many ticks where a program names no time: 75 s (NB58).
pub const TCP_CONN_TO: u16 = 1500;
/// A write that finds no room gives up after this many ticks: 10 s (NB58).
pub const TCP_WRITE_TIMEOUT: u16 = 200;

pub(super) const fn of_failure(failure: Failure) -> i32 {
    match failure {
        Failure::Reset => TCP_ERR_CON_RESET,
        Failure::TimedOut => TCP_ERR_TIMEOUT,
        Failure::Aborted => TCP_ERR_CON_ABORT,
        _ => TCP_ERR_NOCON,
    }
}

/// The code of an error that is none to wait for.
pub(super) const fn of_write(error: WriteError) -> i32 {
    match error {
        WriteError::Closed => TCP_ERR_CLOSING,
        WriteError::Failed(failure) => of_failure(failure),
        _ => TCP_ERR_NOCON,
    }
}

/// The code of an error that is none to wait for.
pub(super) const fn of_read(error: ReadError) -> i32 {
    match error {
        ReadError::Failed(failure) => of_failure(failure),
        _ => TCP_ERR_NOSUCH_SOCKET,
    }
}

pub(super) const fn of_connect(error: ConnectError) -> i32 {
    match error {
        ConnectError::NoPort | ConnectError::TooManyConnections => TCP_ERR_NONE_AVAIL,
        _ => TCP_ERR_NOCON,
    }
}

pub(super) const fn of_listen(error: ListenError) -> i32 {
    match error {
        ListenError::InUse => TCP_ERR_NONE_AVAIL,
        _ => TCP_ERR_NOCON,
    }
}

pub(super) const fn of_state(state: TcpState, is_unaccepted: bool) -> i32 {
    match state {
        TcpState::Established if is_unaccepted => TCP_STATE_WAIT_FOR_ACCEPT,
        TcpState::Closed => TCP_STATE_CLOSED,
        TcpState::Listen => TCP_STATE_LISTEN,
        TcpState::SynSent => TCP_STATE_SYN_SENT,
        TcpState::SynReceived => TCP_STATE_SYN_RCVD,
        TcpState::Established => TCP_STATE_ESTABLISHED,
        TcpState::CloseWait => TCP_STATE_CLOSE_WAIT,
        TcpState::LastAck => TCP_STATE_LAST_ACK,
        TcpState::FinWait1 => TCP_STATE_FIN_WAIT_1,
        TcpState::FinWait2 => TCP_STATE_FIN_WAIT_2,
        TcpState::Closing => TCP_STATE_CLOSING,
        TcpState::TimeWait => TCP_STATE_TIME_WAIT,
    }
}
