//! The whole screen without a terminal: what keys and looks make of the state, and what the state
//! looks like.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, FlowSample, Instant, KnobValue, Limit, Live, Netns, Scope, TcpState};
use doctor::{Confidence, Evidence, Held, Place, ProcessInfo, Side, SocketOwner};
use linux::NetnsPlace;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::live::{Connection, Now};
use super::model::{Ask, Event, Look, Model};
use super::view::{self, Theme};
use crate::commands::diagnose::document::{
    ChangeRow, Direction, Document, FlowRow, LimitShare, VerdictRow,
};
use crate::commands::diagnose::service;

const PLAIN: Theme = Theme {
    color: false,
    unicode: true,
};
const ASCII: Theme = Theme {
    color: false,
    unicode: false,
};

/// Our own namespace.
fn place() -> Arc<NetnsPlace> {
    Arc::new(NetnsPlace {
        netns: Netns::Own,
        container: None,
    })
}

/// A namespace with a container in it.
fn container() -> Arc<NetnsPlace> {
    Arc::new(NetnsPlace {
        netns: Netns::OfProcess(77),
        container: Some("Docker 3f2a1b0c9d8e".into()),
    })
}

/// A connection from this host to a port of another one.
struct Seen {
    cookie: u64,
    port: u16,
    remote: [u8; 4],
    command: &'static str,
    rate_bps: u64,
    held: Held,
}

impl Seen {
    fn key(&self) -> FlowKey {
        let local = 40_000 + u16::try_from(self.cookie).expect("few");
        FlowKey {
            local: ([192, 168, 100, 1], local).into(),
            remote: (self.remote, self.port).into(),
        }
    }

    fn connection(&self) -> Connection {
        let process = ProcessInfo {
            pid: 4000 + u32::try_from(self.cookie).expect("few"),
            command: self.command.into(),
            cmdline: String::new(),
            cgroup: None,
        };
        let sample = FlowSample {
            state: Some(TcpState::Established),
            srtt: Some(Duration::from_micros(300 * self.cookie)),
            min_rtt: Some(Duration::from_micros(200)),
            cwnd_pkts: Some(10),
            unacked_pkts: Some(1),
            notsent_bytes: Some(100),
            retrans_total_pkts: Some(3),
            congestion: Some("cubic".into()),
            ..FlowSample::empty(Instant::ZERO, self.key())
        };
        Connection {
            cookie: self.cookie,
            place: place(),
            service: service::name(Place::of(self.key()), Some(self.command)).into(),
            sample: Arc::new(sample),
            owners: Arc::from([SocketOwner {
                fd: 3,
                process: Arc::new(process),
            }]),
            now: Now {
                rate_bps: self.rate_bps,
                direction: Direction::Out,
                held: self.held,
                share: 0.97,
            },
        }
    }

    fn row(&self, verdict: VerdictRow) -> FlowRow {
        let key = self.key();
        FlowRow {
            cookie: self.cookie,
            netns: Netns::Own,
            container: None,
            local: key.local,
            remote: key.remote,
            place: doctor::Place::of(key),
            pid: Some(4000 + u32::try_from(self.cookie).expect("few")),
            command: Some(self.command.into()),
            upper: None,
            direction: Direction::Out,
            idle: false,
            is_held_up: false,
            both_ends_seen: false,
            samples: 50,
            seen_s: 5.0,
            connections: 1,
            rate_bps: Some(self.rate_bps),
            rate_of: None,
            min_rtt_us: Some(200),
            srtt_us: Some(300),
            limits: vec![LimitShare {
                limit: "nagle",
                share: 0.97,
            }],
            verdicts: vec![verdict],
            unknown: None,
            options_error: None,
        }
    }
}

