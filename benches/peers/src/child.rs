//! Programs that run beside the race, and the flag by which Ctrl-C ends it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, bail};
use linux::{Clock, NetnsHandle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Most lines that are kept; further output of a program is ignored.
const LINES_KEPT: usize = 64;
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the user wants the race to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The user wants the race to end.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// Listens for Ctrl-C, SIGTERM and SIGHUP. The second one ends the program at once; the next
    /// run then removes what is left.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("listening for Ctrl-C")?;
        }
        Ok(Self(flag))
    }

    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Interrupted);
        }
        Ok(())
    }

    /// Sleeps.
    ///
    /// # Errors
    /// [`Interrupted`], at once.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Interrupted> {
        let until = Clock.now() + time;
        loop {
            self.check()?;
            let rest = until.since(Clock.now());
            if rest.is_zero() {
                return Ok(());
            }
            std::thread::sleep(rest.min(PATIENCE));
        }
    }
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Program {
    /// Starts `words` in a namespace, on one processor where one is named.
    pub(crate) fn start(
        words: &[String],
        netns: &NetnsHandle,
        processor: Option<u32>,
    ) -> anyhow::Result<Self> {
        let pinned = processor.map(|number| ["taskset".into(), "-c".into(), number.to_string()]);
        let words: Vec<&String> = pinned.iter().flatten().chain(words).collect();
        let (program, arguments) = words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = netns
            .run(|| command.spawn())?
            .with_context(|| format!("starting {program}"))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        Ok(Self {
            child,
            lines: listen(out.context("it has a pipe")?),
            complaints: listen(err.context("it has a pipe")?),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the program prints and that holds `wanted`.
    ///
    /// # Errors
    /// Where it does not come in time, or the program ends; with the last that it said.
    pub(crate) fn line(
        &mut self,
        wanted: &str,
        within: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<String> {
        let until = Clock.now() + within;
        loop {
            interrupt.check()?;
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(wanted) => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => bail!(self.last_words()),
                Err(RecvTimeoutError::Timeout) if Clock.now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("printed no `{wanted}` within {} s", within.as_secs())
                }
            }
        }
    }

    /// # Errors
    /// Where the program has ended, with the last that it said.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        if self
            .child
            .try_wait()
            .context("waiting for a process")?
            .is_some()
        {
            bail!(self.last_words());
        }
        Ok(())
    }

    fn last_words(&mut self) -> String {
        // A program that has closed its output has ended, or is of no use any more.
        let _ = self.child.kill();
        let status = self.child.wait();
        let mut last = String::new();
        while let Ok(line) = self.complaints.recv_timeout(PATIENCE) {
            if !line.trim().is_empty() {
                last = format!(": {}", line.trim());
            }
        }
        status.map_or("ended".into(), |status| {
            format!("ended with {status}{last}")
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on a thread of its own, so that the program never blocks on its output.
fn listen(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_KEPT);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let _ = sender.try_send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    receiver
}
