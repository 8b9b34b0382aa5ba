//! The terminal in raw mode, on its other screen; and back again, however the program ends.

use std::io::{self, IsTerminal, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::view::Theme;
use crate::exit::Problem;

/// Whether there is something to be restored.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The screen; the terminal is restored when it is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over. A panic of any thread gives it back before it is told.
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let tell = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                tell(panic);
            }));
        });
        IS_ENTERED.store(true, Ordering::SeqCst);
        let entered = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match entered {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Draws, unless the terminal was given back meanwhile.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        if !IS_ENTERED.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.terminal.draw(draw).map(drop)
    }

    /// Forgets what is on the screen, so that all of it is drawn anew.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        let size = self.terminal.size();
        size.map_or((80, 24), |size| (size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, once. Also for who ends the program at once.
pub(crate) fn leave() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        // Raw mode first, which has more effects. A terminal that is gone needs nothing.
        let _ = disable_raw_mode();
        let _ = execute!(
            io::stdout(),
            DisableBracketedPaste,
            LeaveAlternateScreen,
            Show
        );
    }
}

/// Refuses what cannot show a screen, before anything is looked at.
pub(super) fn check() -> Result<(), Problem> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(refusal("top needs a terminal for input and output"));
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb" | "") | Err(_) => {
            Err(refusal("TERM names a terminal that cannot move its cursor"))
        }
        Ok(_) => Ok(()),
    }
}

pub(super) fn refusal(message: &str) -> Problem {
    Problem::usage(message).hint(
        "Type `tcptailor diagnose` for one answer, or `tcptailor watch` for a log of findings.",
    )
}

/// Capabilities of the user's terminal and locale.
pub(super) fn theme() -> Theme {
    let color = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
    let set = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    Theme {
        color,
        unicode: locale.is_some_and(|locale| is_utf8(&locale)),
    }
}

/// Whether a locale such as `de_DE.UTF-8` says so.
fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8") || locale.contains("utf-8@")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_say_what_can_be_shown() {
        let check = |locale: &str, expected| assert_eq!(is_utf8(locale), expected, "{locale}");
        check("C.UTF-8", true);
        check("en_US.utf8", true);
        check("de_DE.UTF-8@euro", true);
        check("C", false);
        check("POSIX", false);
        check("de_DE.ISO-8859-1", false);
    }
}
