//! Scratch.
use std::sync::atomic::AtomicBool;
use std::time::Instant;
fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("name");
    let sets: Vec<String> = args.collect();
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
