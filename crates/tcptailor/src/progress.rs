//! Progress on stderr, for whatever takes more than a second. Hidden when stderr is not a terminal,
//! with `--quiet` and with `--json`.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Output, visible};

/// A bar or a spinner that disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` (milliseconds of a measurement, rows of a table, repetitions).
    pub(crate) fn bar(output: &Output, label: impl Into<Cow<'static, str>>, steps: u64) -> Self {
        Self::start(
            output,
            label,
            ProgressBar::new(steps),
            "{msg:.bold} [{bar:40}] {percent} %",
        )
    }

    /// For work whose length is unknown.
    pub(crate) fn spinner(output: &Output, label: impl Into<Cow<'static, str>>) -> Self {
        Self::start(
            output,
            label,
            ProgressBar::new_spinner(),
            "{spinner} {msg} ({elapsed})",
        )
    }

    fn start(
        output: &Output,
        label: impl Into<Cow<'static, str>>,
        bar: ProgressBar,
        template: &str,
    ) -> Self {
        if output.is_quiet() || output.is_json() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template(template).expect("the templates are constants");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(plain(label));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// `steps` are done since the start.
    pub(crate) fn set(&self, steps: u64) {
        self.0.set_position(steps);
    }

    /// Present activity.
    pub(crate) fn label(&self, label: impl Into<Cow<'static, str>>) {
        self.0.set_message(plain(label));
    }
}

/// A label may have names from files.
fn plain(label: impl Into<Cow<'static, str>>) -> String {
    visible(&label.into()).into_owned()
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
