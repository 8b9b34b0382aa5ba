//! The manifest of a sweep: the scenario with its overrides and axes, on which engine, how often.

use core::hash::Hasher;
use std::collections::BTreeSet;

use base::Diagnostic;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::record::RunId;
use crate::app::HostCosts;
use crate::engine::EngineName;
use crate::scenario::{Cell, SWEEP_CELLS_MAX, Scenario};
use crate::sweep::{Shard, Vary};
use crate::trial::Trial;

/// Format version of the folder and all its files; readers reject others.
pub const FORMAT: u32 = 1;

/// Most runs of each cell of a sweep.
pub const SWEEP_RUNS_MAX: u32 = 100_000;

/// Machine on which a sweep was begun; informational.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Its processors.
    pub cpus: Option<usize>,
}

/// The file `run.json` of a results folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// See [`FORMAT`].
    pub format: u32,
    /// Version of the program that began it.
    pub tool_version: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The file it comes from, for messages.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Overrides in the order of the command line, as `path.rtt=80ms`.
    pub set: Vec<String>,
    /// Axes in the order of the command line, as `path.rtt=1ms,10ms`.
    pub vary: Vec<String>,
    /// Which engine runs it.
    pub engine: EngineName,
    /// The stack of hosts that name none, where one was named.
    pub profile: Option<String>,
    /// Processing times of virtual hosts; `None` in real time, and in folders of earlier versions,
    /// whose hosts took no time on emulated paths.
    #[serde(default)]
    pub host_costs: Option<HostCosts>,
    /// How often each cell is run.
    pub runs: u32,
    /// Cells of all shards together.
    pub cells: u64,
    /// Machine on which the first shard was begun.
    pub host: Host,
    /// When, by the clock of that host.
    pub created: String,
}

impl Manifest {
    /// Reads it.
    ///
    /// # Errors
    /// One sentence: what is wrong and what to do.
    pub fn read(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version =
            serde_json::from_str(text).map_err(|error| format!("is not a manifest: {error}"))?;
        if version.format != FORMAT {
            return Err(format!(
                "has format {}, and this program reads format {FORMAT}; use the program that \
                 wrote it, or another folder",
                version.format
            ));
        }
        let manifest: Self =
            serde_json::from_str(text).map_err(|error| format!("is not a manifest: {error}"))?;
        let (runs, cells) = (manifest.runs, manifest.cells);
        if runs > SWEEP_RUNS_MAX || cells > SWEEP_CELLS_MAX {
            return Err(format!(
                "is not a manifest: it has {runs} runs of {cells} cells, and a sweep has at most \
                 {SWEEP_RUNS_MAX} of {SWEEP_CELLS_MAX}"
            ));
        }
        Ok(manifest)
    }

    /// The file's text.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data is always JSON");
        text.push('\n');
        text
    }

    /// Why the runs of `other` do not belong beside those of this one; `None` where they do. Host
    /// and date do not matter.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let list = |list: &[String]| match list.is_empty() {
            true => "none".to_owned(),
            false => list.join(" "),
        };
        let differs = |what: &str, here: String, there: String| {
            (here != there).then(|| format!("{what} {here} here, {there} there"))
        };
        let profile = |of: &Self| of.profile.clone().unwrap_or_else(|| "of the engine".into());
        differs(
            "tool version",
            self.tool_version.clone(),
            other.tool_version.clone(),
        )
        .or_else(|| differs("scenario", self.scenario.clone(), other.scenario.clone()))
        .or_else(|| {
            (self.text != other.text)
                .then(|| format!("the text of scenario {} is another one", self.scenario))
        })
        .or_else(|| differs("engine", self.engine.to_string(), other.engine.to_string()))
        .or_else(|| differs("profile", profile(self), profile(other)))
        .or_else(|| differs("--set", list(&self.set), list(&other.set)))
        .or_else(|| differs("--vary", list(&self.vary), list(&other.vary)))
        .or_else(|| differs("runs", self.runs.to_string(), other.runs.to_string()))
    }
}

/// All runs of a sweep, made one by one.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    scenario: Scenario,
    cells: u64,
    runs: u32,
    salt: String,
}

/// One run that is to be made.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The same wherever and whenever it is made.
    pub id: RunId,
    /// Number of the cell, from 0.
    pub index: u64,
    /// From 0.
    pub run: u32,
    /// The cell.
    pub cell: Cell,
    /// Its trial with the seed of this run.
    pub trial: Trial,
    /// Why it must not be run: of a very large sweep not every cell was checked before.
    pub problems: Vec<Diagnostic>,
}

