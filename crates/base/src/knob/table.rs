//! The knobs, a row each.

mod control;
mod data;
mod socket;
mod wider;

use super::{Kind, Knob, Scope, StackSite};

/// Largest buffer that the kernel's `int` options and sysctls hold.
const INT_MAX: u64 = i32::MAX as u64;
/// A second in microseconds.
const SECOND: u64 = 1_000_000;
/// An hour in microseconds.
const HOUR: u64 = 3600 * SECOND;

/// Defaults of a row: a setting of a single connection, on our stack only.
const ROW: Knob = Knob {
    name: "",
    kind: Kind::Flag,
    min: 0,
    max: 1,
    or_none: false,
    help: "",
    cite: "",
    scope: Scope::Socket,
    linux: None,
    stack: None,
    aliases: &[],
};

const COUNT: usize =
    socket::ROWS.len() + data::ROWS.len() + control::ROWS.len() + wider::ROWS.len();

/// Every knob, smallest scope first.
pub const KNOBS: &[Knob] = &joined([socket::ROWS, data::ROWS, control::ROWS, wider::ROWS]);

const fn joined(parts: [&[Knob]; 4]) -> [Knob; COUNT] {
    let mut all = [ROW; COUNT];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[at] = parts[part][row];
            at += 1;
            row += 1;
        }
        part += 1;
    }
    all
}

impl Knob {
    /// It may also be `none`; its help says what that means.
    const fn or_none(self) -> Self {
        Self {
            or_none: true,
            ..self
        }
    }

    /// Other names of the same thing.
    const fn alias(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the place in our stack.
    const fn on_stack(self, stack: Option<StackSite>) -> Self {
        Self { stack, ..self }
    }
}

/// A row of our stack alone, on or off.
const fn flag(
    name: &'static str,
    stack: Option<StackSite>,
    help: &'static str,
    cite: &'static str,
) -> Knob {
    Knob {
        name,
        help,
        cite,
        stack,
        ..ROW
    }
}

/// A row of our stack alone, one of several names.
const fn choice(
    name: &'static str,
    names: &'static [&'static str],
    stack: Option<StackSite>,
    help: &'static str,
    cite: &'static str,
) -> Knob {
    Knob {
        kind: Kind::Choice(names),
        max: 0,
        ..flag(name, stack, help, cite)
    }
}

/// Unit of a number, and its range.
struct Range {
    kind: Kind,
    min: u64,
    max: u64,
}

const fn count(min: u64, max: u64) -> Range {
    let kind = Kind::Count;
    Range { kind, min, max }
}

const fn bytes(min: u64, max: u64) -> Range {
    let kind = Kind::Bytes;
    Range { kind, min, max }
}

const fn micros(min: u64, max: u64) -> Range {
    let kind = Kind::Micros;
    Range { kind, min, max }
}

const fn rate(min: u64, max: u64) -> Range {
    let kind = Kind::Rate;
    Range { kind, min, max }
}

/// A row of our stack alone, a number.
const fn number(
    name: &'static str,
    Range { kind, min, max }: Range,
    stack: Option<StackSite>,
    help: &'static str,
    cite: &'static str,
) -> Knob {
    Knob {
        kind,
        min,
        max,
        ..flag(name, stack, help, cite)
    }
}
