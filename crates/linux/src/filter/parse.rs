//! Parses filters, with errors that name the column and a probable correction.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::TcpState;
use base::knob::nearest;

use super::{Address, Comparison, Expr, Prefix, Side, Test};

/// Far above any filter that a person writes; it bounds the depth of the recursion.
const DEPTH_MAX: usize = 64;

const KEYWORDS: [&str; 12] = [
    "sport", "dport", "port", "src", "dst", "pid", "comm", "cgroup", "uid", "state", "not", "and",
];

/// Ports that have a name, from `/etc/services` and from habit.
const PORTS: [(&str, u16); 26] = [
    ("ssh", 22),
    ("smtp", 25),
    ("domain", 53),
    ("http", 80),
    ("pop3", 110),
    ("imap", 143),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("rsync", 873),
    ("imaps", 993),
    ("mqtt", 1883),
    ("nfs", 2049),
    ("iscsi-target", 3260),
    ("mysql", 3306),
    ("iperf3", 5201),
    ("postgresql", 5432),
    ("amqp", 5672),
    ("redis", 6379),
    ("http-alt", 8080),
    ("prometheus", 9090),
    ("kafka", 9092),
    ("elasticsearch", 9200),
    ("git", 9418),
    ("memcached", 11211),
    ("mongodb", 27017),
];

const STATES: [(&str, &[TcpState]); 14] = {
    use TcpState::*;
    [
        ("established", &[Established]),
        ("syn-sent", &[SynSent]),
        ("syn-recv", &[SynReceived]),
        ("fin-wait-1", &[FinWait1]),
        ("fin-wait-2", &[FinWait2]),
        ("time-wait", &[TimeWait]),
        ("closed", &[Closed]),
        ("close-wait", &[CloseWait]),
        ("last-ack", &[LastAck]),
        ("listening", &[Listen]),
        ("listen", &[Listen]),
        ("closing", &[Closing]),
        (
            "connected",
            &[
                Established,
                SynSent,
                SynReceived,
                FinWait1,
                FinWait2,
                TimeWait,
                CloseWait,
                LastAck,
                Closing,
            ],
        ),
        (
            "synchronized",
            &[
                Established,
                FinWait1,
                FinWait2,
                TimeWait,
                CloseWait,
                LastAck,
                Closing,
            ],
        ),
    ]
};

/// Why a text is not a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Column, in characters from 1.
    pub column: usize,
    /// The problem, and what to write instead.
    pub message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter, column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for FilterError {}

type Result<T> = std::result::Result<T, FilterError>;

fn error<T>(column: usize, message: impl Into<String>) -> Result<T> {
    Err(FilterError {
        column,
        message: message.into(),
    })
}

/// Parses a whole filter; an empty text lets every flow pass.
pub(super) fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        end: text.chars().count() + 1,
        depth: 0,
    };
    if parser.tokens.is_empty() {
        return Ok(Expr::default());
    }
    let expr = parser.any()?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => error(
            token.column,
            format!("`{}` was not expected here", token.text),
        ),
    }
}

#[derive(Clone, Copy)]
struct Token<'t> {
    text: &'t str,
    column: usize,
    /// In quotes, so that it is a name even where it looks like a word of the language.
    quoted: bool,
}

impl Token<'_> {
    fn is(self, words: &[&str]) -> bool {
        !self.quoted && words.contains(&self.text)
    }
}

