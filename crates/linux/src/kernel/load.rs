//! Other load of the processors during a run: a measurement on a busy machine measures the machine.

use std::fs;
use std::time::Duration;

use base::Instant;
use lab::Caveat;

use crate::clock::Clock;
use crate::process::process_cpu_time;

/// Share of the processors' time from which other work is worth a caveat.
const WORTH_TELLING: f64 = 0.1;
/// Share of a processor from which our stack, which has one thread, may be the limit.
const BUSY: f64 = 0.9;
/// Unit of `/proc/stat`: Linux 6.18 include/asm-generic/param.h, `USER_HZ`, which is 100 wherever
/// this program runs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Counters of the processors and of our own processes at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    processors: Processors,
    ours: Duration,
}

/// Processor time used by our stack's process until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackLoad {
    pid: u32,
    at: Instant,
    used: Duration,
}

impl StackLoad {
    /// Now; `None` where the process is gone.
    pub(super) fn read(pid: u32) -> Option<Self> {
        Some(Self {
            pid,
            at: Clock.now(),
            used: process_cpu_time(pid)?,
        })
    }

    /// The doubt about what was measured from then until now, if there is one.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        let now = Self::read(self.pid)?;
        let used = now.used.saturating_sub(self.used).as_secs_f64();
        too_busy(used / now.at.since(self.at).as_secs_f64())
    }
}

fn too_busy(share: f64) -> Option<Caveat> {
    (share >= BUSY).then(|| Caveat::StackBusy {
        percent: (share * 100.0).round() as u64,
    })
}

/// The line `cpu` of `/proc/stat` (proc(5)), in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processors {
    total: u64,
    /// Time of processes. Interrupts are left out: here, most of them carry our own packets.
    programs: u64,
    /// Time that the hypervisor gave to others.
    stolen: u64,
}

impl Load {
    /// Now; `pids` are our processes beside this one. `None` where the kernel does not tell.
    pub(super) fn read(pids: &[u32]) -> Option<Self> {
        let processors = Processors::parse(&fs::read_to_string("/proc/stat").ok()?)?;
        let ours = pids
            .iter()
            .copied()
            .chain([std::process::id()])
            .map(process_cpu_time)
            .sum::<Option<Duration>>()?;
        Some(Self { processors, ours })
    }

    /// The doubt about what was measured from `self` to `later`, if there is one.
    pub(super) fn caveat(&self, later: &Self) -> Option<Caveat> {
        let between = |read: fn(&Processors) -> u64| {
            read(&later.processors).saturating_sub(read(&self.processors)) as f64
        };
        let total = between(|now| now.total);
        let ours = later.ours.saturating_sub(self.ours).as_secs_f64() * TICKS_PER_SECOND;
        let others = (between(|now| now.programs) - ours).max(0.0) + between(|now| now.stolen);
        (total > 0.0 && others >= WORTH_TELLING * total).then(|| Caveat::HostBusy {
            percent: (others / total * 100.0).min(100.0).round() as u64,
        })
    }
}

impl Processors {
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times = line
            .split_ascii_whitespace()
            .map_while(|word| word.parse::<u64>().ok())
            .collect::<Vec<_>>();
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let &[user, nice, system, idle, iowait, irq, softirq, stolen, ..] = &times[..] else {
            return None;
        };
        Some(Self {
            total: user + nice + system + idle + iowait + irq + softirq + stolen,
            programs: user + nice + system,
            stolen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_of_others_is_a_doubt() {
        let at = |stat: &str, ours_ms| Load {
            processors: Processors::parse(stat).expect("a line of all processors"),
            ours: Duration::from_millis(ours_ms),
        };
        let check = |later: Load, expected: Option<u64>| {
            let before = at("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n", 1_000);
            let percent = before.caveat(&later).map(|caveat| match caveat {
                Caveat::HostBusy { percent } => percent,
                other => panic!("unexpected {other:?}"),
            });
            assert_eq!(percent, expected);
        };
        // A second of one processor, all of it ours, or interrupts.
        check(at("cpu  180 0 120 800 0 0 0 0 0 0", 2_000), None);
        check(at("cpu  100 0 100 850 0 20 30 0 0 0", 1_000), None);
        check(at("cpu  180 0 120 800 0 0 0 0 0 0", 1_500), Some(50));
        check(at("cpu  100 0 100 870 0 0 0 30 0 0", 1_000), Some(30));
        check(at("cpu  100 0 100 800 0 0 0 0 0 0", 1_000), None);
        assert_eq!(Processors::parse("cpu  1 2 3\n"), None);
        assert_eq!(Processors::parse(""), None);
    }

    #[test]
    fn a_stack_that_leaves_its_processor_no_rest_is_a_doubt() {
        assert_eq!(too_busy(0.89), None);
        let percent = 97;
        assert_eq!(too_busy(0.966), Some(Caveat::StackBusy { percent }));
        assert_eq!(too_busy(f64::NAN), None, "over no time");
        let own = StackLoad::read(std::process::id()).expect("it runs");
        assert!(own.used > Duration::ZERO);
        // A client ends by itself, before it is asked.
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("it starts");
        let before = StackLoad::read(child.id()).expect("not waited for yet");
        let has_ended = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", before.pid));
            stat.is_ok_and(|stat| stat.contains(") Z "))
        };
        while !has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(StackLoad::read(before.pid).is_some(), "it has ended");
        child.wait().expect("ours");
    }

    #[test]
    fn the_kernel_tells() {
        assert!(Load::read(&[]).is_some());
        assert_eq!(Load::read(&[u32::MAX]), None, "a process that is gone");
    }
}
