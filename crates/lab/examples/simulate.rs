//! Scratch.
use std::sync::atomic::AtomicBool;
use std::time::Instant;
fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("name");
    let sets: Vec<String> = args.collect();
    if name == "faults" {
        for fault in lab::FAULTS {
            let t = Instant::now();
            let mut engine = lab::Virtual::default();
            engine.audit = true;
            let mut trial = fault.trial(); let five = lab::Amount::Time(std::time::Duration::from_secs(5)); { use lab::Workload as W; match &mut trial.workload { W::Bulk{amount,..}|W::RequestResponse{amount,..}|W::ConnectRequestClose{amount,..}|W::WriteWriteRead{amount,..}|W::Records{amount,..}|W::Quotes{amount,..}|W::Bursts{amount,..}|W::SlowReader{amount,..}|W::Paced{amount,..} => *amount = five } } let o = engine.run(&trial, &AtomicBool::new(false), &mut |_| ());
            println!("{:30} {:9.3} Mbit/s  {:?} drops {} {} limits {:?} caveats {:?} wall {:.3}", fault.id, o.goodput_bps as f64 / 1e6, o.response_us.map(|r| (r.n, r.p50, r.p90, r.p99, r.max)), o.forward.dropped_segments, o.reverse.dropped_segments, o.limits, o.caveats, t.elapsed().as_secs_f64());
        }
        return;
    }
    let names: Vec<&str> = if name == "all" { lab::BUILTIN_SCENARIOS.iter().map(|(n, _)| *n).collect() } else { vec![&name] };
    for name in names {
        let mut scenario = lab::find_scenario(name).expect("scenario");
        let mut engine = lab::Virtual::default();
        for set in &sets {
            if set == "audit" { engine.audit = true; continue; }
            let (k, v) = set.split_once('=').expect("k=v");
            scenario.set(k, v).expect("valid");
        }
        for cell in scenario.trials() {
            let t = Instant::now();
            let stop = AtomicBool::new(false);
            let o = engine.run(&cell.trial, &stop, &mut |_| ());
            let wall = t.elapsed().as_secs_f64();
            let pk = o.forward.sent + o.reverse.sent;
            println!("{:40} {:9.3} Mbit/s  {:?} fwd {:?}\n    rev {:?}\n   limits {:?} caveats {:?} wall {:.3} s {:.2} Mpkt/s", cell.id, o.goodput_bps as f64 / 1e6, o.response_us.map(|r| (r.n, r.p50, r.p90, r.p99, r.max)), o.forward, o.reverse, o.limits, o.caveats, wall, pk as f64 / wall / 1e6);
            for claim in scenario.expectations.iter().filter(|c| c.applies_to(cell.variant.as_deref())) {
                if let Err(why) = claim.check_value(claim.metric.of(&o)) { println!("   CLAIM FAILS {why}"); }
            }
        }
    }
}
