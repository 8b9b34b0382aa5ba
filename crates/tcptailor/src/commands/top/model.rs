//! The state of the screen, without a terminal, a clock or a kernel: what was seen, what is
//! selected, and what a key does. What is to be done outside is handed back as an [`Ask`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base::Netns;
use doctor::Held;
use linux::{Filter, NetnsPlace};
use ratatui::crossterm::event::KeyEvent;

use super::WHOLE_WINDOW;
use super::history::{History, Second};
use super::live::Connection;
use super::prompt::Prompt;
use super::rows::{Answers, Grouping, Ranks, Row, RowKey, Sort, Source, held};
use crate::commands::diagnose::document::{Document, FlowRow};

pub(super) mod keys;

/// Lines of a program's output that are kept.
const OUTPUT_LINES_MAX: usize = 1000;

/// Event.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    /// Text from elsewhere, which is only for a line that is being typed: its letters are not keys.
    Pasted(String),
    /// Columns and lines of the terminal.
    Resized(u16, u16),
    /// A second is over.
    Looked(Look),
    /// The doctor has answered.
    Judged(Box<Document>),
    /// Something to be told.
    Note(String),
    /// A command of this program, with these words, that the user is to agree to.
    Offered(Vec<String>),
    /// A line of the command that runs.
    Output(String),
    /// The command has exited with this code; `None` by a signal.
    Ended(Option<i32>),
}

/// Samples of a second.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) connections: Vec<Connection>,
    pub(super) looks_per_s: f64,
    /// CPU time of this program, as a share of one core.
    pub(super) cpu: f64,
}

/// Request to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Quit,
    Pause(bool),
    /// Save what was seen of this namespace, or of the first one where none is selected.
    Save(PathBuf, Option<Arc<NetnsPlace>>),
    /// Offer to fit the process with this number, which has connections in this namespace.
    Fit(u32, Arc<NetnsPlace>),
    /// Run this program with these words.
    Run(Vec<String>),
    /// Interrupt the command that runs.
    Interrupt,
    /// Redraw everything.
    Redraw,
}

/// Page of the screen.
#[derive(Clone, Debug, Default)]
pub(super) enum Page {
    #[default]
    List,
    Details,
    Help,
    /// Output of a command.
    Command,
}

/// A command of this program that is run from the screen.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) words: Vec<String>,
    pub(super) lines: Vec<String>,
    /// Exit status, once it has ended.
    pub(super) ended: Option<Option<i32>>,
}

/// The state.
#[derive(Debug)]
pub(super) struct Model {
    /// The command line's own filter, as text.
    pub(super) scope: String,
    pub(super) size: (u16, u16),
    pub(super) look: Look,
    pub(super) answers: Answers,
    pub(super) has_answers: bool,
    pub(super) rows: Vec<Row>,
    ranks: Ranks,
    pub(super) selected: usize,
    /// The first line of the list that is shown.
    pub(super) first: usize,
    /// Lines by which details or output are scrolled.
    pub(super) scrolled: usize,
    pub(super) grouping: Grouping,
    pub(super) sort: Sort,
    /// All namespaces are looked into.
    pub(super) has_all_netns: bool,
    /// Whether lines name their namespace: there were lines of several, or, with all, one that is
    /// not ours.
    pub(super) are_apart: bool,
    filter: Option<Filter>,
    pub(super) filter_text: String,
    pub(super) is_paused: bool,
    pub(super) page: Page,
    pub(super) prompt: Option<Prompt>,
    /// Latest note, until a key is pressed.
    pub(super) note: Option<String>,
    pub(super) command: Option<Command>,
    /// Seconds that were seen.
    pub(super) second: u64,
    histories: BTreeMap<RowKey, History>,
    /// Default name of a recording.
    file_name: String,
}

