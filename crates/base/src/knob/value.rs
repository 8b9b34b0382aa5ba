//! Settings as values of knobs, and back.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::settings::{
    Completion, CongestionName, Detection, Ecn, HyStart, Nagle, Push, RtoRule, Validation,
};
use crate::{KnobValue, Rate};

/// How "no value" is written.
pub const NONE: &str = "none";

/// A type of a setting.
pub(super) trait Value: Sized {
    /// Converts to the value of a knob.
    fn show(&self) -> KnobValue;
    /// From the value of a knob, whose kind and range were checked.
    fn read(value: &KnobValue) -> Result<Self, String>;
}

/// A setting that is one of several names.
pub(super) trait Choice: Value {
    /// The names.
    const NAMES: &'static [&'static str];
}

pub(super) fn number_of(value: &KnobValue) -> Result<u64, String> {
    match value {
        KnobValue::Number(number) => Ok(*number),
        other => Err(format!("`{other}` is not a number")),
    }
}

pub(super) fn name_of(value: &KnobValue) -> Result<&str, String> {
    match value {
        KnobValue::Name(name) => Ok(name),
        other => Err(format!("`{other}` is not a name")),
    }
}

pub(super) fn is_none(value: &KnobValue) -> bool {
    matches!(value, KnobValue::Name(name) if name == NONE)
}

impl Value for bool {
    fn show(&self) -> KnobValue {
        KnobValue::Flag(*self)
    }

    fn read(value: &KnobValue) -> Result<Self, String> {
        match value {
            KnobValue::Flag(on) => Ok(*on),
            other => Err(format!("`{other}` is neither `on` nor `off`")),
        }
    }
}

macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl Value for $number {
            fn show(&self) -> KnobValue {
                KnobValue::Number((*self).into())
            }

            fn read(value: &KnobValue) -> Result<Self, String> {
                let number = number_of(value)?;
                Self::try_from(number).map_err(|_| format!("{number} is above {}", Self::MAX))
            }
        }
    )+ };
}
numbers!(u8, u16, u32);

impl Value for Duration {
    fn show(&self) -> KnobValue {
        KnobValue::Number(u64::try_from(self.as_micros()).unwrap_or(u64::MAX))
    }

    fn read(value: &KnobValue) -> Result<Self, String> {
        number_of(value).map(Self::from_micros)
    }
}

impl Value for Rate {
    fn show(&self) -> KnobValue {
        KnobValue::Number(self.bits_per_second())
    }

    fn read(value: &KnobValue) -> Result<Self, String> {
        number_of(value).map(Self::from_bits_per_second)
    }
}

impl<T: Value> Value for Option<T> {
    fn show(&self) -> KnobValue {
        self.as_ref()
            .map_or_else(|| KnobValue::Name(NONE.into()), Value::show)
    }

    fn read(value: &KnobValue) -> Result<Self, String> {
        if is_none(value) {
            Ok(None)
        } else {
            T::read(value).map(Some)
        }
    }
}

macro_rules! choices {
    ($($choice:ty { $($variant:ident = $name:literal),+ })+) => { $(
        impl Choice for $choice {
            const NAMES: &'static [&'static str] = &[$($name),+];
        }

        impl Value for $choice {
            fn show(&self) -> KnobValue {
                KnobValue::Name(match self { $(Self::$variant => $name),+ }.into())
            }

            fn read(value: &KnobValue) -> Result<Self, String> {
                match name_of(value)? {
                    $($name => Ok(Self::$variant),)+
                    other => Err(unknown_name(other, Self::NAMES)),
                }
            }
        }
    )+ };
}
choices! {
    Nagle { Off = "off", Rfc896 = "rfc896", Minshall = "minshall" }
    Push { EachWrite = "each_write", BufferEmpty = "buffer_empty", Never = "never" }
    Completion { Bsd = "bsd", Linux = "linux", Winsock = "winsock" }
    Ecn { Off = "off", Accept = "accept", Request = "request" }
    Detection { Rack = "rack", DupSack = "dupsack", NewReno = "newreno" }
    RtoRule { Rfc6298 = "rfc6298", Linux = "linux" }
    HyStart { Off = "off", Classic = "classic", PlusPlus = "plusplus" }
    Validation { Off = "off", Linux = "linux", Rfc7661 = "rfc7661" }
}

/// `reno` is what Linux calls NewReno.
impl Value for CongestionName {
    fn show(&self) -> KnobValue {
        let name = match self {
            Self::NewReno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::None => NONE,
        };
        KnobValue::Name(name.into())
    }

    fn read(value: &KnobValue) -> Result<Self, String> {
        match name_of(value)? {
            "reno" | "newreno" => Ok(Self::NewReno),
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            NONE => Ok(Self::None),
            other => Err(unknown_name(other, &["reno", "cubic", "bbr", NONE])),
        }
    }
}

pub(super) fn unknown_name(name: &str, names: &[&str]) -> String {
    format!("`{name}` is none of {}", names.join(", "))
}
