//! The first bytes of a control connection: one message of fixed length each way, a Noise handshake
//! (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, revision 34 of its specification) in a plain frame.
//!
//! ```text
//! client                               server
//! tcptailor VERSION KEYED e     ->
//!                               <-     tcptailor VERSION CODE WAIT e
//! everything else is encrypted: `channel`
//! ```
//! The pre-shared key is mixed into the first message, so a server knows by a few hashes, without
//! computing on curves and without a thread, whether a client holds the key. A recorded first
//! message can be replayed; whoever does so cannot read the answer, and is not a client until its
//! first encrypted message has come. Both ephemeral keys and the pre-shared key enter the session
//! keys: others can neither read nor change what follows, not even if they learn the pre-shared key
//! later.

use std::time::Duration;

use snow::{Builder, HandshakeState, StatelessTransportState};

use super::key::Key;

/// Version of all that is said on a control connection.
pub(super) const VERSION: u8 = 2;
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// How a client and a server begin.
pub(super) const MAGIC: &[u8; 9] = b"tcptailor";
/// A public key and a tag.
const NOISE_BYTES: usize = 48;
/// Length of what a client says first.
pub(super) const HELLO_BYTES: usize = MAGIC.len() + 2 + NOISE_BYTES;
/// Length of the answer.
pub(super) const REPLY_BYTES: usize = MAGIC.len() + 3 + NOISE_BYTES;

/// Why a server does not let a client go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server has a key and the client gave none.
    KeyRequired,
    /// The server has no key and cannot prove its identity.
    NoKeyHere,
    /// The keys differ.
    WrongKey,
    /// Another version, given in the frame.
    OtherVersion,
    /// Too many connections are at their opening.
    Busy,
    /// Too many of them are of this address.
    TooManyOfAddress,
    /// The address failed too often.
    Penalty,
}

const CODES: [(u8, Refusal); 7] = [
    (1, Refusal::KeyRequired),
    (2, Refusal::NoKeyHere),
    (3, Refusal::WrongKey),
    (4, Refusal::OtherVersion),
    (5, Refusal::Busy),
    (6, Refusal::TooManyOfAddress),
    (7, Refusal::Penalty),
];

impl Refusal {
    /// In the server's log, behind the client's address.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::KeyRequired => "no key",
            Self::NoKeyHere => "it asks for a key, and this server has none",
            Self::WrongKey => "does not hold the key",
            Self::OtherVersion => "another version of the protocol",
            Self::Busy => "too many connections that have not authenticated",
            Self::TooManyOfAddress => "too many of this address have not authenticated",
            Self::Penalty => "failed too often, and has to wait",
        }
    }
}

/// The server's reply as seen by the client.
pub(super) enum Reply {
    /// The rest is encrypted.
    Accepted(Box<StatelessTransportState>),
    /// With the time after which another attempt may succeed.
    Refused(Refusal, Duration),
    /// A server of another version.
    OtherVersion(u8),
    /// Not a server of ours, or one that does not hold the key.
    Invalid(&'static str),
}

/// A client's side of a handshake: its first message is sent, the answer is awaited.
pub(super) struct ClientHandshake(HandshakeState);

impl ClientHandshake {
    /// The first bytes of a client.
    pub(super) fn new(key: Option<&Key>) -> (Self, [u8; HELLO_BYTES]) {
        let mut hello = [0; HELLO_BYTES];
        let (frame, noise) = hello.split_at_mut(HELLO_BYTES - NOISE_BYTES);
        frame[..MAGIC.len()].copy_from_slice(MAGIC);
        frame[MAGIC.len()] = VERSION;
        frame[MAGIC.len() + 1] = key.is_some().into();
        let mut state = build(key, frame, true);
        let written = state.write_message(&[], noise).expect("it has room");
        assert_eq!(written, NOISE_BYTES, "a public key and a tag");
        (Self(state), hello)
    }

