//! Limits of a sender over time: a strip, or an area of shares where several held between two
//! points. Each limit has a pattern beside its colour.

use std::collections::BTreeMap;

use base::{Limit, human};
use lab::Point;
use maud::{Markup, html};

use super::frame::{LEFT, RIGHT, n};
use super::scale::Scale;

/// Limits between two points, with their shares of that time, which add up to one. `None`: unknown.
/// Empty without samples.
pub type LimitShares = Vec<(Option<Limit>, f64)>;

/// Height of a strip, which knows one limit at a time.
const STRIP: f64 = 12.0;
/// Height of an area of shares, and of its title above it.
const AREA: f64 = 64.0;
const TITLE: f64 = 18.0;
/// Marks at the side of an area.
const SHARES_MARKED: [(f64, &str); 3] = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")];
/// A thinner part of an area does not show.
const SHARE_MIN: f64 = 0.001;

/// Side of the tile of a pattern.
const TILE: f64 = 8.0;
/// Patterns drawn over the colour of each limit, in a tile.
const PATTERNS: [(&str, &str); 13] = [
    ("application", ""),
    ("nagle", "M-2,2 2,-2M0,8 8,0M6,10 10,6"),
    ("cork", "M-2,6 2,10M0,0 8,8M6,-2 10,2"),
    ("peer-window", "M0,4H8"),
    ("congestion", "M4,0V8"),
    ("recovery", "M0,0 8,8M0,8 8,0"),
    ("send-buffer", "M0,4H8M4,0V8"),
    ("unacked-budget", "M3,4h2"),
    ("pacing", "M0,2h4M4,6h4"),
    ("buffer-pool", "M2,0v4M6,4v4"),
    ("interface", "M0,2H8M0,5H8"),
    ("handshake", "M0,6 4,2 8,6"),
    ("unknown", "M1,2h1M5,6h1"),
];

/// The limits of a plot over time.
#[derive(Debug)]
pub(super) struct Limits {
    stretches: Vec<Stretch>,
    /// Each limit with its share of the time, most first.
    totals: LimitShares,
    has_shares: bool,
}

/// The time between two points.
#[derive(Debug)]
struct Stretch {
    begin: f64,
    end: f64,
    shares: LimitShares,
}

impl Limits {
    /// Limits of points, or `shares` where there are as many.
    pub(super) fn of(points: &[Point], shares: &[LimitShares]) -> Self {
        let has_shares = shares.len() == points.len();
        let mut begin = 0.0;
        let mut stretches = Vec::new();
        for (index, point) in points.iter().enumerate() {
            let end = point.at_us as f64 / 1e6;
            let shares = match has_shares {
                true => shares[index].clone(),
                false => vec![(point.limit, 1.0)],
            };
            stretches.push(Stretch { begin, end, shares });
            begin = end;
        }
        Self {
            totals: totals(&stretches),
            stretches,
            has_shares,
        }
    }

    /// The same with these totals, where there are any; what they leave out stands behind them.
    pub(super) fn with_totals(self, totals: &LimitShares) -> Self {
        if totals.is_empty() {
            return self;
        }
        let is_told = |(limit, _): &(Option<Limit>, f64)| totals.iter().any(|(l, _)| l == limit);
        let others = self.totals.iter().filter(|one| !is_told(one));
        let others = others.map(|(limit, _)| (*limit, 0.0));
        Self {
            totals: totals.iter().copied().chain(others).collect(),
            ..self
        }
    }

    /// Whether any of them is known.
    pub(super) fn is_known(&self) -> bool {
        self.totals.iter().any(|(limit, _)| limit.is_some())
    }

    /// Units that the picture of them takes.
    pub(super) fn height(&self) -> f64 {
        match (self.is_known(), self.has_shares) {
            (false, _) => 0.0,
            (true, false) => STRIP,
            (true, true) => TITLE + AREA,
        }
    }

    /// Them over time, from `top` down.
    pub(super) fn picture(&self, x: &Scale, top: f64) -> Markup {
        match (self.is_known(), self.has_shares) {
            (false, _) => html! {},
            (true, false) => self.strip(x, top),
            (true, true) => self.area(x, top + TITLE),
        }
    }

