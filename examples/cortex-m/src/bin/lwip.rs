//! The same firmware with lwIP, for comparison; `lwip/build` compiles that from C.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut, without_provenance_mut};
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use board::{Answer, Clock, Decoder, Serial, answer, encode};
use cortex_m_rt::entry;

/// Connections for which there is memory.
const CONNECTIONS_MAX: usize = 4;
/// Bytes of the heap that lwIP may have for segments. It goes on without memory; Rust ends the
/// program, and needs the rest for requests.
const SEGMENT_BYTES_MAX: usize = board::HEAP_BYTES - 12 * 1024;

/// A connection or a listener, which only lwIP looks into.
#[repr(C)]
struct Pcb([u8; 0]);

/// Bytes that came, or that are to be sent, with more of them in the next one (`struct pbuf`, as
/// far as it is read here).
#[repr(C)]
struct Pbuf {
    next: *mut Pbuf,
    payload: *const u8,
    /// Bytes in this one and in those that follow.
    total_length: u16,
    length: u16,
}

/// lwIP's `err_t`, as far as it is named here.
type Error = i8;
const OK: Error = 0;
const NO_MEMORY: Error = -1;
const ABORTED: Error = -13;

/// `tcp_write` keeps a copy; or none, and more follows.
const COPY: u8 = 1;
const MORE: u8 = 2;

type OnAccept = unsafe extern "C" fn(*mut c_void, *mut Pcb, Error) -> Error;
type OnReceived = unsafe extern "C" fn(*mut c_void, *mut Pcb, *mut Pbuf, Error) -> Error;
type OnSent = unsafe extern "C" fn(*mut c_void, *mut Pcb, u16) -> Error;
type OnPoll = unsafe extern "C" fn(*mut c_void, *mut Pcb) -> Error;
type OnError = unsafe extern "C" fn(*mut c_void, Error);

#[link(name = "lwip", kind = "static")]
unsafe extern "C" {
    fn line_start(line: *mut c_void, address: *const u8, mtu: u16) -> c_int;
    fn line_receive(bytes: *const u8, length: u16);
    fn room_to_send(connection: *const Pcb) -> u16;
    fn sys_check_timeouts();
    fn pbuf_cat(first: *mut Pbuf, second: *mut Pbuf);
    fn pbuf_copy_partial(from: *const Pbuf, to: *mut u8, length: u16, offset: u16) -> u16;
    fn pbuf_free(bytes: *mut Pbuf) -> u8;
    fn pbuf_free_header(bytes: *mut Pbuf, length: u16) -> *mut Pbuf;
    fn tcp_new() -> *mut Pcb;
    fn tcp_bind(listener: *mut Pcb, address: *const c_void, port: u16) -> Error;
    fn tcp_listen_with_backlog(listener: *mut Pcb, backlog: u8) -> *mut Pcb;
    fn tcp_arg(connection: *mut Pcb, argument: *mut c_void);
    fn tcp_accept(listener: *mut Pcb, call: Option<OnAccept>);
    fn tcp_recv(connection: *mut Pcb, call: Option<OnReceived>);
    fn tcp_sent(connection: *mut Pcb, call: Option<OnSent>);
    fn tcp_poll(connection: *mut Pcb, call: Option<OnPoll>, half_seconds: u8);
    fn tcp_err(connection: *mut Pcb, call: Option<OnError>);
    fn tcp_recved(connection: *mut Pcb, length: u16);
    fn tcp_write(connection: *mut Pcb, data: *const u8, length: u16, flags: u8) -> Error;
    fn tcp_close(connection: *mut Pcb) -> Error;
    fn tcp_abort(connection: *mut Pcb);
}

/// Milliseconds since the start.
static NOW: AtomicU32 = AtomicU32::new(0);
/// Connections that are served.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the heap that lwIP has.
static SEGMENT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What a connection has in hand.
enum Service {
    /// What came goes back from where it is.
    Echo,
    /// A request that is not complete yet.
    Request(Vec<u8>),
    /// An answer on its way.
    Answer(Answer),
}