fn verdict(id: &'static str, finding: bool) -> VerdictRow {
    let change = ChangeRow {
        knob: "nodelay",
        to: KnobValue::Flag(true),
        to_text: "on".into(),
        side: Side::Local,
        scope: Scope::Socket,
        takes_effect: Live::Now,
        risk: "more small packets",
        target: None,
        at: None,
        requires: None,
    };
    VerdictRow {
        id,
        sentence: "Nagle's algorithm holds a partial segment until an ACK arrives, and the receiver \
                   delays that ACK: each operation waits for the receiver's delayed-ACK timer.",
        finding,
        limit: Some(Limit::Nagle),
        share: 0.97,
        held_s: None,
        confidence: Confidence::High,
        consistent_with: false,
        act: true,
        evidence: vec![Evidence {
            field: "notsent_bytes",
            observed: "100 bytes held with data in flight, in 97 % of the samples".into(),
            expected: "less than one segment (1448 bytes), in 50 % or more".into(),
        }],
        next: None,
        change: finding.then_some(change),
        live: finding.then_some(true),
        alternatives: Vec::new(),
        remark: "Or join both writes in the program: writev(), TCP_CORK.".into(),
    }
}

fn seen() -> Vec<Seen> {
    let one = |cookie, port, command, rate_bps, held| Seen {
        cookie,
        port,
        remote: [10, 20, 30, 200],
        command,
        rate_bps,
        held,
    };
    vec![
        one(1, 8080, "client", 18_300, Held::Limit(Limit::Nagle)),
        one(2, 8080, "client", 18_100, Held::Limit(Limit::Nagle)),
        one(3, 443, "backup", 94_100_000, Held::Limit(Limit::Congestion)),
        one(4, 5432, "evil\x1b[2Jname", 0, Held::Idle),
    ]
}

/// A screen on which something was seen for 25 s, the doctor's answer included.
fn model(columns: u16, lines: u16) -> Model {
    let mut model = Model::new(String::new(), (columns, lines), "saved.rec".into());
    for _ in 0..25 {
        model.handle(Event::Looked(Look {
            connections: seen().iter().map(Seen::connection).collect(),
            looks_per_s: 10.0,
            cpu: 0.012,
        }));
    }
    let seen = seen();
    let flows = vec![
        seen[0].row(verdict("nagle-delack-stall", true)),
        seen[1].row(verdict("nagle-delack-stall", true)),
        seen[2].row(verdict("path-full", false)),
    ];
    let document = Document {
        unseen_processes: 75,
        ..Document::default()
    };
    model.handle(Event::Judged(Box::new(document.with_flows(flows))));
    model
}

fn key(model: &mut Model, code: KeyCode) -> Option<Ask> {
    model.handle(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn keys(model: &mut Model, text: &str) {
    for character in text.chars() {
        key(model, KeyCode::Char(character));
    }
}

fn screen(model: &Model, theme: &Theme) -> String {
    let (columns, lines) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a buffer");
    terminal
        .draw(|frame| view::draw(frame, model, theme))
        .expect("a buffer");
    terminal.backend().to_string()
}

#[test]
fn the_list_at_80_columns() {
    insta::assert_snapshot!(screen(&model(80, 24), &PLAIN));
}

#[test]
fn the_list_at_200_columns() {
    insta::assert_snapshot!(screen(&model(200, 60), &PLAIN));
}

#[test]
fn the_list_at_40_columns_of_a_plain_locale() {
    insta::assert_snapshot!(screen(&model(40, 20), &ASCII));
}

/// The other end's window is not health: what keeps it small shows there.
#[test]
fn what_the_other_end_holds_is_not_counted_as_healthy() {
    let mut model = model(120, 24);
    let seen = seen();
    let flows = vec![
        seen[0].row(verdict("peer-window", false)),
        seen[2].row(verdict("path-full", false)),
    ];
    model.handle(Event::Judged(Box::new(
        Document::default().with_flows(flows),
    )));
    let shown = screen(&model, &PLAIN);
    let expected = "2 connections  1 limited by the other end's window  1 healthy";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn connections_at_80_columns() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Tab);
    insta::assert_snapshot!(screen(&model, &PLAIN));
}

#[test]
fn details_at_80_columns() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Enter);
    insta::assert_snapshot!(screen(&model, &PLAIN));
}

#[test]
fn details_at_40_columns_of_a_plain_locale() {
    let mut model = model(40, 20);
    key(&mut model, KeyCode::Enter);
    insta::assert_snapshot!(screen(&model, &ASCII));
}

#[test]
fn the_keys_at_80_columns() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Char('?'));
    insta::assert_snapshot!(screen(&model, &PLAIN));
}