impl SweepPlan {
    /// Reads the scenario of a manifest, with its overrides and axes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(manifest: &Manifest) -> Result<Self, Vec<Diagnostic>> {
        let refuse = |option: &str, message: String| {
            vec![Diagnostic {
                file: option.into(),
                line: 0,
                column: 0,
                message,
            }]
        };
        let mut scenario = Scenario::parse(&manifest.file, &manifest.text)?.on(manifest.engine);
        for setting in &manifest.set {
            let Some((key, value)) = setting.split_once('=') else {
                let message = format!("{setting}: write KEY=VALUE, such as path.rtt=80ms");
                return Err(refuse("--set", message));
            };
            scenario.set(key.trim(), value.trim())?;
        }
        let mut varied = BTreeSet::new();
        for axis in &manifest.vary {
            let axis: Vary = axis.parse().map_err(|error| refuse("--vary", error))?;
            // It would take the place of the first, as it does of an axis of the file.
            if !varied.insert(axis.key.clone()) {
                let message = format!("{} is given twice; name it once", axis.key);
                return Err(refuse("--vary", message));
            }
            scenario.vary(&axis.key, &axis.values)?;
        }
        let Manifest {
            text,
            set,
            engine,
            profile,
            ..
        } = manifest;
        let costs = manifest.host_costs.map(|costs| format!("\n{costs:?}"));
        let costs = costs.unwrap_or_default();
        Ok(Self {
            cells: scenario.cell_count(),
            runs: manifest.runs.max(1),
            salt: format!("{FORMAT}\n{text}\n{set:?}\n{engine}\n{profile:?}{costs}"),
            scenario,
        })
    }

    /// The scenario.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Cells of all shards.
    #[must_use]
    pub const fn cells(&self) -> u64 {
        self.cells
    }

    /// Runs of all shards.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.cells.saturating_mul(self.runs as u64)
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.cells == 0
    }

    /// Positions of the runs of a shard: all cells once, then all of them again, so that what
    /// changes on a machine meanwhile changes every cell alike.
    pub fn positions(&self, shard: Shard) -> impl Iterator<Item = u64> + use<> {
        shard.positions(self.len())
    }

    /// How many [`SweepPlan::positions`] a shard has.
    #[must_use]
    pub const fn count(&self, shard: Shard) -> u64 {
        shard.count(self.len())
    }

    /// Whether a run, by its cell and its number, is one of a shard's.
    #[must_use]
    pub const fn is_of(&self, shard: Shard, (index, run): (u64, u32)) -> bool {
        let is_there = index < self.cells && run < self.runs;
        is_there && shard.has(self.cells * run as u64 + index)
    }

    /// The run at a position below [`SweepPlan::len`].
    #[must_use]
    pub fn at(&self, position: u64) -> Planned {
        let index = position % self.cells.max(1);
        let run = u32::try_from(position / self.cells.max(1)).unwrap_or(u32::MAX);
        self.run_of(index, run)
    }

    /// The id of a run by its cell and its number; `None` where the sweep has no such run.
    #[must_use]
    pub fn id_at(&self, (index, run): (u64, u32)) -> Option<RunId> {
        (index < self.cells && run < self.runs).then(|| self.run_of(index, run).id)
    }

    fn run_of(&self, index: u64, run: u32) -> Planned {
        let (cell, problems) = self.scenario.cell_at(index);
        let trial = cell.run(run);
        Planned {
            id: self.id(&cell, run, trial.seed),
            index,
            run,
            cell,
            trial,
            problems,
        }
    }

    /// Made of the scenario's text, its overrides, the engine, the cell and the run; not of the
    /// axes, so that a value that is swept again is the same cell.
    fn id(&self, cell: &Cell, run: u32, seed: u64) -> RunId {
        let mut hasher = SipHasher13::new();
        hasher.write(self.salt.as_bytes());
        hasher.write(cell.id.as_bytes());
        hasher.write(&run.to_le_bytes());
        hasher.write(&seed.to_le_bytes());
        RunId(hasher.finish())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const TEXT: &str = "
name = \"lan-wwr\"
about = \"Requests in two pieces.\"
[path]
kind = \"emulated\"
rate = \"1gbit\"
rtt = \"1ms\"
queue = \"1000p\"
[workload]
kind = \"write-write-read\"
writes = 2
write_size = \"100B\"
reply = \"100B\"
duration = \"3s\"
[[variant]]
name = \"default\"
[[variant]]
name = \"nodelay\"
client.nodelay = \"on\"
[[variant]]
name = \"cork\"
workload.method = \"cork\"
";

    pub(in crate::results) fn manifest(vary: &[&str]) -> Manifest {
        Manifest {
            format: FORMAT,
            tool_version: "1".into(),
            scenario: "lan-wwr".into(),
            file: "lan-wwr.toml".into(),
            text: TEXT.into(),
            set: vec!["workload.duration=100ms".into()],
            vary: vary.iter().map(|axis| (*axis).to_owned()).collect(),
            engine: EngineName::Virtual,
            profile: None,
            host_costs: None,
            runs: 2,
            cells: 0,
            host: Host::default(),
            created: String::new(),
        }
    }

    #[test]
    fn ids_tell_all_runs_apart_and_stay_the_same() {
        let plan = SweepPlan::new(&manifest(&["path.rtt=1ms,2ms"])).expect("a valid sweep");
        assert_eq!((plan.cells(), plan.len()), (6, 12));
        let ids = |plan: &SweepPlan| -> Vec<RunId> {
            let at = |position| plan.at(position).id;
            plan.positions(Shard::WHOLE).map(at).collect()
        };
        let all = ids(&plan);
        let different: BTreeSet<&RunId> = all.iter().collect();
        assert_eq!(different.len(), 12);
        let wider = SweepPlan::new(&manifest(&["path.rtt=3ms,2ms,1ms"])).expect("a valid sweep");
        let wider = ids(&wider);
        assert!(
            all.iter().all(|id| wider.contains(id)),
            "the same values are the same cells"
        );
        let mut other = manifest(&["path.rtt=1ms,2ms"]);
        other.set.push("path.queue=10p".into());
        let other = ids(&SweepPlan::new(&other).expect("a valid sweep"));
        assert!(all.iter().all(|id| !other.contains(id)));
        let last = plan.at(11);
        assert_eq!(plan.id_at((last.index, last.run)), Some(last.id));
        assert_eq!((plan.id_at((6, 0)), plan.id_at((0, 2))), (None, None));
        // Pinned: folders of one version of the program must be read by the next.
        assert_eq!(all[0].to_string(), PINNED);
    }

    const PINNED: &str = "637b3c9adf2a5d52";

    #[test]
    fn shards_divide_all_runs() {
        let plan = SweepPlan::new(&manifest(&["path.rtt=1ms..5ms:lin5"])).expect("a valid sweep");
        let mut seen = Vec::new();
        for index in 1..=4 {
            let shard: Shard = format!("{index}/4").parse().expect("a shard");
            let own: Vec<u64> = plan.positions(shard).collect();
            assert!((7..=8).contains(&own.len()), "{own:?}");
            for position in 0..30 {
                let Planned { index, run, .. } = plan.at(position);
                let is_own = own.contains(&position);
                assert_eq!(plan.is_of(shard, (index, run)), is_own, "{position}");
            }
            assert!(!plan.is_of(shard, (15, 0)) && !plan.is_of(shard, (0, 2)));
            seen.extend(own);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..30).collect::<Vec<u64>>());
    }

    #[test]
    fn only_what_is_run_makes_manifests_differ() {
        let one = manifest(&["path.rtt=1ms,2ms"]);
        let mut elsewhere = one.clone();
        elsewhere.host.cpus = Some(64);
        elsewhere.created = "1970-01-01T00:00:00Z".into();
        assert_eq!(one.difference(&elsewhere), None);
        let check = |change: fn(&mut Manifest), part: &str| {
            let mut other = one.clone();
            change(&mut other);
            let told = one.difference(&other).unwrap_or_default();
            assert!(told.contains(part), "{told}");
        };
        check(
            |m| m.tool_version = "2".into(),
            "tool version 1 here, 2 there",
        );
        check(
            |m| m.scenario = "x".into(),
            "scenario lan-wwr here, x there",
        );
        check(|m| m.text.push('#'), "the text of scenario lan-wwr");
        check(
            |m| m.engine = EngineName::Kernel,
            "engine virtual here, kernel there",
        );
        check(
            |m| m.profile = Some("textbook".into()),
            "profile of the engine here",
        );
        check(
            |m| m.set.clear(),
            "--set workload.duration=100ms here, none there",
        );
        check(
            |m| m.vary.clear(),
            "--vary path.rtt=1ms,2ms here, none there",
        );
        check(|m| m.runs = 9, "runs 2 here, 9 there");
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let one = manifest(&["path.rtt=1ms,2ms"]);
        assert_eq!(Manifest::read(&one.to_text()), Ok(one.clone()));
        let check = |text: &str, part: &str| {
            let told = Manifest::read(text).expect_err(part);
            assert!(told.contains(part), "{told}");
        };
        check("", "is not a manifest");
        check("{\"format\": 1}", "is not a manifest: missing field");
        check(
            &one.to_text().replace("\"format\": 1", "\"format\": 2"),
            "has format 2, and this program reads format 1; use the program that wrote it",
        );
        check(
            &one.to_text().replace("\"runs\": 2", "\"runs\": 4000000000"),
            "a sweep has at most 100000 of 100000000",
        );
        check(
            &one.to_text()
                .replace("\"cells\": 0", "\"cells\": 18446744073709551615"),
            "it has 2 runs of 18446744073709551615 cells",
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_option() {
        let check = |change: fn(&mut Manifest), part: &str| {
            let mut wrong = manifest(&["path.rtt=1ms,2ms"]);
            change(&mut wrong);
            let told = SweepPlan::new(&wrong).expect_err(part)[0].to_string();
            assert!(told.contains(part), "{told}");
        };
        check(
            |m| m.set.push("path.rtt".into()),
            "--set: path.rtt: write KEY=VALUE",
        );
        check(|m| m.set.push("path.rt=1".into()), "did you mean `rtt`?");
        check(
            |m| m.vary.push("path.loss=1%..2%".into()),
            "--vary: path.loss: how many values?",
        );
        check(
            |m| m.vary.push("path.los=1%,2%".into()),
            "--vary: unknown key in [path]",
        );
        check(
            |m| m.vary.push("path.rtt =3ms".into()),
            "--vary: path.rtt is given twice; name it once",
        );
    }
}