/// A connection's argument, which is its own until it is closed, or lwIP says that it is lost.
struct Client {
    service: Service,
    /// What came and was not sent back yet; null where there is nothing.
    unread: *mut Pbuf,
    /// Whether the peer has sent all.
    has_ended: bool,
}

impl Client {
    fn new(service: Service) -> Self {
        count(CONNECTIONS.load(Ordering::Relaxed) + 1);
        Self {
            service,
            unread: null_mut(),
            has_ended: false,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        count(CONNECTIONS.load(Ordering::Relaxed) - 1);
        if !self.unread.is_null() {
            // SAFETY: it was given to this client, and to none else.
            unsafe { pbuf_free(self.unread) };
        }
    }
}

fn count(connections: usize) {
    CONNECTIONS.store(connections, Ordering::Relaxed);
}

/// Does what can be done; false at the end.
///
/// # Safety
/// lwIP knows `pcb`, whose client this is.
unsafe fn serve(pcb: *mut Pcb, client: &mut Client) -> bool {
    let Client {
        service,
        unread,
        has_ended,
    } = client;
    // SAFETY: the caller's promise.
    unsafe {
        if let Service::Request(request) = service
            && let Some(answer) = receive(pcb, request, unread)
        {
            *service = Service::Answer(answer);
        }
        match service {
            Service::Echo => echo(pcb, unread),
            Service::Request(_) => {}
            Service::Answer(answer) => return send(pcb, answer),
        }
    }
    !*has_ended || !unread.is_null()
}

/// Sends back what came, for as long as there is room.
///
/// # Safety
/// As for [`serve`].
unsafe fn echo(pcb: *mut Pcb, unread: &mut *mut Pbuf) {
    // SAFETY: what is unread is a chain of lwIP's, which nothing else changes.
    while let Some(first) = unsafe { unread.as_ref() } {
        // SAFETY: the bytes are there as long as the chain is, and lwIP copies them.
        unsafe {
            let bytes = first.length.min(room_to_send(pcb));
            if bytes == 0 || tcp_write(pcb, first.payload, bytes, COPY) != OK {
                return;
            }
            take(pcb, unread, bytes);
        }
    }
}

/// Reads a request; `None` where more has to come.
///
/// # Safety
/// As for [`serve`].
unsafe fn receive(pcb: *mut Pcb, request: &mut Vec<u8>, unread: &mut *mut Pbuf) -> Option<Answer> {
    // SAFETY: as in `echo`.
    while let Some(first) = unsafe { unread.as_ref() } {
        let bytes = usize::from(first.length).min(board::REQUEST_BYTES_MAX - request.len());
        // SAFETY: the first has so many bytes, which are taken after they were copied.
        unsafe {
            request.extend_from_slice(slice::from_raw_parts(first.payload, bytes));
            take(pcb, unread, bytes as u16);
        }
        if let Some(answer) = answer(request) {
            return Some(answer);
        }
    }
    None
}

/// So many of the unread bytes were used: they go, and the window opens again.
///
/// # Safety
/// As for [`serve`]; there are so many bytes.
unsafe fn take(pcb: *mut Pcb, unread: &mut *mut Pbuf, bytes: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        tcp_recved(pcb, bytes);
        *unread = pbuf_free_header(*unread, bytes);
    }
}

/// Sends what there is room for; false at the end.
///
/// # Safety
/// As for [`serve`].
unsafe fn send(pcb: *mut Pcb, answer: &mut Answer) -> bool {
    loop {
        // What is in flash is sent from there.
        let (chunk, is_head) = match answer.head.is_empty() {
            false => (&*answer.head, true),
            true => (answer.rest(), false),
        };
        if chunk.is_empty() {
            return false;
        }
        let flags = if is_head { COPY | MORE } else { MORE };
        // SAFETY: the caller's promise; what is not copied is in flash.
        let taken = unsafe {
            let taken = chunk.len().min(room_to_send(pcb).into());
            if taken == 0 || tcp_write(pcb, chunk.as_ptr(), taken as u16, flags) != OK {
                return true;
            }
            taken
        };
        match is_head {
            true => answer.head = answer.head.slice(taken..),
            false => answer.on_sent(taken),
        }
    }
}

