//! The page in the tree is of these sources; that its engine is, the tests of the program tell,
//! which open it in a browser.

const PAGE: &str = include_str!("../../../docs/play/index.html");

#[test]
fn the_page_is_of_these_sources() {
    let parts = [
        ("style", include_str!("../../page/assets/report.css")),
        ("style", include_str!("../page/play.css")),
        ("script", include_str!("../page/play.js")),
    ];
    for (what, part) in parts {
        assert!(PAGE.contains(part), "another {what}: run .ci/play");
    }
    let markup = include_str!("../page/play.html");
    for piece in markup.split(['{', '}']).step_by(2) {
        assert!(PAGE.contains(piece), "other markup: run .ci/play: {piece}");
    }
}

/// The page is complete without a network, and sends nothing.
#[test]
fn the_page_loads_nothing() {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; worker-src blob:; script-src 'sha256-";
    assert!(PAGE.contains(policy));
    let (page, _) = PAGE.split_once("id=\"engine\"").expect("the engine");
    for word in [" src=", "href=", "url(", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
}
