//! Recordings with absurd numbers: the doctor judges or rejects them, without a panic and in
//! bounded memory.

use std::fmt::Write as _;

use base::Rng;
use doctor::recording::file;
use doctor::{Cases, Track};

use super::{recordings, text};

/// Numbers that are changed in a recording, at most, by turns. One that no field takes is enough
/// for a file to be refused, so that those with few changes are judged, and others seldom.
const CHANGES_MAX: [u64; 4] = [1, 2, 5, 60];
/// What may stand for a number.
const ABSURD: [&str; 9] = [
    "0",
    "1",
    "255",
    "65536",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "-1",
];

#[test]
fn absurd_numbers_are_judged_or_refused() {
    let mut judged = 0;
    for (name, most) in recordings().iter().zip(CHANGES_MAX.into_iter().cycle()) {
        let changed = changed(&text(name), most, &mut Rng::new(1, name));
        let Ok((recording, _)) = file::read(&mut changed.as_bytes()) else {
            continue;
        };
        let cases = Cases::of(&recording);
        for case in &cases.select(|_: &Track| true) {
            drop(case.diagnose());
            let shares = doctor::Shares::of_timeline(&case.timeline());
            let unclear = shares.map_or(0.0, |shares| shares.unclear());
            assert!((0.0..=1.0).contains(&unclear), "{name}: {unclear}");
        }
        drop(doctor::diagnose_host(cases.host()));
        judged += 1;
    }
    assert!(
        judged > recordings().len() / 4,
        "only {judged} could be read"
    );
}

/// With at most this many of its numbers replaced.
fn changed(text: &str, most: u64, rng: &mut Rng) -> String {
    let mut places: Vec<u64> = (0..1 + rng.below(most))
        .map(|_| rng.below(text.len() as u64))
        .collect();
    places.sort_unstable();
    let mut changed = String::with_capacity(text.len() + 1024);
    let mut copied = 0;
    for place in places {
        let from = copied.max(place as usize);
        let Some((start, end)) = number_after(text, from) else {
            break;
        };
        let with = ABSURD[rng.below(ABSURD.len() as u64) as usize];
        write!(changed, "{}{with}", &text[copied..start]).expect("a String grows");
        copied = end;
    }
    changed + &text[copied..]
}

/// The next value that is a number: digits behind a colon or between brackets.
fn number_after(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = from.max(1);
    loop {
        while at < bytes.len() && !(bytes[at].is_ascii_digit() && b":[,".contains(&bytes[at - 1])) {
            at += 1;
        }
        let end = at
            + bytes[at.min(bytes.len())..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
        match bytes.get(end)? {
            b',' | b'}' | b']' => return Some((at, end)),
            // An address, a name.
            _ => at = end.max(at + 1),
        }
    }
}