/// Serves a connection, and lets go of it at the end.
///
/// # Safety
/// `pcb` is a connection, `client` its argument.
unsafe fn serve_client(client: *mut c_void, pcb: *mut Pcb) -> Error {
    let client = client.cast::<Client>();
    // SAFETY: the argument is a client, from `on_accept`, and lwIP makes one call at a time.
    unsafe {
        if serve(pcb, &mut *client) {
            return OK;
        }
        let_go(pcb, client);
        if tcp_close(pcb) == OK {
            return OK;
        }
        tcp_abort(pcb);
        ABORTED
    }
}

/// lwIP makes no more calls for a connection, whose client goes.
///
/// # Safety
/// As for [`serve_client`]; the client is not used again.
unsafe fn let_go(pcb: *mut Pcb, client: *mut Client) {
    // SAFETY: the caller's promise.
    unsafe {
        tcp_arg(pcb, null_mut());
        tcp_recv(pcb, None);
        tcp_sent(pcb, None);
        tcp_poll(pcb, None, 0);
        tcp_err(pcb, None);
        drop(Box::from_raw(client));
    }
}

/// `is_web` is null for the echo.
unsafe extern "C" fn on_accept(is_web: *mut c_void, pcb: *mut Pcb, error: Error) -> Error {
    if error != OK || pcb.is_null() || CONNECTIONS.load(Ordering::Relaxed) == CONNECTIONS_MAX {
        // lwIP resets the connection.
        return NO_MEMORY;
    }
    let service = match is_web.is_null() {
        true => Service::Echo,
        false => Service::Request(Vec::new()),
    };
    let client = Box::into_raw(Box::new(Client::new(service)));
    // SAFETY: lwIP has just made the connection.
    unsafe {
        tcp_arg(pcb, client.cast());
        tcp_recv(pcb, Some(on_received));
        tcp_sent(pcb, Some(on_sent));
        // Where memory was short, after a second.
        tcp_poll(pcb, Some(on_poll), 2);
        tcp_err(pcb, Some(on_error));
    }
    OK
}

unsafe extern "C" fn on_received(
    argument: *mut c_void,
    pcb: *mut Pcb,
    bytes: *mut Pbuf,
    _error: Error,
) -> Error {
    // SAFETY: lwIP calls with what `on_accept` has given, and gives the bytes away.
    unsafe {
        let client = &mut *argument.cast::<Client>();
        match (bytes.is_null(), client.unread.is_null()) {
            (true, _) => client.has_ended = true,
            (false, true) => client.unread = bytes,
            (false, false) => pbuf_cat(client.unread, bytes),
        }
        serve_client(argument, pcb)
    }
}

unsafe extern "C" fn on_sent(client: *mut c_void, pcb: *mut Pcb, _bytes: u16) -> Error {
    // SAFETY: lwIP calls with what `on_accept` has given.
    unsafe { serve_client(client, pcb) }
}

unsafe extern "C" fn on_poll(client: *mut c_void, pcb: *mut Pcb) -> Error {
    // SAFETY: lwIP calls with what `on_accept` has given.
    unsafe { serve_client(client, pcb) }
}

/// The connection has ended.
unsafe extern "C" fn on_error(client: *mut c_void, _error: Error) {
    // SAFETY: lwIP calls with what `on_accept` has given, and then no more.
    drop(unsafe { Box::from_raw(client.cast::<Client>()) });
}

/// The serial line, and a packet in one piece.
struct Line {
    serial: Serial,
    sent: Vec<u8>,
}

/// lwIP sends a packet.
#[unsafe(no_mangle)]
unsafe extern "C" fn line_transmit(line: *mut c_void, packet: *const Pbuf) {
    // SAFETY: lwIP calls with the line from `main`, which does not use it then, and with a packet.
    unsafe {
        let Line { serial, sent } = &mut *line.cast::<Line>();
        let length = (*packet).total_length;
        sent.resize(length.into(), 0);
        pbuf_copy_partial(packet, sent.as_mut_ptr(), length, 0);
        encode(sent, |byte| serial.send(byte));
    }
}

