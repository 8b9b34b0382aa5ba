//! Names of numbers, in the words of tables on the screen and of pages.

/// `duration_us` as `duration`: the unit stands beside each value, and a ratio has none.
#[must_use]
pub fn number_name(metric: &str) -> String {
    let units = ["_us", "_bps", "_bytes"];
    let bare = units.iter().find_map(|unit| metric.strip_suffix(unit));
    bare.unwrap_or(metric).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_units() {
        let check = |metric: &str, expected: &str| assert_eq!(number_name(metric), expected);
        check("duration_us", "duration");
        check("response_p50_us", "response p50");
        check("retransmitted_segments", "retransmitted segments");
    }
}