    /// Reads the answer.
    pub(super) fn finish(mut self, reply: &[u8; REPLY_BYTES]) -> Reply {
        let Some(rest) = reply.strip_prefix(MAGIC) else {
            return Reply::Invalid("does not speak the protocol of tcptailor");
        };
        let (frame, noise) = rest.split_at(3);
        let &[version, code, wait] = frame else {
            unreachable!("it was split there");
        };
        if version != VERSION {
            return Reply::OtherVersion(version);
        }
        if code != 0 {
            let known = CODES.iter().find(|(number, _)| *number == code);
            return known.map_or(
                Reply::Invalid("refuses for an unknown reason"),
                |(_, why)| Reply::Refused(*why, Duration::from_secs(wait.into())),
            );
        }
        match self.0.read_message(noise, &mut [0; NOISE_BYTES]) {
            Ok(_) => Reply::Accepted(Box::new(transport(self.0))),
            Err(_) => Reply::Invalid("does not hold the key that was given here"),
        }
    }
}

/// The client's first bytes as seen by the server.
pub(super) enum Heard {
    /// A valid client: it holds the key, or none is required.
    Welcome(Box<ServerHandshake>),
    /// One of our clients, refused.
    Refused(Refusal),
    /// Anything else.
    Foreign,
}

/// A server's side of a handshake: the client's first message was valid, the answer is due.
pub(super) struct ServerHandshake(HandshakeState);

/// Whether the first bytes may be those of a client, as far as they are there.
pub(super) fn may_be_hello(bytes: &[u8]) -> bool {
    let length = bytes.len().min(MAGIC.len());
    bytes[..length] == MAGIC[..length]
}

/// Reads a client's first message. Costs a few hashes.
pub(super) fn hear(hello: &[u8; HELLO_BYTES], key: Option<&Key>) -> Heard {
    if !may_be_hello(hello) {
        return Heard::Foreign;
    }
    let (frame, noise) = hello.split_at(HELLO_BYTES - NOISE_BYTES);
    let (version, has_key) = (frame[MAGIC.len()], frame[MAGIC.len() + 1] != 0);
    if version != VERSION {
        return Heard::Refused(Refusal::OtherVersion);
    }
    match (key, has_key) {
        (Some(_), false) => return Heard::Refused(Refusal::KeyRequired),
        (None, true) => return Heard::Refused(Refusal::NoKeyHere),
        _ => {}
    }
    let mut state = build(key, frame, false);
    match state.read_message(noise, &mut [0; NOISE_BYTES]) {
        Ok(_) => Heard::Welcome(Box::new(ServerHandshake(state))),
        Err(_) => Heard::Refused(Refusal::WrongKey),
    }
}

impl ServerHandshake {
    /// The answer, and the keys of what follows. This computes on curves.
    pub(super) fn answer(mut self) -> ([u8; REPLY_BYTES], StatelessTransportState) {
        let mut reply = frame(0, Duration::ZERO);
        let noise = &mut reply[REPLY_BYTES - NOISE_BYTES..];
        let written = self.0.write_message(&[], noise).expect("it has room");
        assert_eq!(written, NOISE_BYTES, "a public key and a tag");
        (reply, transport(self.0))
    }
}

/// The answer to a client that may not go on.
pub(super) fn refusal(why: Refusal, wait: Duration) -> [u8; REPLY_BYTES] {
    let code = CODES.iter().find(|(_, known)| *known == why);
    frame(code.map_or(u8::MAX, |(number, _)| *number), wait)
}

fn frame(code: u8, wait: Duration) -> [u8; REPLY_BYTES] {
    let mut reply = [0; REPLY_BYTES];
    reply[..MAGIC.len()].copy_from_slice(MAGIC);
    let wait = u8::try_from(wait.as_secs()).unwrap_or(u8::MAX);
    reply[MAGIC.len()..MAGIC.len() + 3].copy_from_slice(&[VERSION, code, wait]);
    reply
}

fn build(key: Option<&Key>, prologue: &[u8], is_client: bool) -> HandshakeState {
    let psk = Key::psk(key);
    let params = PATTERN.parse().expect("a pattern that snow knows");
    let builder = Builder::new(params)
        .prologue(prologue)
        .and_then(|builder| builder.psk(0, &psk))
        .expect("each is set once");
    let built = match is_client {
        true => builder.build_initiator(),
        false => builder.build_responder(),
    };
    built.expect("the pattern needs nothing else")
}

fn transport(state: HandshakeState) -> StatelessTransportState {
    let finished = state.into_stateless_transport_mode();
    finished.expect("both messages have passed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> Key {
        digit.to_string().repeat(32).parse().expect("digits")
    }

    /// Both ends to their keys, or why not.
    fn meet(client: Option<&Key>, server: Option<&Key>) -> Result<(), Refusal> {
        let (greeting, hello) = ClientHandshake::new(client);
        let (reply, theirs) = match hear(&hello, server) {
            Heard::Welcome(greeted) => greeted.answer(),
            Heard::Refused(why) => return Err(why),
            Heard::Foreign => panic!("it is ours"),
        };
        let Reply::Accepted(ours) = greeting.finish(&reply) else {
            panic!("the keys are the same");
        };
        let (mut secret, mut open) = ([0; 100], [0; 100]);
        let length = ours.write_message(7, b"hello", &mut secret).expect("room");
        assert!(!secret.windows(5).any(|part| part == b"hello"));
        let read = theirs.read_message(7, &secret[..length], &mut open);
        assert_eq!(&open[..read.expect("in order")], b"hello");
        // Neither another place in the sequence nor another byte is taken.
        assert!(
            theirs
                .read_message(8, &secret[..length], &mut open)
                .is_err()
        );
        secret[3] ^= 1;
        assert!(
            theirs
                .read_message(7, &secret[..length], &mut open)
                .is_err()
        );
        Ok(())
    }

    #[test]
    fn ends_meet_with_the_same_key_or_without_one() {
        let (one, other) = (key('a'), key('b'));
        let check = |client: Option<&Key>, server: Option<&Key>, expected| {
            assert_eq!(meet(client, server), expected);
        };
        check(None, None, Ok(()));
        check(Some(&one), Some(&one), Ok(()));
        check(Some(&one), Some(&other), Err(Refusal::WrongKey));
        check(None, Some(&one), Err(Refusal::KeyRequired));
        check(Some(&one), None, Err(Refusal::NoKeyHere));
    }

    #[test]
    fn an_answer_from_who_lacks_the_key_is_invalid() {
        let (one, other) = (key('a'), key('b'));
        let (_, foreign) = ClientHandshake::new(Some(&other));
        let Heard::Welcome(greeted) = hear(&foreign, Some(&other)) else {
            panic!("the keys are the same");
        };
        let (reply, _) = greeted.answer();
        let (greeting, _) = ClientHandshake::new(Some(&one));
        assert!(matches!(greeting.finish(&reply), Reply::Invalid(why) if why.contains("key")));
        // Nor does an answer to another client fit.
        let (greeting, _) = ClientHandshake::new(Some(&other));
        assert!(matches!(greeting.finish(&reply), Reply::Invalid(_)));
    }

    #[test]
    fn frames_say_versions_and_reasons() {
        for (_, why) in CODES {
            let (greeting, _) = ClientHandshake::new(None);
            let reply = refusal(why, Duration::from_secs(12));
            let Reply::Refused(got, wait) = greeting.finish(&reply) else {
                panic!("{why:?}");
            };
            assert_eq!((got, wait.as_secs()), (why, 12));
        }
        let (greeting, mut hello) = ClientHandshake::new(None);
        hello[MAGIC.len()] = 9;
        let other = hear(&hello, None);
        assert!(matches!(other, Heard::Refused(Refusal::OtherVersion)));
        let mut reply = refusal(Refusal::OtherVersion, Duration::ZERO);
        reply[MAGIC.len()] = 9;
        assert!(matches!(greeting.finish(&reply), Reply::OtherVersion(9)));
        hello[0] = b'T';
        assert!(matches!(hear(&hello, None), Heard::Foreign));
        // Changing the flag breaks the handshake, whose hash covers it.
        let (_, mut hello) = ClientHandshake::new(Some(&key('a')));
        hello[MAGIC.len() + 1] = 2;
        let turned = hear(&hello, Some(&key('a')));
        assert!(matches!(turned, Heard::Refused(Refusal::WrongKey)));
    }
}
