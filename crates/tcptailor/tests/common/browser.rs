//! A page as a browser shows it. Without Chromium this says that it was skipped, and fails instead
//! where `REQUIRE_BROWSER` is set.

use std::path::Path;
use std::process::Command;

/// Names under which the browser is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What a browser made of a page.
pub(crate) struct Shown {
    pub(crate) dom: String,
    /// What pages wrote on the console, refusals by the policy and failed loads among them.
    pub(crate) console: Vec<String>,
}

/// Opens a page without a network, `state` being what follows in its address (`#...`) or nothing;
/// `None`, with a word about it, where there is no browser.
pub(crate) fn open(page: &Path, state: &str) -> Option<Shown> {
    let profile = tempfile::tempdir().expect("a folder");
    for browser in BROWSERS {
        let output = Command::new(browser)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--virtual-time-budget=8000",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ])
            .args([
                "--enable-logging=stderr",
                "--window-size=1000,2000",
                "--dump-dom",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("file://{}{state}", page.display()))
            .output();
        let Ok(output) = output else {
            continue;
        };
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{browser}: {log}");
        let console = log.lines().filter(|line| line.contains("CONSOLE"));
        return Some(Shown {
            console: console.map(str::to_owned).collect(),
            dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        });
    }
    let message = "no Chromium; Debian has it as `chromium`";
    assert!(std::env::var_os("REQUIRE_BROWSER").is_none(), "{message}");
    println!("skipped: {message}");
    None
}

/// What stands between two texts, wherever both occur.
pub(crate) fn between<'t>(text: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    let pieces = text.split(begin).skip(1);
    pieces
        .filter_map(|piece| piece.split_once(end))
        .map(|(inside, _)| inside)
        .collect()
}

/// The numbers that it shows, as they are.
pub(crate) fn numbers(dom: &str) -> Vec<f64> {
    let values = between(dom, "<data value=\"", "\"");
    values
        .into_iter()
        .map(|value| value.parse().expect("a number"))
        .collect()
}
