//! Chooses the figure for a metric of many cells: bars without axes, lines over one, a field over
//! two.

use std::collections::{BTreeMap, BTreeSet};

use base::human;
use lab::{EngineName, axis_number};

use super::words::number_name;
use super::{Axis, Bar, BarGroup, Bars, Heat, Line, Lines, Part, Spot};

/// From this ratio of largest to smallest on, an axis is one of logarithms.
const LOG_RATIO: f64 = 20.0;
/// Bars of a picture; more are read in the table.
const BARS_MAX: usize = 40;
/// Lines of a picture.
const LINES_MAX: usize = 8;
/// Fields of colours for one number.
const FIELDS_MAX: usize = 6;
/// Between a number and the variant by whose it is divided.
pub const OVER: &str = " / that of ";

/// One number of one cell.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Its variant, empty where there are none.
    pub variant: String,
    /// Engine.
    pub engine: String,
    /// Keys and values of the sweep.
    pub axes: Vec<(String, String)>,
    /// Its name in scenario files, and with [`OVER`] that of what it is divided by.
    pub metric: String,
    /// One of [`lab::show::show_value`].
    pub unit: &'static str,
    /// `None` where the cell has no usable run.
    pub value: Option<f64>,
    /// Interval of the true value.
    pub range: Option<(f64, f64)>,
    /// Published value, where there is one.
    pub published: Option<(f64, String)>,
}

impl Observation {
    fn axis(&self, key: &str) -> Option<&str> {
        let found = self.axes.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }
}

/// The name of each: variant and engine, as far as others have other ones.
fn names(seen: &[&Observation]) -> Vec<String> {
    let several =
        |read: fn(&Observation) -> &str| distinct(seen.iter().map(|one| read(one))).len() > 1;
    let (variants, engines) = (several(|one| &one.variant), several(|one| &one.engine));
    let name = |one: &&Observation| match (variants, engines) {
        (true, true) => format!("{}, {}", one.variant, one.engine),
        (true, false) => one.variant.clone(),
        (false, _) => one.engine.clone(),
    };
    seen.iter().map(name).collect()
}

/// A picture for each number, where one shows more than a table does.
pub fn pictures(observations: &[Observation]) -> Vec<Part> {
    let mut parts = Vec::new();
    for metric in distinct(observations.iter().map(|seen| seen.metric.as_str())) {
        let of_metric = observations.iter().filter(|seen| seen.metric == metric);
        let of_metric: Vec<&Observation> = of_metric.collect();
        if of_metric.iter().all(|seen| seen.value.is_none()) {
            continue;
        }
        let axes = of_metric.iter().flat_map(|seen| &seen.axes);
        let mut keys = distinct(axes.map(|(key, _)| key.as_str()));
        // What no cell varies is not an axis.
        keys.retain(|key| distinct(of_metric.iter().filter_map(|seen| seen.axis(key))).len() > 1);
        match keys[..] {
            [] => parts.extend(bars(metric, &of_metric, None)),
            [key] => {
                let lines = lines(metric, &of_metric, key);
                parts.extend(lines.or_else(|| bars(metric, &of_metric, Some(key))));
            }
            [y, x] => parts.extend(fields(metric, &of_metric, (x, y))),
            _ => {}
        }
    }
    parts
}

/// Each once, in the order of appearance.
fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut known = BTreeSet::new();
    texts.filter(|text| known.insert(*text)).collect()
}

/// A group for each variant or value of the axis, a bar for each engine.
fn bars(metric: &str, seen: &[&Observation], key: Option<&str>) -> Option<Part> {
    let seen: Vec<&Observation> = seen
        .iter()
        .copied()
        .filter(|one| one.value.is_some())
        .collect();
    // One bar says something beside a published number alone.
    let bars_min = match seen.iter().any(|one| one.published.is_some()) {
        true => 1,
        false => 2,
    };
    if !(bars_min..=BARS_MAX).contains(&seen.len()) {
        return None;
    }
    let name = |one: &Observation| {
        let axis = key.and_then(|key| one.axis(key)).map(str::to_owned);
        let variant = Some(one.variant.clone()).filter(|variant| !variant.is_empty());
        let parts: Vec<String> = variant.into_iter().chain(axis).collect();
        parts.join(", ")
    };
    let mut groups: Vec<BarGroup> = Vec::new();
    for one in &seen {
        let bar = Bar {
            name: one.engine.clone(),
            value: one.value?,
            range: one.range,
            colour: colour(&one.engine),
        };
        let name = name(one);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.bars.push(bar),
            None => groups.push(BarGroup {
                name,
                bars: vec![bar],
                published: one.published.clone(),
            }),
        }
    }
    Some(Part::Bars(Bars {
        title: words(metric),
        unit: seen.first()?.unit,
        groups,
    }))
}