#[test]
fn colours_mark_findings_and_limits() {
    let model = model(80, 24);
    let theme = Theme {
        color: true,
        unicode: true,
    };
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a buffer");
    terminal
        .draw(|frame| view::draw(frame, &model, &theme))
        .expect("a buffer");
    let buffer = terminal.backend().buffer();
    let colors = |symbol: &str| {
        let cells = buffer.content.iter().filter(|cell| cell.symbol() == symbol);
        let colors: Vec<_> = cells.map(|cell| (cell.fg, cell.bg)).collect();
        colors
    };
    use ratatui::style::Color;
    assert!(colors("!").contains(&(Color::Red, Color::Reset)));
    assert!(colors("N").contains(&(Color::Black, Color::Red)));
    let is_plain = |model: &Model| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a buffer");
        terminal
            .draw(|frame| view::draw(frame, model, &PLAIN))
            .expect("a buffer");
        let buffer = terminal.backend().buffer().clone();
        let mut cells = buffer.content.iter();
        cells.all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset))
    };
    assert!(is_plain(&model), "NO_COLOR");
}

#[test]
fn every_size_can_be_drawn() {
    for columns in [1, 2, 10, 39, 59, 77, 157, 300] {
        for lines in [1, 2, 4, 6, 9, 100] {
            let mut model = model(columns, lines);
            for code in [KeyCode::Enter, KeyCode::Char('?'), KeyCode::Char('/')] {
                screen(&model, &PLAIN);
                key(&mut model, code);
            }
            screen(&model, &ASCII);
        }
    }
}

#[test]
fn names_do_not_reach_the_terminal_as_escapes() {
    let screen = screen(&model(80, 24), &PLAIN);
    assert!(screen.contains("evil\u{fffd}[2Jname"), "{screen}");
    assert!(!screen.contains('\x1b'), "{screen}");
}

/// Letters of another window must not act as keys, nor keep the next key waiting.
#[test]
fn what_is_pasted_is_text() {
    let mut model = model(80, 24);
    let pasted = "dport = :443\u{1b}[2J\nq";
    assert_eq!(model.handle(Event::Pasted(pasted.into())), None);
    assert_eq!(model.rows.len(), 3);
    assert!(screen(&model, &PLAIN).contains("pasted text is left out"));
    keys(&mut model, "/");
    model.handle(Event::Pasted(pasted.into()));
    assert_eq!(
        model.prompt.as_ref().map(|prompt| &*prompt.text),
        Some("dport = :443[2J")
    );
}

#[test]
fn a_filter_is_that_of_ss_and_is_refused_where_it_is_typed() {
    let mut model = model(80, 24);
    assert_eq!(model.rows.len(), 3);
    keys(&mut model, "/dprt = :443");
    key(&mut model, KeyCode::Enter);
    let shown = screen(&model, &PLAIN);
    assert!(shown.contains("did you mean `dport`?"), "{shown}");
    model.handle(Event::Key(KeyEvent::new(
        KeyCode::Char('u'),
        KeyModifiers::CONTROL,
    )));
    keys(&mut model, "dport = :443");
    key(&mut model, KeyCode::Enter);
    assert_eq!(model.rows.len(), 1);
    assert_eq!(model.rows[0].name, "backup to :443");
    assert!(screen(&model, &PLAIN).contains("filter: dport = :443"));
    key(&mut model, KeyCode::Esc);
    assert_eq!(model.rows.len(), 3);
}

#[test]
fn lines_are_sorted_and_the_selection_stays_with_its_line() {
    let mut model = model(80, 24);
    let first = |model: &Model| model.rows[0].name.clone();
    assert_eq!(first(&model), "client to :8080", "a finding");
    key(&mut model, KeyCode::Down);
    assert_eq!(model.row().expect("a line").name, "backup to :443");
    key(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), "backup to :443", "the fastest");
    assert_eq!(model.row().expect("a line").name, "backup to :443");
    key(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), "evil\x1b[2Jname to :5432", "the farthest");
    key(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), "backup to :443", "by name");
}