    /// Neighbours with the same limit are one piece.
    fn strip(&self, x: &Scale, top: f64) -> Markup {
        let mut pieces: Vec<(f64, f64, Option<Limit>)> = Vec::new();
        for stretch in &self.stretches {
            let limit = stretch.shares.first().and_then(|(limit, _)| *limit);
            match pieces.last_mut() {
                Some(last) if last.2 == limit => last.1 = stretch.end,
                _ => pieces.push((stretch.begin, stretch.end, limit)),
            }
        }
        html! {
            @for (begin, end, limit) in pieces {
                @if let Some(limit) = limit {
                    rect fill=(fill(Some(limit))) x=(n(x.at(begin))) y=(n(top))
                        width=(n(x.at(end) - x.at(begin))) height=(n(STRIP)) {
                        title { (limit) }
                    }
                }
            }
            text.muted.end x=(n(LEFT - 6.0)) y=(n(top + 10.0)) { "limit" }
        }
    }

    /// One above the other, what held most at the bottom.
    fn area(&self, x: &Scale, top: f64) -> Markup {
        let y = |share: f64| top + AREA * (1.0 - share);
        html! {
            text x=(n(LEFT)) y=(n(top - 6.0)) { "what limited the sender" }
            @for (at, limit) in self.totals.iter().enumerate() {
                path.lims fill=(fill(limit.0)) d=(self.layer(at, x, &y)) {
                    title { (name(limit.0)) " " (human::share(limit.1)) }
                }
            }
            @for (share, label) in SHARES_MARKED {
                line.grid x1=(n(LEFT)) x2=(n(RIGHT)) y1=(n(y(share))) y2=(n(y(share))) {}
                text.muted.end x=(n(LEFT - 6.0)) y=(n(y(share) + 4.0)) { (label) }
            }
        }
    }

    /// The outline of one limit: a box for each time in which its part is the same.
    fn layer(&self, at: usize, x: &Scale, y: &dyn Fn(f64) -> f64) -> String {
        let share_of = |stretch: &Stretch, limit: Option<Limit>| {
            let of = stretch.shares.iter().filter(|(known, _)| *known == limit);
            of.map(|(_, share)| share).sum::<f64>()
        };
        let mut boxes: Vec<[String; 4]> = Vec::new();
        for stretch in &self.stretches {
            let below = self.totals[..at].iter();
            let below: f64 = below.map(|(limit, _)| share_of(stretch, *limit)).sum();
            let share = share_of(stretch, self.totals[at].0);
            if share < SHARE_MIN {
                continue;
            }
            let [begin, end] = [stretch.begin, stretch.end].map(|time| n(x.at(time)));
            let (low, high) = (n(y(below)), n(y((below + share).min(1.0))));
            match boxes.last_mut() {
                Some(last) if last[1] == begin && last[2] == low && last[3] == high => {
                    last[1] = end;
                }
                _ => boxes.push([begin, end, low, high]),
            }
        }
        let outline =
            |[begin, end, low, high]: &[String; 4]| format!("M{begin},{low}V{high}H{end}V{low}Z");
        boxes.iter().map(outline).collect()
    }

    /// Legend of the patterns, with shares of the whole time.
    pub(super) fn legend(&self) -> Markup {
        if !self.is_known() {
            return html! { p.muted { "What limits the sender does not show here." } };
        }
        html! {
            ul.legend aria-label="What limited the sender, with its share of the time" {
                @for (limit, share) in &self.totals {
                    li {
                        svg.swatch viewBox="0 0 14 14" aria-hidden="true" {
                            rect fill=(fill(*limit)) width="14" height="14" rx="2" {}
                        }
                        (name(*limit)) " " (human::share(*share))
                    }
                }
            }
        }
    }

    /// The same for who cannot see it.
    pub(super) fn words(&self) -> String {
        if !self.is_known() {
            return String::new();
        }
        let totals = self.totals.iter();
        let shares =
            totals.map(|(limit, share)| format!("{} {}", name(*limit), human::share(*share)));
        format!(" Limits: {}.", shares.collect::<Vec<_>>().join(", "))
    }
}

