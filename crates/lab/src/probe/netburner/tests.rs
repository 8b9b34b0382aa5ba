//! Exact figures of each probe.

use super::super::PROBES;

#[test]
fn show() {
    for probe in PROBES
        .iter()
        .filter(|probe| probe.name.starts_with("netburner"))
    {
        let figures = probe.run.expect("in virtual time")(1);
        println!("{}", probe.name);
        for (name, value) in figures {
            println!("   {name} {value}");
        }
    }
}