#[test]
fn the_list_scrolls_with_the_selection() {
    // Room for one line.
    let mut model = model(80, 6);
    assert!(screen(&model, &PLAIN).contains("SERVICE 1-1/3"));
    key(&mut model, KeyCode::End);
    assert_eq!((model.selected, model.first), (2, 2));
    assert!(screen(&model, &PLAIN).contains("SERVICE 3-3/3"));
    key(&mut model, KeyCode::Up);
    assert_eq!((model.selected, model.first), (1, 1));
    model.handle(Event::Resized(80, 24));
    assert_eq!((model.selected, model.first), (1, 0));
    assert!(!screen(&model, &PLAIN).contains("/3"));
    key(&mut model, KeyCode::Home);
    assert_eq!(model.selected, 0);
}

#[test]
fn a_pause_keeps_the_screen_as_it_is() {
    let mut model = model(80, 24);
    assert_eq!(key(&mut model, KeyCode::Char(' ')), Some(Ask::Pause(true)));
    let before = screen(&model, &PLAIN);
    assert!(before.contains("PAUSED"), "{before}");
    model.handle(Event::Looked(Look::default()));
    model.handle(Event::Judged(Box::default()));
    assert_eq!(screen(&model, &PLAIN), before);
    assert_eq!(key(&mut model, KeyCode::Char(' ')), Some(Ask::Pause(false)));
    model.handle(Event::Looked(Look::default()));
    assert!(model.rows.is_empty());
}

#[test]
fn a_recording_gets_the_name_that_is_typed() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Char('w'));
    keys(&mut model, ".gz");
    let asked = key(&mut model, KeyCode::Enter);
    let saved = Ask::Save(PathBuf::from("saved.rec.gz"), Some(place()));
    assert_eq!(asked, Some(saved));
    key(&mut model, KeyCode::Char('w'));
    assert_eq!(key(&mut model, KeyCode::Esc), None);
    assert!(model.prompt.is_none());
}

/// `f`, where the process lives in the namespace of its connection.
fn offer_to_fit(model: &mut Model) {
    let asked = key(model, KeyCode::Char('f'));
    assert_eq!(asked, Some(Ask::Fit(4001, place())));
    model.handle(Event::Offered(super::fit_words(4001)));
}

#[test]
fn a_process_is_fitted_by_fit_after_a_question() {
    let mut model = model(80, 24);
    let words = super::fit_words(4001);
    offer_to_fit(&mut model);
    let shown = screen(&model, &PLAIN);
    assert!(
        shown.contains("run `tcptailor fit --pid 4001 --once`?"),
        "{shown}"
    );
    assert_eq!(key(&mut model, KeyCode::Char('n')), None);
    assert!(model.command.is_none());
    offer_to_fit(&mut model);
    assert_eq!(key(&mut model, KeyCode::Char('y')), Some(Ask::Run(words)));
    model.handle(Event::Output("trying \x1b]0;x\x07nodelay = on".into()));
    let shown = screen(&model, &PLAIN);
    assert!(
        shown.contains("trying \u{fffd}]0;x\u{fffd}nodelay = on"),
        "{shown}"
    );
    // One at a time.
    key(&mut model, KeyCode::Char('u'));
    assert!(model.prompt.is_none());
    assert_eq!(key(&mut model, KeyCode::Char('x')), Some(Ask::Interrupt));
    model.handle(Event::Ended(Some(130)));
    let shown = screen(&model, &PLAIN);
    assert!(
        shown.contains("interrupted; what was not kept is rolled back"),
        "{shown}"
    );
    key(&mut model, KeyCode::Char('u'));
    let rollback = vec!["rollback".to_owned()];
    assert_eq!(key(&mut model, KeyCode::Enter), Some(Ask::Run(rollback)));
}

#[test]
fn a_page_scrolls_to_its_end_and_back() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Enter);
    key(&mut model, KeyCode::End);
    let shown = screen(&model, &PLAIN);
    assert!(shown.contains("expected: less than one segment"), "{shown}");
    for _ in 0..model.scrolled {
        key(&mut model, KeyCode::Char('k'));
    }
    assert!(screen(&model, &PLAIN).contains("client to :8080"));
    offer_to_fit(&mut model);
    key(&mut model, KeyCode::Enter);
    for line in 0..100 {
        model.handle(Event::Output(format!("line {line}")));
    }
    assert!(screen(&model, &PLAIN).contains("line 99"));
    key(&mut model, KeyCode::Char('g'));
    assert!(screen(&model, &PLAIN).contains("$ tcptailor fit"));
    key(&mut model, KeyCode::Char('j'));
    assert!(!screen(&model, &PLAIN).contains("$ tcptailor fit"));
}