impl Model {
    pub(super) fn new(scope: String, size: (u16, u16), file_name: String) -> Self {
        Self {
            scope,
            size,
            look: Look::default(),
            answers: Answers::default(),
            has_answers: false,
            rows: Vec::new(),
            ranks: Ranks::new(),
            selected: 0,
            first: 0,
            scrolled: 0,
            grouping: Grouping::default(),
            sort: Sort::default(),
            has_all_netns: false,
            are_apart: false,
            filter: None,
            filter_text: String::new(),
            is_paused: false,
            page: Page::default(),
            prompt: None,
            note: None,
            command: None,
            second: 0,
            histories: BTreeMap::new(),
            file_name,
        }
    }

    /// Takes in what happened; what is to be done.
    pub(super) fn handle(&mut self, event: Event) -> Option<Ask> {
        match event {
            Event::Key(key) => return self.handle_key(key),
            Event::Pasted(text) => match &mut self.prompt {
                Some(prompt) => prompt.paste(&text),
                None => self.note = Some("pasted text is left out".into()),
            },
            Event::Resized(columns, lines) => {
                self.size = (columns, lines);
                self.scroll();
                self.scrolled = self.scrolled.min(super::view::scroll_max(self));
            }
            // What was on its way when it was paused is not to move the screen.
            Event::Looked(_) | Event::Judged(_) if self.is_paused => {}
            Event::Looked(look) => self.handle_look(look),
            Event::Judged(document) => {
                self.answers = Answers::new(*document);
                self.has_answers = true;
                self.sort_anew();
            }
            Event::Note(note) => self.note = Some(note),
            Event::Offered(words) => self.ask_to_run(words),
            Event::Output(line) => {
                if let Some(command) = &mut self.command {
                    command.lines.push(line);
                    let surplus = command.lines.len().saturating_sub(OUTPUT_LINES_MAX);
                    command.lines.drain(..surplus);
                }
            }
            Event::Ended(code) => {
                if let Some(command) = &mut self.command {
                    command.ended = Some(code);
                    self.note = Some(ending(&command.words, code));
                }
            }
        }
        None
    }

    fn handle_look(&mut self, look: Look) {
        self.second += 1;
        let mut services: BTreeMap<(&Arc<str>, &Arc<NetnsPlace>), Vec<&Connection>> =
            BTreeMap::new();
        for connection in &look.connections {
            let Connection { service, place, .. } = connection;
            services
                .entry((service, place))
                .or_default()
                .push(connection);
            let second = Second {
                held: connection.now.held,
                rate_bps: connection.now.rate_bps,
            };
            note(
                &mut self.histories,
                RowKey::Connection(connection.cookie, Arc::clone(place)),
                self.second,
                second,
            );
        }
        for ((name, place), members) in services {
            let second = Second {
                held: held(members.iter().copied()),
                rate_bps: members.iter().map(|one| one.now.rate_bps).sum(),
            };
            let key = RowKey::Service(Arc::clone(name), Arc::clone(place));
            note(&mut self.histories, key, self.second, second);
        }
        let now = self.second;
        self.histories.retain(|_, history| !history.is_over(now));
        self.look = look;
        self.sort_anew();
    }

    /// Sorts the list anew, without regard to the previous order.
    fn sort_otherwise(&mut self) {
        self.ranks.clear();
        self.sort_anew();
    }

    /// Makes the list anew; what was selected stays so, where it is still there.
    pub(super) fn sort_anew(&mut self) {
        let selected = self.row().map(|row| row.key.clone());
        let source = Source {
            connections: &self.look.connections,
            answers: &self.answers,
            filter: self.filter.as_ref(),
            grouping: self.grouping,
            sort: self.sort,
        };
        self.rows = source.rows(&mut self.ranks);
        let places = || self.rows.iter().map(|row| &row.place.netns);
        let is_elsewhere = self.has_all_netns && places().any(|netns| *netns != Netns::Own);
        // Once it is said, it stays.
        self.are_apart |= is_elsewhere || places().zip(places().skip(1)).any(|(a, b)| a != b);
        // At the top one wants to see what comes first, not what was first.
        let place = selected
            .filter(|_| self.selected > 0 || !matches!(self.page, Page::List))
            .and_then(|key| self.rows.iter().position(|row| row.key == key));
        self.selected = place.unwrap_or(self.selected);
        self.scroll();
    }