/// By time; what was not seen does not count.
fn totals(stretches: &[Stretch]) -> LimitShares {
    let mut times: BTreeMap<Option<Limit>, f64> = BTreeMap::new();
    for stretch in stretches {
        for (limit, share) in &stretch.shares {
            *times.entry(*limit).or_default() += share * (stretch.end - stretch.begin);
        }
    }
    let all: f64 = times.values().sum();
    let share = |(limit, time): (Option<Limit>, f64)| match all > 0.0 {
        true => (limit, time / all),
        false => (limit, 0.0),
    };
    let mut totals: LimitShares = times.into_iter().map(share).collect();
    totals.sort_by(|a, b| b.1.total_cmp(&a.1));
    totals
}

fn name(limit: Option<Limit>) -> &'static str {
    limit.map_or("unknown", Limit::name)
}

fn fill(limit: Option<Limit>) -> String {
    format!("url(#limit-{})", name(limit))
}

/// The patterns, once for all plots of a page.
pub(super) fn patterns() -> Markup {
    let side = n(TILE);
    html! {
        svg.patterns width="0" height="0" aria-hidden="true" {
            defs {
                @for (name, lines) in PATTERNS {
                    pattern id=(format!("limit-{name}")) width=(side) height=(side)
                        patternUnits="userSpaceOnUse" {
                        rect class=(format!("lim lim-{name}")) width=(side) height=(side) {}
                        path.hatch d=(lines) {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_us: u64, limit: Option<Limit>) -> Point {
        Point {
            at_us,
            limit,
            ..Point::default()
        }
    }

    #[test]
    fn each_limit_has_a_pattern_of_its_own() {
        let limits = Limit::ALL.map(Some).into_iter().chain([None]);
        let mut lines: Vec<&str> = Vec::new();
        for limit in limits {
            let known = PATTERNS.iter().find(|(known, _)| *known == name(limit));
            let (_, of_it) = known.unwrap_or_else(|| panic!("{limit:?} has none"));
            assert!(!lines.contains(of_it), "{limit:?}");
            lines.push(of_it);
        }
        assert_eq!(lines.len(), PATTERNS.len());
    }

    #[test]
    fn shares_are_those_of_the_time() {
        let (nagle, application) = (Some(Limit::Nagle), Some(Limit::Application));
        let points = [
            point(1_000_000, None),
            point(4_000_000, None),
            point(5_000_000, None),
        ];
        let shares = [
            vec![(nagle, 1.0)],
            vec![(nagle, 0.5), (application, 0.5)],
            // Nothing was seen.
            Vec::new(),
        ];
        let limits = Limits::of(&points, &shares);
        assert_eq!(limits.totals, [(nagle, 0.625), (application, 0.375)]);
        assert_eq!(limits.height(), TITLE + AREA);
        let x = Scale::new([5.0].into_iter(), false, (0.0, 50.0));
        let layer = |at| limits.layer(at, &x, &|share| 100.0 - 100.0 * share);
        assert_eq!(layer(0), "M0,100V0H10V100ZM10,100V50H40V100Z");
        assert_eq!(layer(1), "M10,50V0H40V50Z");
        assert_eq!(limits.words(), " Limits: nagle 62 %, application 38 %.");
    }

    #[test]
    fn where_no_limit_is_known_none_is_drawn() {
        let limits = Limits::of(&[point(1, None), point(2, None)], &[]);
        assert_eq!((limits.is_known(), limits.height()), (false, 0.0));
        assert_eq!(limits.words(), "");
        let limits = Limits::of(&[point(1, Some(Limit::Cork)), point(2, None)], &[]);
        assert_eq!((limits.is_known(), limits.height()), (true, STRIP));
        let strip = limits.picture(&Scale::new([2e-6].into_iter(), false, (0.0, 10.0)), 0.0);
        assert_eq!(strip.into_string().matches("<rect").count(), 1);
    }
}