#[test]
fn the_list_may_become_empty_under_its_details() {
    let mut model = model(80, 24);
    key(&mut model, KeyCode::Enter);
    model.handle(Event::Looked(Look::default()));
    assert!(screen(&model, &PLAIN).contains("It has ended"));
    key(&mut model, KeyCode::Char('q'));
    assert_eq!(key(&mut model, KeyCode::Char('q')), Some(Ask::Quit));
}

/// The same connection in two namespaces, of which only that of the container has a finding.
fn twins(columns: u16) -> Model {
    let mut model = Model::new(String::new(), (columns, 12), "saved.rec".into());
    let one = &seen()[0];
    let connections = [place(), container()].map(|place| Connection {
        place,
        ..one.connection()
    });
    model.handle(Event::Looked(Look {
        connections: connections.into(),
        looks_per_s: 10.0,
        cpu: 0.012,
    }));
    let in_container = FlowRow {
        netns: Netns::OfProcess(77),
        container: Some("Docker 3f2a1b0c9d8e".into()),
        pid: Some(4711),
        ..one.row(verdict("nagle-delack-stall", true))
    };
    let flows = vec![one.row(verdict("path-full", false)), in_container];
    model.handle(Event::Judged(Box::new(
        Document::default().with_flows(flows),
    )));
    model
}

#[test]
fn the_same_service_in_two_namespaces_is_two_lines() {
    let model = twins(80);
    let lines: Vec<_> = model
        .rows
        .iter()
        .map(|row| (row.place.clone(), row.with_finding))
        .collect();
    assert_eq!(lines, [(container(), 1), (place(), 0)]);
    let shown = screen(&model, &PLAIN);
    let line = |what: &str| {
        let mut lines = shown.lines();
        lines.find(|line| line.contains(what)).map(str::to_owned)
    };
    let header = line("SERVICE").expect("a header");
    assert!(header.contains("WHERE"), "{shown}");
    let found = line("! nagle-delack-stall").expect("the finding");
    assert!(found.contains("Docker 3f2a1b"), "{shown}");
    let other = line("this namespace").expect("our own");
    assert!(!other.contains('!'), "{shown}");
}

#[test]
fn where_a_connection_is_stands_in_its_details() {
    let mut model = twins(80);
    key(&mut model, KeyCode::Enter);
    let shown = screen(&model, &PLAIN);
    assert!(
        shown.contains("4001/client in Docker 3f2a1b0c9d8e"),
        "{shown}"
    );
}

#[test]
fn a_column_of_namespaces_stays_once_there_were_several() {
    let mut model = twins(200);
    assert!(screen(&model, &PLAIN).contains("WHERE"));
    model.handle(Event::Looked(Look {
        connections: vec![seen()[0].connection()],
        ..Look::default()
    }));
    assert!(screen(&model, &PLAIN).contains("WHERE"));
    assert!(!screen(&self::model(200, 60), &PLAIN).contains("WHERE"));
}

#[test]
fn of_all_namespaces_it_is_said_where_a_line_is_that_is_alone() {
    let check = |has_all_netns: bool, place: Arc<NetnsPlace>, expected: bool| {
        let mut model = Model::new(String::new(), (200, 12), "saved.rec".into());
        model.has_all_netns = has_all_netns;
        let connection = Connection {
            place,
            ..seen()[0].connection()
        };
        model.handle(Event::Looked(Look {
            connections: vec![connection],
            ..Look::default()
        }));
        assert_eq!(screen(&model, &PLAIN).contains("WHERE"), expected);
    };
    check(true, container(), true);
    check(true, place(), false);
    // Of one that was asked for by its name.
    check(false, container(), false);
}

