//! The first packets of a run on the page.

use lab::End;
use page::{Ladder, Part, Rung};

use crate::diagrams::{PacketDiagram, Row};

/// Its picture.
pub(super) fn part(diagram: &PacketDiagram) -> Part {
    let rung = |Row { time, from, words }| Rung {
        time,
        from: from.map(|end| match end {
            End::Client => 0,
            End::Server => 1,
        }),
        words,
    };
    Part::Ladder(Ladder {
        title: format!("{}: {}", diagram.variant, diagram.title),
        hosts: [End::Client, End::Server].map(|end| end.name().to_owned()),
        rungs: diagram.rows().into_iter().map(rung).collect(),
    })
}
