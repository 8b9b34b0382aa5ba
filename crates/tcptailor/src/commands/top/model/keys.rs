//! Effects of keys: those of less, htop and vi where they have one.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Ask, Command, Model, Page};
use crate::commands::top::prompt::{KeyEffect, Prompt, Wanted};
use crate::commands::top::view;
use crate::commands::watching::parse_filter;

/// Keys and what they do, as the help page shows them.
pub(in crate::commands::top) const KEYS: &[(&str, &str)] = &[
    (
        "q Esc",
        "back to the list, from this page too; there q quits",
    ),
    ("Up Down j k", "select a line"),
    (
        "PgUp PgDn g G",
        "a page, to the ends; also Ctrl-B, Ctrl-F, Home, End",
    ),
    ("Enter", "details: evidence, what to change, a graph"),
    ("Tab", "services or connections"),
    ("s", "sort by finding, rate, round-trip time, name"),
    ("/", "filter, as in ss(8): dport = :443 and comm = curl"),
    ("Space", "pause, and go on"),
    ("w", "save the last two minutes for `tcptailor diagnose`"),
    ("f", "fit: try what helps the process, keep what does"),
    ("u", "roll back the newest change that was kept"),
    ("x", "stop fit: what it changed is rolled back"),
    ("o", "output of fit or rollback"),
    ("Ctrl-L", "draw the screen anew"),
    ("? h F1", "this page"),
];

impl Model {
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Option<Ask> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.note = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Ask::Quit),
                KeyCode::Char('l') => return Some(Ask::Redraw),
                _ => {}
            }
        }
        if self.prompt.is_some() {
            return self.handle_typing(key);
        }
        self.handle_motion(key);
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return None;
        }
        match (&self.page, key.code) {
            (_, KeyCode::Char('?' | 'h') | KeyCode::F(1)) => self.show(Page::Help),
            (Page::List, KeyCode::Char('q')) => return Some(Ask::Quit),
            (Page::List, KeyCode::Esc) => self.set_filter(""),
            (_, KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace) => self.show(Page::List),
            (Page::List, KeyCode::Enter) if self.row().is_some() => self.show(Page::Details),
            (_, KeyCode::Char(' ')) => {
                self.is_paused = !self.is_paused;
                return Some(Ask::Pause(self.is_paused));
            }
            (_, KeyCode::Char('w')) => {
                self.prompt = Some(Prompt::new(Wanted::File, self.file_name.clone()));
            }
            (Page::List, KeyCode::Char('/')) => {
                self.prompt = Some(Prompt::new(Wanted::Filter, self.filter_text.clone()));
            }
            (Page::List, KeyCode::Tab) => {
                self.grouping = self.grouping.other();
                (self.selected, self.first) = (0, 0);
                self.sort_otherwise();
            }
            (Page::List, KeyCode::Char('s')) => {
                self.sort = self.sort.next();
                self.note = Some(format!("sorted by {}", self.sort.name()));
                self.sort_otherwise();
            }
            (_, KeyCode::Char('f')) => return self.ask_to_fit(),
            (_, KeyCode::Char('u')) => self.ask_to_run(vec!["rollback".into()]),
            (_, KeyCode::Char('o')) if self.command.is_some() => self.show(Page::Command),
            (_, KeyCode::Char('x')) if self.is_running() => {
                self.note = Some("stopping; what was changed is rolled back".into());
                return Some(Ask::Interrupt);
            }
            _ => {}
        }
        None
    }

    fn show(&mut self, page: Page) {
        self.scrolled = 0;
        self.page = page;
    }

    fn handle_motion(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = self.page_lines();
        let place = match self.page {
            Page::List => &mut self.selected,
            _ => &mut self.scrolled,
        };
        // Output is scrolled from its end.
        let code = match (&self.page, key.code) {
            (Page::Command, KeyCode::Up | KeyCode::Char('k')) => KeyCode::Down,
            (Page::Command, KeyCode::Down | KeyCode::Char('j')) => KeyCode::Up,
            (Page::Command, KeyCode::PageUp) => KeyCode::PageDown,
            (Page::Command, KeyCode::PageDown) => KeyCode::PageUp,
            (Page::Command, KeyCode::Home | KeyCode::Char('g')) => KeyCode::End,
            (Page::Command, KeyCode::End | KeyCode::Char('G')) => KeyCode::Home,
            (_, code) => code,
        };
        *place = match code {
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *place + 1,
            KeyCode::PageUp => place.saturating_sub(page),
            KeyCode::PageDown => *place + page,
            KeyCode::Char('b') if is_control => place.saturating_sub(page),
            KeyCode::Char('f') if is_control => *place + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX / 2,
            _ => return,
        };
        self.scroll();
        self.scrolled = self.scrolled.min(view::scroll_max(self));
    }

    fn handle_typing(&mut self, key: KeyEvent) -> Option<Ask> {
        let mut prompt = self.prompt.take()?;
        match prompt.handle_key(key) {
            KeyEffect::Cancelled => return None,
            KeyEffect::More => {
                self.prompt = Some(prompt);
                return None;
            }
            KeyEffect::Done => {}
        }
        match &prompt.wanted {
            Wanted::Filter => {
                let text = prompt.text.trim().to_owned();
                // What is wrong is shown where it was typed.
                if let Err(problem) = parse_filter(std::slice::from_ref(&text), None) {
                    prompt.error = Some(problem.to_string());
                    self.prompt = Some(prompt);
                    return None;
                }
                self.set_filter(&text);
                None
            }
            Wanted::File if prompt.text.trim().is_empty() => None,
            Wanted::File => {
                let place = self.row().map(|row| Arc::clone(&row.place));
                Some(Ask::Save(PathBuf::from(prompt.text.trim()), place))
            }
            Wanted::Run(words) => {
                self.command = Some(Command {
                    words: words.clone(),
                    lines: Vec::new(),
                    ended: None,
                });
                self.show(Page::Command);
                Some(Ask::Run(words.clone()))
            }
        }
    }

    fn set_filter(&mut self, text: &str) {
        let words = [text.to_owned()];
        self.filter = parse_filter(&words, None).ok().filter(|_| !text.is_empty());
        text.clone_into(&mut self.filter_text);
        self.sort_anew();
    }

    /// Only outside is it known whether the command would look into the right namespace.
    fn ask_to_fit(&mut self) -> Option<Ask> {
        let row = self.row()?;
        match self.pid(row) {
            Some(pid) => Some(Ask::Fit(pid, Arc::clone(&row.place))),
            None => {
                let message = "the process is not known here; root sees the processes of all users";
                self.note = Some(message.into());
                None
            }
        }
    }

    pub(super) fn ask_to_run(&mut self, words: Vec<String>) {
        if self.is_running() {
            self.note = Some("a command is running: o shows it, x stops it".into());
        } else {
            self.prompt = Some(Prompt::new(Wanted::Run(words), ""));
        }
    }
}