#[test]
fn what_is_done_for_a_line_is_done_in_its_namespace() {
    let mut model = twins(80);
    let asked = key(&mut model, KeyCode::Char('f'));
    assert_eq!(asked, Some(Ask::Fit(4711, container())));
    // Its process turned out to live elsewhere.
    model.handle(Event::Note(super::ELSEWHERE.into()));
    let shown = screen(&model, &PLAIN);
    assert!(shown.contains(super::ELSEWHERE), "{shown}");
    assert!(model.prompt.is_none());
    key(&mut model, KeyCode::Char('w'));
    let asked = key(&mut model, KeyCode::Enter);
    let saved = Ask::Save(PathBuf::from("saved.rec"), Some(container()));
    assert_eq!(asked, Some(saved));
}

#[test]
fn lines_that_are_about_equal_stay_where_they_are() {
    let names = |model: &Model| -> Vec<String> {
        let rows = model.rows.iter();
        rows.map(|row| row.name.clone()).collect()
    };
    let look = |rates: [u64; 3]| {
        let commands = ["alpha", "beta", "gamma"];
        let connection = |(at, rate_bps): (usize, u64)| {
            let seen = Seen {
                cookie: at as u64 + 1,
                port: 443,
                remote: [10, 20, 30, 200],
                command: commands[at],
                rate_bps,
                held: Held::Limit(Limit::Congestion),
            };
            seen.connection()
        };
        Event::Looked(Look {
            connections: rates.into_iter().enumerate().map(connection).collect(),
            ..Look::default()
        })
    };
    for sort_keys in ["", "s"] {
        let mut model = Model::new(String::new(), (80, 24), "saved.rec".into());
        keys(&mut model, sort_keys);
        model.handle(look([50_000_000, 51_000_000, 49_000_000]));
        let before = names(&model);
        assert_eq!(before, ["beta to :443", "alpha to :443", "gamma to :443"]);
        for rates in [[51, 50, 49], [49, 50, 51], [50, 50, 50], [52, 48, 53]] {
            model.handle(look(rates.map(|rate| rate * 1_000_000)));
            assert_eq!(names(&model), before, "{rates:?}");
        }
        // What becomes clearly faster moves up.
        model.handle(look([50_000_000, 50_000_000, 80_000_000]));
        assert_eq!(names(&model)[0], "gamma to :443");
        // Sorting again uses the present values.
        model.handle(look([52_000_000, 50_000_000, 80_000_000]));
        assert_eq!(names(&model)[1], "beta to :443");
        keys(&mut model, if sort_keys.is_empty() { "s" } else { "ssss" });
        assert_eq!(names(&model)[1], "alpha to :443");
    }
}

#[test]
fn no_line_of_a_page_is_out_of_reach() {
    for columns in [20, 33, 80] {
        let mut model = model(80, 12);
        key(&mut model, KeyCode::Char('?'));
        key(&mut model, KeyCode::End);
        model.handle(Event::Resized(columns, 12));
        key(&mut model, KeyCode::End);
        let shown = screen(&model, &PLAIN);
        assert!(shown.contains("explains"), "{columns}: {shown}");
        key(&mut model, KeyCode::Home);
        let shown = screen(&model, &PLAIN);
        assert!(shown.contains("q Esc"), "{columns}: {shown}");
    }
    // Who makes the terminal larger need not scroll back through what is in sight.
    let mut model = model(20, 12);
    key(&mut model, KeyCode::Char('?'));
    key(&mut model, KeyCode::End);
    model.handle(Event::Resized(80, 60));
    assert_eq!(model.scrolled, 0);
}

#[test]
fn who_was_just_seen_is_being_measured() {
    let check = |seen_s: f64, duration_s: f64, expected: &str| {
        let mut model = model(80, 24);
        let row = FlowRow {
            verdicts: Vec::new(),
            unknown: Some("too few samples: 3 in 0.3 s".into()),
            samples: 3,
            seen_s,
            ..seen()[2].row(verdict("path-full", false))
        };
        let document = Document {
            duration_s,
            ..Document::default()
        };
        model.handle(Event::Judged(Box::new(document.with_flows(vec![row]))));
        let at = model.rows.iter().position(|row| row.judged.is_some());
        model.selected = at.expect("a line");
        key(&mut model, KeyCode::Enter);
        let shown = screen(&model, &PLAIN);
        assert!(shown.contains(expected), "{shown}");
    };
    check(0.3, 2.6, "measuring: 3 samples seen for 300 ms");
    check(0.3, 5.0, "measuring: 3 samples");
    check(4.9, 5.0, "unclear: too few samples");
}