/// An engine has one colour in all pictures of a page, whichever others there are.
fn colour(engine: &str) -> usize {
    let is_it = |known: &EngineName| known.name() == engine;
    EngineName::ALL.iter().position(is_it).unwrap_or(0)
}

/// A line for each variant and engine; `None` where the axis has no numbers of one unit.
fn lines(metric: &str, seen: &[&Observation], key: &str) -> Option<Part> {
    let mut unit = None;
    let mut lines: Vec<Line> = Vec::new();
    for (one, name) in seen.iter().zip(names(seen)) {
        let (x, unit_of_x) = axis_number(one.axis(key)?)?;
        // 100 packets and 64 KiB have no common axis.
        if *unit.get_or_insert(unit_of_x) != unit_of_x {
            return None;
        }
        let spot = Spot {
            x,
            y: one.value,
            range: one.range,
        };
        match lines.iter().position(|known| known.name == name) {
            Some(line) => lines[line].spots.push(spot),
            None if lines.len() == LINES_MAX => return None,
            None => lines.push(Line {
                name,
                spots: vec![spot],
            }),
        }
    }
    let published = seen.iter().filter_map(|one| one.published.clone());
    let mut references: Vec<(f64, String)> = Vec::new();
    for (value, text) in published {
        if references.iter().all(|(known, _)| *known != value) {
            references.push((value, format!("published {text}")));
        }
    }
    let spans = |read: fn(&Spot) -> Option<f64>| {
        let all = || lines.iter().flat_map(|line| &line.spots).filter_map(read);
        let (low, high) = (
            all().fold(f64::MAX, f64::min),
            all().fold(f64::MIN, f64::max),
        );
        low > 0.0 && high / low >= LOG_RATIO
    };
    let (x_is_log, y_is_log) = (spans(|spot| Some(spot.x)), spans(|spot| spot.y));
    Some(Part::Lines(Lines {
        title: format!("{} over {key}", words(metric)),
        x: Axis {
            name: key.to_owned(),
            unit: unit?,
            is_log: x_is_log,
        },
        y: Axis {
            name: words(metric),
            unit: seen.first()?.unit,
            is_log: y_is_log,
        },
        lines: with_gaps(lines),
        references,
    }))
}

