//! Judges every recording of the corpus again, and holds docs/accuracy.md against what comes out.
//!
//! `UPDATE_DOCS=1 cargo test -p tcptailor --test corpus` writes the page anew.

mod hostile;
mod judge;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use doctor::recording::file;
use doctor::{Cases, DIAGNOSES, Track, find_diagnosis};
use flate2::bufread::MultiGzDecoder;

use judge::{Answer, Judged, Label};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The labels by the name of the recording.
fn labels() -> BTreeMap<String, Label> {
    let text = fs::read_to_string(root().join("corpus/labels.json")).expect("the labels");
    let labels: Vec<Label> = serde_json::from_str(&text).expect("labels");
    labels
        .into_iter()
        .map(|label| (format!("{}.{}.rec", label.situation, label.end), label))
        .collect()
}

/// Names of the recordings in the order of the alphabet.
fn recordings() -> Vec<String> {
    let entries = fs::read_dir(root().join("corpus/recordings")).expect("the recordings");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    names
}

/// A recording as the text that it is.
fn text(name: &str) -> String {
    let path = root().join("corpus/recordings").join(name);
    let packed = BufReader::new(File::open(path).expect("a recording"));
    let mut text = String::new();
    MultiGzDecoder::new(packed)
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    text
}

/// What the doctor answers for each connection of a recording, and for its host.
fn answers(name: &str) -> Vec<Answer> {
    let text = text(name);
    let (recording, _) =
        file::read(&mut text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let cases = Cases::of(&recording);
    let of_flows = cases.select(|_: &Track| true);
    let of_host = doctor::diagnose_host(cases.host());
    of_flows
        .iter()
        .map(Answer::of_case)
        .chain(of_host.iter().map(Answer::of_host))
        .collect()
}

/// All of them, judged once for all tests.
static JUDGED: LazyLock<Vec<Judged>> = LazyLock::new(|| {
    let labels = labels();
    let judged = |name: &String| {
        let label = labels
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no label"));
        Judged::of(label.clone(), answers(name))
    };
    recordings().iter().map(judged).collect()
});

#[test]
fn the_page_tells_what_the_doctor_answers() {
    let page = page::render(&JUDGED);
    let path = root().join("docs/accuracy.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("the page");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/accuracy.md is not what the recordings give; if that is meant: \
         UPDATE_DOCS=1 cargo test -p tcptailor --test corpus\n{page}"
    );
}

/// What is reached stays reached: on the half that no threshold was fitted to, and on both.
#[test]
fn the_doctor_is_as_right_as_it_was() {
    for half in [page::Half::Fitted, page::Half::Unseen] {
        let of_half: Vec<&Judged> = JUDGED.iter().filter(|one| half.has(one)).collect();
        let right = of_half.iter().filter(|one| one.is_right()).count();
        let share = right as f64 / of_half.len() as f64;
        assert!(share >= 0.9, "{half:?}: {right} of {}", of_half.len());
        let false_alarms: Vec<&str> = of_half
            .iter()
            .filter(|one| one.is_false_alarm())
            .map(|one| one.label.situation.as_str())
            .collect();
        assert!(false_alarms.len() <= 1, "{half:?}: {false_alarms:?}");
    }
}

/// An answer that is no finding is borne out by what is shown for it: a bare bound holds, and where
/// another value would be expected of another answer, the row says of which.
#[test]
fn evidence_does_not_seem_to_contradict_its_answer() {
    let answers = JUDGED.iter().flat_map(|one| &one.answers);
    let wrong: BTreeSet<&String> = answers.flat_map(|answer| &answer.contradicted).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn labels_name_diagnoses_that_there_are() {
    for label in labels().values() {
        for id in label.right.iter().chain(&label.also) {
            let known = find_diagnosis(id).is_some() || id == "unknown" || id == "idle";
            assert!(known, "{}: {id}", label.situation);
        }
        assert!(!label.why.is_empty(), "{}", label.situation);
    }
    assert!(DIAGNOSES.len() > 20);
}
