//! A figure of a document on the page: throughput, and the round-trip times beside it.

use lab::EngineName;
use lab::show::show_value;
use page::{Axis, Heat, Line, Lines, Part, Spot};

use crate::figures::{Drawing, DrawnSpot};

/// From this ratio of largest to smallest on, an axis is one of logarithms.
const LOG_RATIO: f64 = 20.0;

/// Reads a number of a spot.
type Read = fn(&DrawnSpot) -> Option<f64>;

/// The two numbers of a round-trip time, with their names.
const RTTS: [(&str, Read); 2] = [
    ("mean", |spot| spot.rtt_mean_us),
    ("p99", |spot| spot.rtt_p99_us),
];

/// Its pictures: lines, or a field of colours for each engine and number.
pub(super) fn parts(drawing: &Drawing) -> Vec<Part> {
    if drawing.is_field {
        return fields(drawing);
    }
    let goodput = lines(drawing, &[("", |spot| spot.goodput_bps)]).map(|lines| Lines {
        title: drawing.title.clone(),
        y: axis("goodput", "bit/s"),
        references: drawing
            .published
            .iter()
            .map(|(value, of)| {
                let text = format!("published {} {of}", show_value("bit/s", *value));
                (*value, text)
            })
            .collect(),
        ..lines
    });
    let rtt = lines(drawing, &RTTS).map(|lines| Lines {
        title: format!("{}: round-trip time", drawing.id),
        y: axis("RTT", "us"),
        ..lines
    });
    goodput.into_iter().chain(rtt).map(Part::Lines).collect()
}

fn axis(name: &str, unit: &'static str) -> Axis {
    Axis {
        name: name.into(),
        unit,
        is_log: false,
    }
}

/// A line for each engine, each line of the drawing, and each number; `None` where nothing was
/// measured.
fn lines(drawing: &Drawing, numbers: &[(&str, Read)]) -> Option<Lines> {
    let mut lines: Vec<Line> = Vec::new();
    let mut unit = None;
    for (number, read) in numbers {
        for spot in &drawing.spots {
            let (x, unit_of_x) = spot.x_number()?;
            unit.get_or_insert(unit_of_x);
            let line = match drawing.line.is_empty() {
                true => String::new(),
                false => format!("{} {}", drawing.line, spot.line),
            };
            let name = [spot.engine.name(), &line, number];
            let name: Vec<&str> = name.into_iter().filter(|part| !part.is_empty()).collect();
            let name = name.join(", ");
            let spot = Spot {
                x,
                y: read(spot),
                range: None,
            };
            match lines.iter_mut().find(|known| known.name == name) {
                Some(line) => line.spots.push(spot),
                None => lines.push(Line {
                    name,
                    spots: vec![spot],
                }),
            }
        }
    }
    lines.retain(|line| line.spots.iter().any(|spot| spot.y.is_some()));
    let x = || lines.iter().flat_map(|line| &line.spots).map(|spot| spot.x);
    let (low, high) = (x().fold(f64::MAX, f64::min), x().fold(f64::MIN, f64::max));
    let is_log = low > 0.0 && high / low >= LOG_RATIO;
    (!lines.is_empty()).then(|| Lines {
        title: String::new(),
        x: Axis {
            name: drawing.x.clone(),
            unit: unit.unwrap_or_default(),
            is_log,
        },
        y: Axis::default(),
        lines,
        references: Vec::new(),
    })
}

fn fields(drawing: &Drawing) -> Vec<Part> {
    let goodput: (&str, &str, Read) = ("goodput", "bit/s", |spot| spot.goodput_bps);
    let [mean, p99] = RTTS;
    let numbers = [
        goodput,
        ("RTT, mean", "us", mean.1),
        ("RTT, p99", "us", p99.1),
    ];
    let of_engine = |engine| numbers.map(|number| Part::Heat(field(drawing, engine, number)));
    drawing.engines().into_iter().flat_map(of_engine).collect()
}

fn field(
    drawing: &Drawing,
    engine: EngineName,
    (name, unit, read): (&str, &'static str, Read),
) -> Heat {
    let (columns, rows) = drawing.places_on(engine);
    let value = |line: &str, x: &str| {
        let mut spots = drawing.spots.iter();
        let spot = spots.find(|spot| spot.engine == engine && spot.line == line && spot.x == x);
        spot.and_then(read)
    };
    let row = |line: &&str| columns.iter().map(|x| value(line, x)).collect();
    Heat {
        title: format!("{}: {name} ({engine})", drawing.title),
        x_name: drawing.x.clone(),
        y_name: drawing.line.clone(),
        values: rows.iter().map(row).collect(),
        x: columns.iter().map(|&x| x.to_owned()).collect(),
        y: rows.iter().map(|&line| line.to_owned()).collect(),
        unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(line: &str, x: &str, mbit: f64) -> DrawnSpot {
        DrawnSpot {
            engine: EngineName::Virtual,
            line: line.into(),
            x: x.into(),
            runs: 1,
            goodput_bps: Some(mbit * 1e6),
            rtt_mean_us: Some(1_500.0),
            rtt_p99_us: Some(2_000.0),
        }
    }

    fn drawing(is_field: bool, spots: Vec<DrawnSpot>) -> Drawing {
        Drawing {
            id: "FIG1".into(),
            title: "Figure 1".into(),
            x: "buffer".into(),
            line: if is_field {
                "MTU".into()
            } else {
                String::new()
            },
            is_field,
            published: vec![(501e6, "with default buffers".into())],
            spots,
        }
    }

    #[test]
    fn throughput_has_its_published_rates_and_the_rtt_beside_it() {
        let spots = vec![spot("", "64KiB", 200.0), spot("", "16MiB", 956.0)];
        let parts = parts(&drawing(false, spots));
        let [Part::Lines(goodput), Part::Lines(rtt)] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert!(goodput.x.is_log && goodput.x.unit == "bytes");
        let reference = (
            501e6,
            "published 501 Mbit/s with default buffers".to_owned(),
        );
        assert_eq!(goodput.references, [reference]);
        let names: Vec<&str> = rtt.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["virtual, mean", "virtual, p99"]);
    }

    #[test]
    fn a_field_has_a_picture_for_each_number() {
        let spots = vec![
            spot("1500", "1MiB", 3_300.0),
            spot("1500", "4MiB", 9_560.0),
            spot("9000", "4MiB", 9_930.0),
        ];
        let parts = parts(&drawing(true, spots));
        let [Part::Heat(goodput), Part::Heat(_), Part::Heat(p99)] = &parts[..] else {
            panic!("{parts:?}");
        };
        let mbit = |value: f64| Some(value * 1e6);
        assert_eq!(
            goodput.values,
            [[mbit(3_300.0), mbit(9_560.0)], [None, mbit(9_930.0)]]
        );
        assert_eq!(p99.unit, "us");
    }
}
