use super::*;

fn check(text: &str, expected: &[&str]) {
    let found = match PacketScript::parse("s", text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(found, expected, "{text}");
}

fn steps(text: &str) -> Vec<Step> {
    let text = format!("about x\nexcuse some\n{text}");
    PacketScript::parse("s", &text)
        .expect("a valid script")
        .steps
}

#[test]
fn all_mistakes_are_told_with_their_place() {
    check(
        "about x\n+0  writ 5\n+1x write 5\n+0  out data 5..2\n  +0  out FIN seg 5\n",
        &[
            "s:2:5: `writ` is not a call",
            "s:3:1: `1x` is not a time; write 40ms, 1.5s or 0",
            "s:4:14: 5 is behind 2",
            "s:5:15: `seg` is not a word of a packet",
        ],
    );
    check(
        "",
        &[
            "s:1:1: `about` is missing: what does the script show?",
            "s:1:1: there are no steps",
        ],
    );
    check(
        "about x\n+0 write",
        &["s:2:9: a number of bytes is missing here"],
    );
    check(
        "about x\n+0 none # or not\n+0 none now",
        &["s:3:9: `now` means nothing here"],
    );
    check(
        "about x\n+0 none\nmtu 1500",
        &["s:3:1: a step begins with its time, such as +0 or +40ms"],
    );
    check(
        "about x\n+0 check cwind 5",
        &["s:2:10: `cwind` is nothing that can be known"],
    );
    check(
        "about x\nmtu 100000\n+0 none",
        &["s:2:5: 100000 is out of range here"],
    );
    check(
        "about x\nstack: +0 none",
        &["s:2:1: say why above: `excuse NAME`, with an entry in the list"],
    );
    check(
        "about x\nlater+5ms none",
        &["s:2:1: `later+5ms` is neither a time nor a setting"],
    );
    check(
        "about x\nset nagel off\n+0 none",
        &[&format!(
            "s:2:5: {}",
            settings::unknown_setting("nagel").expect("it is unknown")
        )],
    );
}

#[test]
fn huge_numbers_and_files_are_refused() {
    let big = "9".repeat(30);
    check(
        &format!("about x\n+0 out seq {big}"),
        &[&format!("s:2:12: `{big}` is not a number")],
    );
    check(
        "about x\n+0 out data 1..1000000 by 1",
        &["s:2:24: segments of 1 bytes are too many"],
    );
    check(
        "about x\n+0 out data 1..9 by 4294967296",
        &["s:2:18: no packet has 4294967296 bytes"],
    );
    check(
        "about x\n+0 out data 1..1000 by 4294967296",
        &["s:2:21: no packet has 4294967296 bytes"],
    );
    check(
        "about x\n+0 out data 1..4000000001",
        &["s:2:8: no packet has 4000000000 bytes"],
    );
    check(
        &" ".repeat(FILE_BYTES_MAX + 1),
        &["s:1:1: the file has more than 64 KiB"],
    );
}

#[test]
fn times_have_ranges_and_names() {
    fn check(text: &str, after: After, min_ms: u64, max_ms: Option<u64>) {
        let when = steps(&format!("+0 out SYN as first\n{text} none"))
            .pop()
            .expect("two")
            .when;
        let expected = When {
            after,
            min: Duration::from_millis(min_ms),
            max: max_ms.map(Duration::from_millis),
        };
        assert_eq!(when, expected, "{text}");
    }
    check("+0", After::Previous, 0, None);
    check("+1.5s", After::Previous, 1500, None);
    check("+40..44ms", After::Previous, 40, Some(44));
    check("+40ms..1s", After::Previous, 40, Some(1000));
    check("+40ms~2ms", After::Previous, 38, Some(42));
    check("@1s", After::Start, 1000, None);
    check("first+40ms", After::Label("first".into()), 40, None);
}

#[test]
fn a_line_may_stand_for_several_packets() {
    let steps = steps("+5ms out data 1..3001 by 1448 PSH FIN ack 1");
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            let Action::Out(spec) = &step.action else {
                panic!("{step:?}");
            };
            (step.when.min.as_millis(), spec.seq, spec.data, spec.flags)
        })
        .collect();
    let end = TcpFlags::PSH | TcpFlags::FIN;
    assert_eq!(
        told,
        [
            (5, Seq::Is(1), 1448, TcpFlags::NONE),
            (0, Seq::Is(1449), 1448, TcpFlags::NONE),
            (0, Seq::Is(2897), 104, end),
        ]
    );
}

#[test]
fn numbers_are_sums_of_products() {
    let steps = steps("+0 in data 1+2*1448..1+3*1448 ack -5 sack 1..1449 1+2*5..20");
    let Action::In(spec) = &steps[0].action else {
        panic!("{steps:?}");
    };
    assert_eq!((spec.seq, spec.data), (Seq::Is(2897), 1448));
    assert_eq!(spec.ack, Some(Seq::Is(-5)));
    let blocks = super::super::model::SackSpec::Blocks(vec![(1, 1449), (11, 20)]);
    assert_eq!(spec.options.sack, blocks);
}

#[test]
fn engines_differ_where_it_is_said() {
    let script = |text: &str| PacketScript::parse("s", text).expect("valid");
    let both = script("about x\nexcuse why\nkernel: +0 none\nstack: +5ms none");
    assert_eq!(both.steps[0].engine, Some(Engine::Kernel));
    assert!(both.runs_on(Engine::Kernel) && both.runs_on(Engine::Stack));
    let one = script("about x\nonly stack why\n+0 none");
    assert!(!one.runs_on(Engine::Kernel) && one.runs_on(Engine::Stack));
    let other = script("about x\nprofile winsock\n+0 none");
    assert!(!other.runs_on(Engine::Kernel) && other.runs_on(Engine::Stack));
}