/// Gives each line a gap where others have a value and it has none.
fn with_gaps(mut lines: Vec<Line>) -> Vec<Line> {
    let mut places: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.spots)
        .map(|spot| spot.x)
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    lines.retain(|line| line.spots.iter().any(|spot| spot.y.is_some()));
    for Line { spots, .. } in &mut lines {
        let known: BTreeSet<u64> = spots.iter().map(|spot| spot.x.to_bits()).collect();
        let missing = places.iter().filter(|x| !known.contains(&x.to_bits()));
        spots.extend(missing.map(|x| Spot {
            x: *x,
            y: None,
            range: None,
        }));
        spots.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// A field for each variant and engine.
fn fields(metric: &str, seen: &[&Observation], (x, y): (&str, &str)) -> Vec<Part> {
    let named = names(seen);
    let names = distinct(named.iter().map(String::as_str));
    let columns = distinct(seen.iter().filter_map(|one| one.axis(x)));
    let rows = distinct(seen.iter().filter_map(|one| one.axis(y)));
    // A sweep has as many cells as a field has places: none may be looked for among all.
    let mut values: BTreeMap<(&str, &str, &str), Option<f64>> = BTreeMap::new();
    for (one, name) in seen.iter().zip(&named) {
        if let Some((row, column)) = one.axis(y).zip(one.axis(x)) {
            values.entry((name, row, column)).or_insert(one.value);
        }
    }
    let left_out = names.len().saturating_sub(FIELDS_MAX);
    let rest = (left_out > 0).then(|| {
        let fields = human::count(left_out as u64, "more field");
        Part::Text(format!(
            "{}: {fields} of other variants or engines",
            words(metric)
        ))
    });
    let fields = names.iter().take(FIELDS_MAX).map(|name| {
        let value = |row: &str, column: &str| values.get(&(*name, row, column)).copied().flatten();
        let of_row = |row: &&str| columns.iter().map(|column| value(row, column)).collect();
        Part::Heat(Heat {
            title: format!("{} ({name})", words(metric)),
            x_name: x.to_owned(),
            y_name: y.to_owned(),
            x: columns.iter().map(|&column| column.to_owned()).collect(),
            y: rows.iter().map(|&row| row.to_owned()).collect(),
            unit: seen.first().map_or("", |one| one.unit),
            values: rows.iter().map(of_row).collect(),
        })
    });
    fields.chain(rest).collect()
}

/// The name of a number as people read it; its unit stands in the picture.
fn words(metric: &str) -> String {
    match metric.split_once(OVER) {
        Some((metric, over)) => format!("{}{OVER}{over}", number_name(metric)),
        None => number_name(metric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(variant: &str, axes: &[(&str, &str)], value: f64) -> Observation {
        Observation {
            variant: variant.into(),
            engine: "virtual".into(),
            axes: axes
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            metric: "goodput_bps".into(),
            unit: "bit/s",
            value: Some(value),
            ..Observation::default()
        }
    }

    #[test]
    fn the_axes_decide_the_picture() {
        let none = pictures(&[seen("a", &[], 1.0), seen("b", &[], 2.0)]);
        assert!(
            matches!(&none[..], [Part::Bars(bars)] if bars.groups.len() == 2),
            "{none:?}"
        );
        let rtt = |value, rtt| seen("a", &[("path.rtt", rtt), ("seed", "1")], value);
        let one = pictures(&[rtt(2.0, "10ms"), rtt(1.0, "1ms")]);
        let [Part::Lines(lines)] = &one[..] else {
            panic!("{one:?}");
        };
        let x: Vec<f64> = lines.lines[0].spots.iter().map(|spot| spot.x).collect();
        assert_eq!((x, lines.x.unit), (vec![1_000.0, 10_000.0], "us"));
        let other = |value, rtt| seen("b", &[("path.rtt", rtt)], value);
        let two = pictures(&[rtt(2.0, "1ms"), rtt(1.0, "10ms"), other(5.0, "10ms")]);
        let [Part::Lines(lines)] = &two[..] else {
            panic!("{two:?}");
        };
        let values = |line: &Line| line.spots.iter().map(|spot| spot.y).collect::<Vec<_>>();
        let values: Vec<_> = lines.lines.iter().map(values).collect();
        assert_eq!(values, [[Some(2.0), Some(1.0)], [None, Some(5.0)]]);
        let words = |value, name| seen("a", &[("client.congestion", name)], value);
        let one = pictures(&[words(2.0, "cubic"), words(1.0, "bbr")]);
        assert!(matches!(&one[..], [Part::Bars(_)]), "{one:?}");
        let two = |rtt, rate| seen("a", &[("path.rtt", rtt), ("path.rate", rate)], 5.0);
        let two = pictures(&[two("1ms", "1mbit"), two("2ms", "2mbit")]);
        let [Part::Heat(heat)] = &two[..] else {
            panic!("{two:?}");
        };
        assert_eq!(heat.values, [[Some(5.0), None], [None, Some(5.0)]]);
        assert!(
            pictures(&[seen("", &[], 1.0)]).is_empty(),
            "one number is not a plot"
        );
    }

    #[test]
    fn each_place_of_a_field_is_found_at_once() {
        // Were all cells looked through for each place, and again for its name, this would not end.
        let size = 100_u32;
        let cells = (0..size * size).map(|index| {
            let (row, column) = (index / size, index % size);
            let axes = [
                ("path.rate", format!("{}mbit", row + 1)),
                ("path.rtt", format!("{}ms", column + 1)),
            ];
            let axes = axes.each_ref().map(|(key, value)| (*key, value.as_str()));
            seen("a", &axes, f64::from(index))
        });
        let parts = pictures(&cells.collect::<Vec<_>>());
        let [Part::Heat(heat)] = &parts[..] else {
            panic!("{} pictures", parts.len());
        };
        let values: Vec<Option<f64>> = heat.values.iter().flatten().copied().collect();
        let expected: Vec<Option<f64>> = (0..size * size).map(|i| Some(f64::from(i))).collect();
        assert_eq!(values, expected);
        assert_eq!((heat.x.len(), heat.y.len()), (100, 100));
    }

    #[test]
    fn different_units_share_no_axis() {
        let queue = |value, queue| seen("a", &[("path.queue", queue)], value);
        let mixed = pictures(&[queue(1.0, "100p"), queue(2.0, "64KiB")]);
        assert!(matches!(&mixed[..], [Part::Bars(_)]), "{mixed:?}");
        let same = pictures(&[queue(1.0, "100p"), queue(2.0, "200p")]);
        assert!(
            matches!(&same[..], [Part::Lines(lines)] if lines.x.unit == "packets"),
            "{same:?}"
        );
    }
}
