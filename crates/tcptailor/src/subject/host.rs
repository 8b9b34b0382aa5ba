//! A workload between this machine and a host that runs `tcptailor serve`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use base::{Change, Instant, Netns, Target};
use doctor::{Recording, Track};
use lab::Measure;
use linux::service::{BenchClient, Key};
use linux::workload::{Interval, RunSpec, Session, SocketSpec, Totals};
use linux::{Clock, Filter, NetnsHandle, Role};
use tailor::{Look, Settings, Subject};

use super::journalled::Journalled;
use super::{lacks, wait, watch};
use crate::commands::diagnose::seen;
use crate::exit::Problem;
use crate::interrupt;
use crate::output::Output;

/// A server reports ten times a second. One that was not heard for this long at the end of a look
/// is waited for.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Reports older than this are dropped; of a longer look, its last hour is counted.
const REPORTS_TIME: Duration = Duration::from_secs(3600);

/// Parameters for repeated runs.
#[derive(Clone, Debug)]
pub(crate) struct RunParameters {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<Key>,
    pub(crate) answer_timeout: Duration,
    pub(crate) client: RunSpec,
    pub(crate) server: SocketSpec,
}

/// A run in progress.
pub(crate) struct HostSubject<'o> {
    // Dropped first: changes are put back while their connection is open.
    settings: Journalled,
    parameters: RunParameters,
    output: &'o Output,
    netns: NetnsHandle,
    /// Our own connections to that host.
    filter: Filter,
    run: Run,
}

/// The thread that runs the client's side, and what it reports.
struct Run {
    session: Arc<Session>,
    reports: Arc<Reports>,
    thread: Option<JoinHandle<linux::Result<()>>>,
}

/// Reports of both ends, each with the time at which it came: the clocks of two hosts differ.
#[derive(Default)]
struct Reports {
    heard: Mutex<VecDeque<(Instant, Role, Interval)>>,
    over: AtomicBool,
}

impl<'o> HostSubject<'o> {
    /// Connects and begins the workload.
    pub(crate) fn start(
        parameters: RunParameters,
        lease: Duration,
        output: &'o Output,
    ) -> anyhow::Result<Self> {
        let netns = NetnsHandle::open(&Netns::Own)?;
        let remote = parameters.address.ip();
        let own = std::process::id();
        let filter = format!("dst {remote} and pid = {own}")
            .parse()
            .context("the filter for our own connections")?;
        // Before there is traffic: who experiments already is not to be disturbed by it.
        let settings = Journalled::of_machine(lease)?;
        let run = Run::start(&parameters)?;
        Ok(Self {
            filter,
            settings,
            parameters,
            output,
            netns,
            run,
        })
    }
}

impl Run {
    fn start(parameters: &RunParameters) -> anyhow::Result<Self> {
        let mut client = BenchClient::connect(
            parameters.address,
            parameters.key.as_ref(),
            parameters.answer_timeout,
        )?;
        let session = Arc::new(Session::new());
        let reports = Arc::new(Reports::default());
        let (ours, heard) = (Arc::clone(&session), Arc::clone(&reports));
        let (spec, server) = (parameters.client.clone(), parameters.server.clone());
        let work = move || {
            let outcome = client.run(&spec, &server, &ours, &|role, interval| {
                heard.keep(Clock.now(), role, interval.clone());
            });
            heard.over.store(true, Ordering::Relaxed);
            outcome.map(drop)
        };
        let thread = std::thread::Builder::new()
            .name("workload".into())
            .spawn(work)
            .context("starting the workload")?;
        Ok(Self {
            session,
            reports,
            thread: Some(thread),
        })
    }

    /// The reason, where it has ended before it was told to.
    fn check(&mut self) -> anyhow::Result<()> {
        if !self.reports.over.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(thread) = self.thread.take() {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let hint = "Leave out -n, -t and --operations after `--`, or raise --max-time and \
                    --max-bytes of the server.";
        let problem = Problem::failed("the traffic ended before it was measured");
        Err(problem.hint(hint).into())
    }

    fn stop(&mut self) {
        self.session.stop();
        if let Some(thread) = self.thread.take() {
            // It was told to stop: how it ended does not matter any more.
            let _ = thread.join();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Reports {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(Instant, Role, Interval)>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When one end was last heard.
    fn last_heard(&self, wanted: Role) -> Option<Instant> {
        let heard = self.lock();
        let mut of_end = heard.iter().rev().filter(|(_, role, _)| *role == wanted);
        of_end.next().map(|(at, ..)| *at)
    }

    /// Keeps a report, and forgets those that no look asks for any more.
    fn keep(&self, now: Instant, role: Role, interval: Interval) {
        let mut heard = self.lock();
        heard.push_back((now, role, interval));
        while heard
            .front()
            .is_some_and(|(at, ..)| now.since(*at) > REPORTS_TIME)
        {
            heard.pop_front();
        }
    }

    /// Intervals reported by one end between two times.
    fn between(&self, wanted: Role, from: Instant, until: Instant) -> Totals {
        let mut totals = Totals::default();
        for (at, role, interval) in self.lock().iter() {
            if *role == wanted && *at > from && *at <= until {
                totals.add(interval);
            }
        }
        totals
    }
}

impl HostSubject<'_> {
    /// A server that was silent to the end of a sample may have vanished, which makes the sample
    /// invalid: waits until it is heard from again, or until the run is given up.
    fn check_heard(&mut self, watched: &Recording) -> anyhow::Result<()> {
        let silence = SILENCE_MAX.max(watched.ended.since(watched.began) / 2);
        let is_silent = |now: Instant, reports: &Reports| {
            let since = reports.last_heard(Role::Server).unwrap_or(watched.began);
            now.since(since) > silence
        };
        while is_silent(Clock.now(), &self.run.reports) && !interrupt::stopped() {
            self.run.check()?;
            std::thread::sleep(SILENCE_MAX / 10);
        }
        Ok(())
    }
}

impl Subject for HostSubject<'_> {
    type Error = anyhow::Error;

    fn look(&mut self, time: Duration) -> anyhow::Result<Look> {
        self.run.check()?;
        let watched = watch(self.output, &self.netns, self.filter.clone(), time)?;
        self.run.check()?;
        self.check_heard(&watched)?;
        let client = self
            .run
            .reports
            .between(Role::Client, watched.began, watched.ended);
        let server = self
            .run
            .reports
            .between(Role::Server, watched.began, watched.ended);
        let response_us = client.response_us();
        let measure = |watched: &Recording| Measure {
            duration_s: watched.ended.since(watched.began).as_secs_f64(),
            goodput_bps: server.goodput_bps().max(client.goodput_bps()),
            operations_per_s: response_us.map(|_| client.operations_per_s()),
            response_us,
            busy_goodput_bps: None,
            ..tailor::measure_of(watched, |track| self.wants(track))
        };
        Ok(Look::new((watched, Netns::Own), None, measure))
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(
            self.output,
            "settling".into(),
            time,
            Some(&self.run.reports.over),
        )?;
        self.run.check()
    }

    fn wants(&self, track: &Track) -> bool {
        seen::selects(&self.filter, track)
    }

    fn lacks(&self, target: &Target) -> Option<&'static str> {
        lacks(target)
    }

    fn can_reconnect(&self) -> bool {
        true
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        self.run.stop();
        self.run = Run::start(&self.parameters)?;
        Ok(())
    }

    fn on_listener(&mut self, _change: &Change) -> anyhow::Result<Vec<Change>> {
        // It is on the other host.
        Ok(Vec::new())
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}