/// Splits into words, operators, parentheses and quoted names.
fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    const OPERATORS: &str = "=!<>&|";
    let mut found = Vec::new();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let same_kind = |letter: char| match first {
            '(' | ')' => false,
            _ if first.is_whitespace() => letter.is_whitespace(),
            _ if OPERATORS.contains(first) => OPERATORS.contains(letter),
            _ => !letter.is_whitespace() && !"()\"".contains(letter) && !OPERATORS.contains(letter),
        };
        let (token, length) = if first == '"' {
            let Some(name) = rest[1..]
                .split('"')
                .next()
                .filter(|_| rest[1..].contains('"'))
            else {
                return error(column, "this quotation mark is never closed");
            };
            (name, name.len() + 2)
        } else {
            let body = &rest[first.len_utf8()..];
            let length = body.find(|letter| !same_kind(letter)).unwrap_or(body.len());
            let length = first.len_utf8() + length;
            (&rest[..length], length)
        };
        if !first.is_whitespace() {
            found.push(Token {
                text: token,
                column,
                quoted: first == '"',
            });
        }
        column += rest[..length].chars().count();
        rest = &rest[length..];
    }
    Ok(found)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    next: usize,
    /// Column behind the text.
    end: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.next).copied()
    }

    /// The next token, if it is one of these words.
    fn take(&mut self, words: &[&str]) -> Option<Token<'t>> {
        let token = self.peek().filter(|token| token.is(words))?;
        self.next += 1;
        Some(token)
    }

    /// The next token, whatever it is; `wanted` says what is missing at the end.
    fn word(&mut self, wanted: &str) -> Result<Token<'t>> {
        match self.peek() {
            Some(token) if !token.is(&["(", ")"]) => {
                self.next += 1;
                Ok(token)
            }
            Some(token) => error(
                token.column,
                format!("{wanted} was expected, not `{}`", token.text),
            ),
            None => error(self.end, format!("{wanted} is missing at the end")),
        }
    }

    fn any(&mut self) -> Result<Expr> {
        let mut parts = vec![self.all()?];
        while self.take(&["or", "|", "||"]).is_some() {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Expr::Any))
    }

    fn all(&mut self) -> Result<Expr> {
        let mut parts = vec![self.not()?];
        loop {
            let joined = self.take(&["and", "&", "&&"]).is_some();
            let ends = self
                .peek()
                .is_none_or(|token| token.is(&["or", "|", "||", ")"]));
            if !joined && ends {
                return Ok(single_or(parts, Expr::All));
            }
            parts.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr> {
        self.depth += 1;
        let expr = if self.depth > DEPTH_MAX {
            error(
                self.peek().map_or(self.end, |token| token.column),
                format!("more than {DEPTH_MAX} levels of `not` and parentheses"),
            )
        } else if self.take(&["not", "!"]).is_some() {
            self.not().map(|expr| Expr::Not(Box::new(expr)))
        } else if let Some(open) = self.take(&["("]) {
            self.parenthesis(open)
        } else {
            self.test()
        };
        self.depth -= 1;
        expr
    }

    fn parenthesis(&mut self, open: Token<'_>) -> Result<Expr> {
        let expr = self.any()?;
        match self.take(&[")"]) {
            Some(_) => Ok(expr),
            None => error(open.column, "this parenthesis is never closed"),
        }
    }

    fn test(&mut self) -> Result<Expr> {
        let word = self.word("a test such as `dport = :443`")?;
        let test = match word.text {
            _ if word.quoted => return error(word.column, "a quoted name is not a test"),
            "sport" => return self.port(Side::Local),
            "dport" => return self.port(Side::Remote),
            "port" => return self.port(Side::Either),
            "src" => return self.equality(|token| address(Side::Local, token)),
            "dst" => return self.equality(|token| address(Side::Remote, token)),
            "pid" => {
                return self.equality(|token| number(token, "a process id").map(process));
            }
            "uid" => return self.equality(|token| number(token, "a user id").map(Test::Uid)),
            "comm" => return self.equality(|token| Ok(Test::Command(token.text.into()))),
            "cgroup" => return self.equality(cgroup),
            "state" => return self.equality(state),
            _ => bare(word)?,
        };
        Ok(Expr::Test(test))
    }

    /// `sport = :443`, `sport :443`, `sport >= 1024`.
    fn port(&mut self, side: Side) -> Result<Expr> {
        let comparison = match self.peek().filter(|token| !token.quoted) {
            Some(token) => comparison(token.text),
            None => None,
        };
        if comparison.is_some() {
            self.next += 1;
        }
        let port = port(self.word("a port such as `:443`")?)?;
        let comparison = comparison.unwrap_or(Comparison::Equal);
        // With two ends "differs" means that neither has it.
        if side == Side::Either && comparison == Comparison::NotEqual {
            let same = Expr::Test(Test::Port(side, Comparison::Equal, port));
            return Ok(Expr::Not(Box::new(same)));
        }
        Ok(Expr::Test(Test::Port(side, comparison, port)))
    }

    /// A test that knows only "is" and "is not".
    fn equality(&mut self, read: impl FnOnce(Token<'t>) -> Result<Test>) -> Result<Expr> {
        let operator = self
            .peek()
            .filter(|token| !token.quoted)
            .and_then(|token| Some((token, comparison(token.text)?)));
        let negated = match operator {
            None => false,
            Some((_, Comparison::Equal)) => {
                self.next += 1;
                false
            }
            Some((_, Comparison::NotEqual)) => {
                self.next += 1;
                true
            }
            Some((token, _)) => {
                return error(
                    token.column,
                    format!("`{}` compares only ports; use `=` or `!=`", token.text),
                );
            }
        };
        let test = Expr::Test(read(self.word("a value")?)?);
        Ok(if negated {
            Expr::Not(Box::new(test))
        } else {
            test
        })
    }
}

fn single_or(mut parts: Vec<Expr>, join: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.pop().expect("there is one"),
        _ => join(parts),
    }
}

fn comparison(text: &str) -> Option<Comparison> {
    Some(match text {
        "=" | "==" | "eq" | "is" => Comparison::Equal,
        "!=" | "ne" | "neq" => Comparison::NotEqual,
        "<" | "lt" => Comparison::Less,
        "<=" | "le" | "leq" => Comparison::LessOrEqual,
        ">" | "gt" => Comparison::Greater,
        ">=" | "ge" | "geq" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// An address, a port or both, at either end.
fn bare(word: Token<'_>) -> Result<Test> {
    let looks_like_address = word.text.contains(['.', ':', '/', '[']);
    if looks_like_address || matches!(word.text, "localhost" | "*") {
        return address(Side::Either, word);
    }
    if word.text.bytes().all(|byte| byte.is_ascii_digit()) {
        return error(
            word.column,
            format!("`{0}` is ambiguous: write `:{0}` or `pid = {0}`", word.text),
        );
    }
    let state = STATES.iter().find(|(name, _)| *name == word.text);
    let meant = match state {
        Some((name, _)) => Some(format!("state {name}")),
        None => nearest_word(word.text, KEYWORDS.into_iter()).map(String::from),
    };
    if meant.is_none() {
        let text = word.text;
        return error(
            word.column,
            format!(
                "unknown test `{text}`; write `comm = {text}` for a program, `:443` for a port"
            ),
        );
    }
    error(word.column, unknown("test", word.text, meant.as_deref()))
}

fn unknown(what: &str, text: &str, meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("unknown {what} `{text}`; did you mean `{meant}`?"),
        None => format!("unknown {what} `{text}`; write for example `dport = :443`"),
    }
}

/// Also finds words whose letters were only exchanged, such as `dprot`.
fn nearest_word<'c>(
    word: &str,
    candidates: impl Iterator<Item = &'c str> + Clone,
) -> Option<&'c str> {
    let sorted = |word: &str| {
        let mut letters = word.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    nearest(word, candidates.clone()).or_else(|| {
        candidates
            .into_iter()
            .find(|candidate| sorted(candidate) == sorted(word))
    })
}

fn process(pid: u32) -> Test {
    Test::Pid(pid, None)
}

fn number(token: Token<'_>, what: &str) -> Result<u32> {
    match token.text.parse() {
        Ok(number) => Ok(number),
        Err(_) => error(token.column, format!("`{}` is not {what}", token.text)),
    }
}

fn port(token: Token<'_>) -> Result<u16> {
    let text = token.text.strip_prefix(':').unwrap_or(token.text);
    if let Ok(port) = text.parse() {
        return Ok(port);
    }
    if let Some((_, port)) = PORTS.iter().find(|(name, _)| *name == text) {
        return Ok(*port);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return error(token.column, format!("port {text} is above 65535"));
    }
    let meant = nearest_word(text, PORTS.iter().map(|(name, _)| *name));
    match meant {
        Some(_) => error(token.column, unknown("port", text, meant)),
        None => error(
            token.column,
            format!("unknown port `{text}`; give its number, such as `:443`"),
        ),
    }
}

fn state(token: Token<'_>) -> Result<Test> {
    if let Some((_, states)) = STATES.iter().find(|(name, _)| *name == token.text) {
        return Ok(Test::State(states.to_vec()));
    }
    let names = || STATES.iter().map(|(name, _)| *name);
    let message = match nearest_word(token.text, names()) {
        Some(name) => unknown("state", token.text, Some(name)),
        None => {
            let all: Vec<_> = names().collect();
            format!(
                "unknown state `{}`; there are {}",
                token.text,
                all.join(", ")
            )
        }
    };
    error(token.column, message)
}

fn cgroup(token: Token<'_>) -> Result<Test> {
    let path = token.text.trim_matches('/');
    Ok(Test::Cgroup {
        path: if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        },
        id: None,
    })
}

fn address(side: Side, token: Token<'_>) -> Result<Test> {
    let (host, port_text) = split_port(token)?;
    let port = match port_text {
        Some(text) if text != "*" => Some(port(Token { text, ..token })?),
        _ => None,
    };
    let prefixes = match host {
        "" | "*" => Vec::new(),
        "localhost" => vec![
            Prefix {
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                length_bits: 8,
            },
            Prefix {
                address: IpAddr::V6(Ipv6Addr::LOCALHOST),
                length_bits: 128,
            },
        ],
        host => vec![prefix(Token {
            text: host,
            ..token
        })?],
    };
    Ok(Test::Address(side, Address { prefixes, port }))
}

/// `HOST`, `HOST:PORT`, `:PORT`, `[V6]:PORT`, `V6`.
fn split_port(token: Token<'_>) -> Result<(&str, Option<&str>)> {
    if let Some(inner) = token.text.strip_prefix('[') {
        let Some((host, rest)) = inner.split_once(']') else {
            return error(token.column, "`[` without `]`");
        };
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => error(token.column, "write `[ADDRESS/LENGTH]:PORT`"),
        };
    }
    match token.text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((token.text, None)), // IPv6
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((token.text, None)),
    }
}

fn prefix(token: Token<'_>) -> Result<Prefix> {
    let (host, length) = match token.text.split_once('/') {
        Some((host, length)) => (host, Some(length)),
        None => (token.text, None),
    };
    let Ok(address) = host.parse::<IpAddr>() else {
        return error(
            token.column,
            format!("`{host}` is not an address (names are not looked up: `getent hosts` does)"),
        );
    };
    // sock_diag shows mapped addresses as IPv4, and so do we.
    let address = address.to_canonical();
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length_bits = match length.map(str::parse::<u32>) {
        None => bits,
        Some(Ok(length)) if length <= bits => length,
        Some(_) => {
            return error(
                token.column,
                format!("the prefix length of `{}` is not 0 to {bits}", token.text),
            );
        }
    };
    Ok(Prefix {
        address,
        length_bits,
    })
}
