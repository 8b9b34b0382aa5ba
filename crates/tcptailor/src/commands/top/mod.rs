//! The live screen: services and connections with rate, round-trip time, what limits them and what
//! to do about it. [`engine`] looks, [`model`] is the state, [`view`] draws it; the loop here joins
//! them with a terminal. Changes are made by the commands that make them without a screen.

mod command;
mod engine;
mod history;
mod live;
mod model;
mod prompt;
mod rows;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use base::Fraction;
use linux::{NetnsHandle, NetnsPlace};
use ratatui::crossterm::event::{self, Event as TerminalEvent};

use self::command::Running;
use self::engine::{Engine, Request};
use self::model::{Ask, Event, Model};
use self::terminal::Screen;
use self::view::Theme;
use crate::commands::watching::{Watched, may_live_in};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

/// How long what was seen, or a request to stop, may wait.
const TURN: Duration = Duration::from_millis(100);
/// Shortest time seen that counts as a whole window.
const WHOLE_WINDOW: Duration = Duration::from_secs(4);
/// How long the end may take that was asked for.
const GRACE: Duration = Duration::from_secs(2);
/// `fit --pid` looks where the process is, which may hold sockets of other namespaces. It fits into
/// 80 columns.
const ELSEWHERE: &str =
    "not in its process's namespace; type `tcptailor diagnose --all-netns -o FILE`";

/// Live screen: what limits each service and connection.
///
/// Shows rate, round-trip time, the limit now and over the last minutes, and findings of all
/// connections, ten looks a second. Shows the evidence of each, and fits a process with
/// `tcptailor fit`. Bounds its own CPU time: where looking costs more, looks are rarer.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor top                            all connections, by service
  tcptailor top sport = :443               of one service only
  tcptailor top --pid 4127                 of one process, in its network namespace
  tcptailor top --all-netns                of containers too
  tcptailor top --max-cpu 2%               fewer looks where there are very many connections

Filters are those of `tcptailor diagnose`. Keys: ? lists them; q quits. docs/top.md explains the
columns and the letters of the bars.")]
pub(crate) struct Args {
    #[command(flatten)]
    watched: Watched,
    /// All network namespaces of this machine, including containers.
    #[arg(long, conflicts_with_all = ["netns", "pid"])]
    all_netns: bool,
    /// Upper bound of the CPU time, of one core.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    max_cpu: Fraction,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        return Err(terminal::refusal("top has no JSON document").into());
    }
    if args.max_cpu < Fraction::from_parts(1_000_000) {
        let message = format!("--max-cpu {}: at least 0.1%", args.max_cpu);
        return Err(Problem::usage(message).into());
    }
    let filter = args.watched.filter()?;
    terminal::check()?;
    // What cannot be looked at is told on the user's screen.
    NetnsHandle::open(&args.watched.netns())?;
    let (sender, events) = channel();
    let request = Request {
        places: args.watched.places(args.all_netns),
        filter,
        max_cpu: args.max_cpu,
    };
    let engine = Engine::start(request, sender.clone())?;
    end_without_terminal()?;
    let screen = Screen::enter().context("taking over the terminal")?;
    let mut model = Model::new(scope(&args.watched), screen.size(), file_name());
    model.has_all_netns = args.all_netns;
    let top = Top {
        screen,
        engine,
        running: None,
        model,
        theme: terminal::theme(),
        sender,
        events,
    };
    top.run()
}

/// Ends the program where its loop does not: the library that waits for keys reads repeatedly from
/// a terminal that is gone, and never returns.
fn end_without_terminal() -> anyhow::Result<()> {
    let wait = || {
        while !interrupt::stopped() {
            std::thread::sleep(TURN);
        }
        std::thread::sleep(GRACE);
        terminal::leave();
        std::process::exit(Exit::Interrupted.number().into());
    };
    let thread = std::thread::Builder::new().name("end".into());
    thread.spawn(wait).context("starting a thread")?;
    Ok(())
}

/// The tailor's work is done by the command that does it without a screen, too.
fn fit_words(pid: u32) -> Vec<String> {
    let words = ["fit", "--pid", &pid.to_string(), "--once"];
    words.map(String::from).into()
}

