//! The head of a request, as far as it is read: a pure function of the bytes that came.

/// A longer head is refused. RFC 9110 section 4.1 wants 8000 bytes of a request line accepted;
/// paths here have a few bytes, and no header is read.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// No method that is registered (RFC 9110 section 16.1) is longer.
const METHOD_BYTES_MAX: usize = 32;

/// How a request is answered (RFC 9110 section 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Here is the page.
    Ok,
    /// This is not HTTP.
    BadRequest,
    /// There is no such page.
    NotFound,
    /// Pages are read with `GET` only.
    MethodNotAllowed,
    /// The head of the request is too long.
    TooLarge,
    /// Another host was asked (RFC 9110 section 7.4).
    Misdirected,
    /// The page cannot be made now.
    Unavailable,
}

impl Status {
    /// All values.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::BadRequest,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::Misdirected,
        Self::Unavailable,
    ];

    /// Its number, such as 404.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::TooLarge => 431,
            Self::Misdirected => 421,
            Self::Unavailable => 503,
        }
    }

    /// Its number and its reason phrase.
    pub(super) const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Misdirected => "421 Misdirected Request",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    /// Text of a response without a page.
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::BadRequest => "not an HTTP/1.1 request",
            Self::NotFound => "not found; / lists the pages",
            Self::MethodNotAllowed => "only GET is accepted",
            Self::TooLarge => "the head of the request is longer than 8 KiB",
            Self::Misdirected => "ask for localhost, or for an address: this is not that host",
            Self::Unavailable => "not available now",
        }
    }
}

/// State of a request being read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<'b> {
    /// The head goes on.
    Incomplete,
    /// A page is asked for by this path.
    Get(&'b str),
    /// Not a request for a page.
    Refused(Status),
}

/// Reads the head of a request (RFC 9112 section 2.1): its first line counts, and that the empty
/// line at its end has come.
pub(super) fn read_head(heard: &[u8]) -> Read<'_> {
    let method_bytes = heard
        .iter()
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    let follows = heard.get(method_bytes);
    if method_bytes > METHOD_BYTES_MAX
        || follows.is_some_and(|&byte| byte != b' ' || method_bytes == 0)
    {
        // Such as TLS: nothing is to be waited for.
        return Read::Refused(Status::BadRequest);
    }
    let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if heard.len() > HEAD_BYTES_MAX {
            Read::Refused(Status::TooLarge)
        } else {
            Read::Incomplete
        };
    };
    if end > HEAD_BYTES_MAX {
        return Read::Refused(Status::TooLarge);
    }
    let line = heard[..end]
        .split(|&byte| byte == b'\r')
        .next()
        .unwrap_or_default();
    let Ok(line) = str::from_utf8(line) else {
        return Read::Refused(Status::BadRequest);
    };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Read::Refused(Status::BadRequest);
    };
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || target.contains(char::is_control) {
        return Read::Refused(Status::BadRequest);
    }
    match method {
        "GET" => Read::Get(path_of(target)),
        _ => Read::Refused(Status::MethodNotAllowed),
    }
}

/// The path of a target, in the form of proxies too (RFC 9112 section 3.2.2).
fn path_of(target: &str) -> &str {
    const SCHEME: &str = "http://";
    let begin = target.get(..SCHEME.len());
    let path = match begin.is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME)) {
        true => target[SCHEME.len()..]
            .find('/')
            .map_or("/", |at| &target[SCHEME.len() + at..]),
        false => target,
    };
    path.split('?').next().unwrap_or_default()
}

/// Whether a request is for a host that the domain name system names: what a browser asks a
/// loopback address for when a page of elsewhere has let its own name lead there ("DNS
/// rebinding"), and may read. `heard` holds a whole head. A name without a dot is of this machine
/// or its network.
pub(super) fn is_for_named_host(heard: &[u8]) -> bool {
    let head = String::from_utf8_lossy(heard);
    let fields = head
        .split("\r\n")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let mut hosts = fields.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    hosts.any(is_domain)
}

/// Domains that are of a machine or its network, and that no public name server answers for.
const LOCAL_DOMAINS: [&str; 5] = [
    ".localhost",
    ".localdomain",
    ".localdomain4",
    ".localdomain6",
    ".internal",
];