/// lwIP's clock, milliseconds.
#[unsafe(no_mangle)]
extern "C" fn sys_now() -> u32 {
    NOW.load(Ordering::Relaxed)
}

/// An assertion of lwIP's has failed.
#[unsafe(no_mangle)]
unsafe extern "C" fn lwip_failed(text: *const c_char) -> ! {
    // SAFETY: lwIP's texts are constants.
    panic!("{:?}", unsafe { CStr::from_ptr(text) });
}

/// In front of each piece of memory that lwIP has from the heap is its size, which C does not tell
/// when it gives it back.
const SIZE_BYTES: usize = size_of::<usize>();

/// Memory for lwIP; null where there is none.
#[unsafe(no_mangle)]
extern "C" fn heap_take(bytes: usize) -> *mut c_void {
    let layout = Layout::from_size_align(SIZE_BYTES + bytes, SIZE_BYTES);
    let layout = layout.expect("lwIP takes no more than a segment");
    let in_use = SEGMENT_BYTES.load(Ordering::Relaxed) + layout.size();
    if in_use > SEGMENT_BYTES_MAX {
        return null_mut();
    }
    // SAFETY: it is not empty, and its beginning is aligned as a size is.
    unsafe {
        let memory = alloc::alloc::alloc(layout);
        if memory.is_null() {
            return null_mut();
        }
        SEGMENT_BYTES.store(in_use, Ordering::Relaxed);
        memory.cast::<usize>().write(layout.size());
        memory.add(SIZE_BYTES).cast()
    }
}

/// Takes memory back.
#[unsafe(no_mangle)]
unsafe extern "C" fn heap_give(memory: *mut c_void) {
    // SAFETY: it is from `heap_take`, with this layout.
    unsafe {
        let memory = memory.cast::<u8>().sub(SIZE_BYTES);
        let size = memory.cast::<usize>().read();
        SEGMENT_BYTES.store(
            SEGMENT_BYTES.load(Ordering::Relaxed) - size,
            Ordering::Relaxed,
        );
        let layout = Layout::from_size_align_unchecked(size, SIZE_BYTES);
        alloc::alloc::dealloc(memory, layout);
    }
}

fn listen(port: u16, is_web: bool) {
    // SAFETY: lwIP was started.
    unsafe {
        let bound = tcp_new();
        assert!(!bound.is_null() && tcp_bind(bound, null(), port) == OK);
        let listener = tcp_listen_with_backlog(bound, u8::MAX);
        assert!(!listener.is_null());
        tcp_arg(listener, without_provenance_mut(is_web.into()));
        tcp_accept(listener, Some(on_accept));
    }
}

#[entry]
fn main() -> ! {
    board::start_heap();
    let peripherals = cortex_m::Peripherals::take().expect("taken once");
    let clock = Clock::start(peripherals.SYST);
    let mut decoder = Decoder::new(board::MTU.into());
    let line = Box::into_raw(Box::new(Line {
        serial: Serial::start(peripherals.NVIC),
        sent: Vec::with_capacity(board::MTU.into()),
    }));
    // SAFETY: the line is there for as long as lwIP is.
    let has_started = unsafe { line_start(line.cast(), board::ADDRESS.as_ptr(), board::MTU) };
    assert_ne!(has_started, 0);
    listen(board::ECHO_PORT, false);
    listen(board::WEB_PORT, true);
    loop {
        NOW.store(clock.millis(), Ordering::Relaxed);
        let mut is_idle = true;
        // SAFETY: lwIP does not use the line while it is asked.
        while let Some(byte) = unsafe { (*line).serial.poll_receive() } {
            if let Some(packet) = decoder.handle_byte(byte) {
                // SAFETY: lwIP copies the packet.
                unsafe { line_receive(packet.as_ptr(), packet.len() as u16) };
                is_idle = false;
                break;
            }
        }
        // SAFETY: lwIP was started, and makes no call now.
        unsafe { sys_check_timeouts() };
        if is_idle {
            // SAFETY: lwIP does not use the line now.
            unsafe { (*line).serial.sleep() };
        }
    }
}
