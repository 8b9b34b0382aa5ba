use super::*;

#[test]
fn a_page_says_what_may_run_in_it() {
    let page = render(&Page::default());
    let policy = "default-src 'none'; script-src 'sha256-";
    assert!(
        page.contains(policy) || page.contains(&policy.replace('\'', "&#39;")),
        "{policy}"
    );
    // Nothing but what stands in the file: no attribute that loads or runs.
    let markup = page.replace(SCRIPT, "");
    for attribute in [" src=", " style=", " onclick=", "@import", "url("] {
        assert!(!markup.contains(attribute), "{attribute}");
    }
    for part in [SCRIPT, STYLE] {
        assert!(!part.contains("</s"), "it would end its element");
    }
}

#[test]
fn names_cannot_become_markup() {
    let evil = "</script><img src=x onerror=alert(1)>";
    let page = render(&Page {
        title: evil.into(),
        parts: vec![
            Part::Text(evil.into()),
            Part::Series(Box::new(Series {
                title: evil.into(),
                points: vec![
                    lab::Point::default(),
                    lab::Point {
                        at_us: 5,
                        ..lab::Point::default()
                    },
                ],
                references: vec![(5.0, evil.into())],
                ..Series::default()
            })),
            Part::Table(Table {
                head: vec![evil.into()],
                rows: vec![vec![Cell::text(evil)]],
                ..Table::default()
            }),
            Part::Heat(Heat {
                title: evil.into(),
                x: vec![evil.into()],
                y: vec![evil.into()],
                values: vec![vec![Some(1.0)]],
                ..Heat::default()
            }),
        ],
        ..Page::default()
    });
    assert!(!page.contains("<img"), "{page}");
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn names_cannot_turn_the_text_around() {
    let page = render(&Page {
        title: "dhss\u{202e}gnp.\u{9b}2J".into(),
        ..Page::default()
    });
    assert!(page.contains("dhss\u{fffd}gnp.\u{fffd}2J"), "{page}");
    assert!(page.contains(SCRIPT) && page.contains(STYLE));
}

#[test]
fn numbers_travel_with_their_text() {
    let page = render(&Page {
        parts: vec![Part::Table(Table {
            head: vec!["response".into()],
            rows: vec![
                vec![Cell::number("us", Some(44_012.0))],
                vec![Cell::number("us", None)],
            ],
            ..Table::default()
        })],
        ..Page::default()
    });
    assert!(
        page.contains("<data value=\"44012\">44.0 ms</data>"),
        "{page}"
    );
}

#[test]
fn a_large_table_is_written_row_by_row() {
    // Were all rows read again for each cell, this would not end.
    let rows = (0..50_000_u32).map(|row| {
        let row = f64::from(row);
        vec![Cell::number("us", Some(row)), Cell::text("a")]
    });
    let page = render(&Page {
        parts: vec![Part::Table(Table {
            head: vec!["time".into(), "name".into()],
            rows: rows.collect(),
            ..Table::default()
        })],
        ..Page::default()
    });
    assert_eq!(page.matches("<td class=\"number\">").count(), 50_000);
    assert_eq!(page.matches("<td class=\"short\">").count(), 50_000);
}