/// Whether a host with or without a port is a name with several parts, and not of this machine.
fn is_domain(host: &str) -> bool {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => host,
    };
    let bare = bare.trim_end_matches('.');
    // `127.1` is an address, too.
    let is_numeric = bare
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_address = bare.starts_with('[') || bare.parse::<std::net::IpAddr>().is_ok();
    let bare = bare.to_ascii_lowercase();
    let is_local = LOCAL_DOMAINS.iter().any(|domain| bare.ends_with(domain));
    !is_numeric && !is_address && !is_local && bare.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_elsewhere_are_domains() {
        let check = |head: &str, expected: bool| {
            let head = format!("GET /metrics HTTP/1.1\r\n{head}\r\n\r\nHost: body.example");
            assert_eq!(is_for_named_host(head.as_bytes()), expected, "{head}");
        };
        for host in [
            "127.0.0.1:9917",
            "127.0.0.1",
            "[::1]:9917",
            "::1",
            "localhost:9917",
            "a.localhost",
            "localhost4.localdomain4:9917",
            "host.docker.internal",
            "127.1:9917",
            "myhost:9917",
            "",
        ] {
            check(&format!("Host: {host}"), false);
        }
        check("Accept: text/plain", false);
        check("Host: rebound.example:9917", true);
        check("hOsT:rebound.example.", true);
        check("Host: localhost\r\nHost: rebound.example", true);
        check("Host: 127.0.0.1.rebound.example", true);
        check("Host: localhost.example", true);
    }

    #[test]
    fn a_request_is_its_first_line() {
        let check = |heard: &str, expected: Read<'_>| {
            assert_eq!(read_head(heard.as_bytes()), expected, "{heard:?}");
        };
        let refused = Read::Refused;
        check(
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            Read::Get("/metrics"),
        );
        check("GET /metrics?a=b HTTP/1.0\r\n\r\n", Read::Get("/metrics"));
        check(
            "GET http://host:9917/metrics?a HTTP/1.1\r\n\r\n",
            Read::Get("/metrics"),
        );
        check("GET HTTP://host HTTP/1.1\r\n\r\n", Read::Get("/"));
        check("", Read::Incomplete);
        check("GET", Read::Incomplete);
        check("GET / HTTP/1.1\r\nHost: x\r\n", Read::Incomplete);
        check(
            "POST /metrics HTTP/1.1\r\n\r\n",
            refused(Status::MethodNotAllowed),
        );
        check("HEAD / HTTP/1.1\r\n\r\n", refused(Status::MethodNotAllowed));
        check("GET /\r\n\r\n", refused(Status::BadRequest));
        check("GET / x HTTP/1.1\r\n\r\n", refused(Status::BadRequest));
        check("GET / HTTP/2.0\r\n\r\n", refused(Status::BadRequest));
        check("GET /a\tb HTTP/1.1\r\n\r\n", refused(Status::BadRequest));
        check("get / HTTP/1.1\r\n\r\n", refused(Status::BadRequest));
        check("\u{16}\u{3}\u{1}", refused(Status::BadRequest));
        check(&"A".repeat(40), refused(Status::BadRequest));
    }

    #[test]
    fn a_head_has_a_bound() {
        let long = |bytes: usize| format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(bytes));
        let just = long(HEAD_BYTES_MAX - 19);
        assert_eq!(just.len(), HEAD_BYTES_MAX);
        assert_eq!(read_head(just.as_bytes()), Read::Incomplete);
        let ended = format!("{just}\r\n\r\n");
        assert_eq!(read_head(ended.as_bytes()), Read::Get("/"));
        let too_long = Read::Refused(Status::TooLarge);
        assert_eq!(read_head(long(HEAD_BYTES_MAX).as_bytes()), too_long);
        let ended = format!("{}\r\n\r\n", long(HEAD_BYTES_MAX));
        assert_eq!(read_head(ended.as_bytes()), too_long);
    }

    #[test]
    fn each_status_has_its_place_in_the_list() {
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, index);
            assert!(status.line().starts_with(&status.code().to_string()));
        }
    }
}