/// The filter of the command line, as text.
fn scope(watched: &Watched) -> String {
    let pid = watched.pid.map(|pid| format!("pid = {pid}"));
    let words = watched.filter.join(" ");
    let parts = pid
        .into_iter()
        .chain(Some(words).filter(|text| !text.is_empty()));
    let parts: Vec<String> = parts.collect();
    parts.join(" and ")
}

/// Default name of a recording: `tcptailor-20261125T173000Z.rec`.
fn file_name() -> String {
    let time = output::now().replace(['-', ':'], "");
    format!("tcptailor-{time}.rec")
}

/// Everything that runs. The screen is dropped first: what takes a moment to end does so on the
/// user's own.
struct Top {
    screen: Screen,
    engine: Engine,
    running: Option<Running>,
    model: Model,
    theme: Theme,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl Top {
    fn run(mut self) -> anyhow::Result<Exit> {
        let mut is_news = true;
        loop {
            if interrupt::stopped() {
                return Ok(Exit::Interrupted);
            }
            while let Ok(event) = self.events.try_recv() {
                is_news = true;
                self.model.handle(event);
            }
            if let Some(ended) = self.engine.ended() {
                ended?;
            }
            is_news |= self.has_command_ended()?;
            if std::mem::take(&mut is_news) {
                let (model, theme) = (&self.model, &self.theme);
                self.screen
                    .draw(|frame| view::draw(frame, model, theme))
                    .context("drawing")?;
                self.engine.show(self.model.shown());
            }
            // A terminal that is lost is an error here, and a signal soon.
            if !event::poll(TURN).context("reading the keyboard")? {
                continue;
            }
            let event = match event::read().context("reading the keyboard")? {
                TerminalEvent::Key(key) => Event::Key(key),
                TerminalEvent::Paste(text) => Event::Pasted(text),
                TerminalEvent::Resize(columns, lines) => Event::Resized(columns, lines),
                _ => continue,
            };
            is_news = true;
            match self.model.handle(event) {
                None => {}
                Some(Ask::Quit) => return Ok(Exit::Done),
                Some(ask) => self.act(ask)?,
            }
        }
    }

    fn act(&mut self, ask: Ask) -> anyhow::Result<()> {
        match ask {
            Ask::Quit => {}
            Ask::Pause(is_paused) => self.engine.pause(is_paused),
            Ask::Save(path, place) => self.save(&path, place),
            Ask::Fit(pid, place) => {
                let event = match may_live_in(pid, &place.netns) {
                    true => Event::Offered(fit_words(pid)),
                    false => Event::Note(ELSEWHERE.into()),
                };
                self.model.handle(event);
            }
            Ask::Run(words) => match Running::start(&words, self.model.size.0, &self.sender) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    self.model
                        .handle(Event::Ended(Some(Exit::Failed.number().into())));
                    self.model.handle(Event::Note(format!("{error:#}")));
                }
            },
            Ask::Interrupt => {
                if let Some(running) = &self.running {
                    running.interrupt();
                }
            }
            Ask::Redraw => self.screen.clear().context("drawing")?,
        }
        Ok(())
    }

    fn save(&mut self, path: &Path, place: Option<Arc<NetnsPlace>>) {
        // A pipe might never be read, and the screen would wait with it.
        let is_device = crate::output::is_device(path);
        let refused = || Problem::usage(format!("{} is not a file", path.display()));
        let checked = match is_device {
            true => Err(refused()),
            false => super::record::check(path),
        };
        match checked {
            Ok(()) => {
                self.model
                    .handle(Event::Note(format!("saving {}", path.display())));
                self.engine.save(path.to_owned(), place);
            }
            Err(problem) => drop(self.model.handle(Event::Note(problem.to_string()))),
        }
    }

    fn has_command_ended(&mut self) -> anyhow::Result<bool> {
        let Some(running) = &mut self.running else {
            return Ok(false);
        };
        let Some(code) = running.poll_end()? else {
            return Ok(false);
        };
        self.running = None;
        // Its last lines came before.
        while let Ok(event) = self.events.try_recv() {
            self.model.handle(event);
        }
        self.model.handle(Event::Ended(code));
        Ok(true)
    }
}
