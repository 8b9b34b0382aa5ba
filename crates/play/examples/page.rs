//! Puts the page together: markup, style, script and the compiled engine in one file that needs no
//! network. `.ci/play` runs it.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use zopfli::{Format, Options};

const MARKUP: &str = include_str!("../page/play.html");
const SCRIPT: &str = include_str!("../page/play.js");
/// That of the reports, and what this page has beside it.
const STYLE: [&str; 2] = [
    include_str!("../../page/assets/report.css"),
    include_str!("../page/play.css"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, page] = &arguments[..] else {
        eprintln!("usage: page ENGINE.wasm PAGE.html");
        return ExitCode::from(2);
    };
    match std::fs::read(engine).and_then(|engine| std::fs::write(page, assembled(&engine)?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{page} from {engine}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn assembled(engine: &[u8]) -> std::io::Result<String> {
    // Slower than others by seconds, for a smaller page, and a smaller program that carries it.
    let mut packed = Vec::new();
    zopfli::compress(Options::default(), Format::Gzip, engine, &mut packed)?;
    let engine = BASE64.encode(packed);
    // Only this script may run, and it may load nothing.
    let script = BASE64.encode(Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; worker-src blob:; \
         script-src 'sha256-{script}' 'wasm-unsafe-eval'"
    );
    Ok(MARKUP
        .replace("{policy}", &policy)
        .replace("{style}", &STYLE.concat())
        .replace("{engine}", &engine)
        .replace("{script}", SCRIPT))
}