    /// The line that is selected.
    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.selected)
    }

    /// The doctor's row.
    pub(super) fn flow(&self, row: &Row) -> Option<&FlowRow> {
        row.judged.map(|at| self.answers.flow(at))
    }

    /// Whether what the doctor said rests on less than a window of looks: on the first one, which
    /// is short, or on a connection that began within it and is still there.
    pub(super) fn is_measuring(&self, flow: &FlowRow) -> bool {
        let is_there = |connection: &Connection| {
            connection.cookie == flow.cookie && connection.place.netns == flow.netns
        };
        let is_new = || {
            flow.connections == 1
                && flow.seen_s < WHOLE_WINDOW.as_secs_f64()
                && self.look.connections.iter().any(is_there)
        };
        self.answers.document().duration_s < WHOLE_WINDOW.as_secs_f64() || is_new()
    }

    /// The connection that stands for a line: that of which the doctor said it, else the fastest.
    pub(super) fn connection(&self, row: &Row) -> Option<&Connection> {
        let all = || row.connections.iter().map(|at| &self.look.connections[*at]);
        let judged = self.flow(row);
        let is_judged = |connection: &&Connection| {
            judged.is_some_and(|flow| {
                let key = connection.key();
                (key.local, key.remote) == (flow.local, flow.remote)
            })
        };
        all()
            .find(is_judged)
            .or_else(|| all().max_by_key(|connection| connection.now.rate_bps))
    }

    /// The connections that stand for the lines on the screen, by cookie.
    pub(super) fn shown(&self) -> BTreeSet<u64> {
        let rows = self.rows.iter().skip(self.first).take(self.page_lines());
        let rows = rows.chain(self.row());
        let of_row = |row| {
            let judged = self.flow(row).map(|flow| flow.cookie);
            [self.connection(row).map(|one| one.cookie), judged]
        };
        rows.flat_map(of_row).flatten().collect()
    }

    /// The process whose connections a line is of.
    pub(super) fn pid(&self, row: &Row) -> Option<u32> {
        let judged = self.flow(row).and_then(|flow| flow.pid);
        judged.or_else(|| self.connection(row)?.pid())
    }

    pub(super) fn history(&self, row: &Row) -> Option<&History> {
        self.histories.get(&row.key)
    }

    /// How many lines of the list fit.
    pub(super) fn page_lines(&self) -> usize {
        usize::from(self.size.1)
            .saturating_sub(super::view::CHROME_LINES)
            .max(1)
    }

    /// Keeps the selection within the list, and on the screen.
    pub(super) fn scroll(&mut self) {
        let lines = self.page_lines();
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        let last_first = self.rows.len().saturating_sub(lines);
        let lowest = (self.selected + 1).saturating_sub(lines);
        self.first = self.first.clamp(lowest, self.selected).min(last_first);
    }

    pub(super) fn is_running(&self) -> bool {
        self.command
            .as_ref()
            .is_some_and(|command| command.ended.is_none())
    }
}

/// Keeps nothing of connections that have never been active: there may be thousands.
fn note(histories: &mut BTreeMap<RowKey, History>, key: RowKey, number: u64, second: Second) {
    use std::collections::btree_map::Entry;
    match histories.entry(key) {
        Entry::Occupied(mut known) => known.get_mut().push(number, second),
        Entry::Vacant(place) if second.held != Held::Idle => {
            place.insert(History::default()).push(number, second);
        }
        Entry::Vacant(_) => {}
    }
}

/// Result of a command, by its exit code.
fn ending(words: &[String], code: Option<i32>) -> String {
    let name = words.first().map_or("", String::as_str);
    let how = match (name, code) {
        ("fit", Some(0)) => "done; u rolls back what was kept",
        ("fit", Some(5)) => "worse, rolled back",
        ("fit", Some(6)) => "no significant difference, rolled back",
        (_, Some(0)) => "done",
        (_, Some(130)) => "interrupted; what was not kept is rolled back",
        (_, Some(code)) => return format!("{name}: failed with exit code {code}"),
        (_, None) => "ended by a signal",
    };
    format!("{name}: {how}")
}
