//! A line to be typed into, or a question to be answered.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Characters that are taken of what is pasted; no filter or file name is longer.
const PASTED_MAX: usize = 4096;

/// Kind of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A filter in ss's language.
    Filter,
    /// A file to save into.
    File,
    /// Whether to run this program with these words.
    Run(Vec<String>),
}

/// The question, and what was typed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) wanted: Wanted,
    pub(super) text: String,
    /// Error in the input.
    pub(super) error: Option<String>,
}

/// Effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    More,
    Done,
    Cancelled,
}

impl Prompt {
    pub(super) fn new(wanted: Wanted, text: impl Into<String>) -> Self {
        Self {
            wanted,
            text: text.into(),
            error: None,
        }
    }

    /// The question.
    pub(super) fn label(&self) -> String {
        match &self.wanted {
            Wanted::Filter => "filter: ".into(),
            Wanted::File => "save to: ".into(),
            Wanted::Run(words) => format!("run `tcptailor {}`? (y/n) ", words.join(" ")),
        }
    }

    /// Adds the first line of what was pasted, as far as it can be shown.
    pub(super) fn paste(&mut self, text: &str) {
        if !matches!(self.wanted, Wanted::Run(_)) {
            let line = text.lines().next().unwrap_or_default();
            let shown = line.chars().filter(|character| !character.is_control());
            self.text.extend(shown.take(PASTED_MAX));
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> KeyEffect {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Wanted::Run(_) = self.wanted {
            return match key.code {
                KeyCode::Char('y' | 'Y') | KeyCode::Enter => KeyEffect::Done,
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => KeyEffect::Cancelled,
                _ => KeyEffect::More,
            };
        }
        self.error = None;
        match key.code {
            KeyCode::Enter => return KeyEffect::Done,
            KeyCode::Esc => return KeyEffect::Cancelled,
            KeyCode::Char('u') if is_control => self.text.clear(),
            KeyCode::Char('w') if is_control => {
                let kept = self.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            KeyCode::Char(character) if !is_control => self.text.push(character),
            // As in vi and less: where there is nothing to be deleted it ends.
            KeyCode::Backspace if self.text.pop().is_none() => return KeyEffect::Cancelled,
            _ => {}
        }
        KeyEffect::More
    }
}
