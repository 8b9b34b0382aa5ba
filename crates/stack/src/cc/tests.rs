mod pipe;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use base::settings::HyStart;

use super::testing::limited;
use super::*;
use pipe::{Path, Pipe, Row};

/// Windows at the ends of round trips, ten in a line.
fn table(rows: &[Row]) -> String {
    let line = |rows: &[Row]| {
        rows.iter()
            .map(|row| format!("{:5}", row.window.cwnd))
            .collect::<String>()
    };
    rows.chunks(10).map(|rows| line(rows) + "\n").collect()
}

#[track_caller]
fn check_table(actual: &str, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().into());
        lines.filter(|line: &String| !line.is_empty()).collect()
    };
    assert_eq!(lines(actual), lines(expected), "\n{actual}");
}

fn curve(path: Path, controller: impl CongestionControl + 'static, rounds: usize) -> String {
    table(&Pipe::new(path, Box::new(controller)).rounds(rounds))
}

#[test]
fn c4_slow_start_grows_only_where_the_window_is_used() {
    for (out, expected) in [(6, true), (5, false)] {
        let mut window = Window::new(10);
        window.max_packets_out = out;
        assert_eq!(window.may_grow(), expected, "{out} packets out");
        window.ssthresh = 10;
        assert!(!window.may_grow(), "congestion avoidance needs all of it");
    }
    assert!(limited(10, 10).may_grow());
}

#[test]
fn newreno_curve() {
    // 100 packets fill the pipe, 100 more the queue.
    check_table(
        &curve(Path::thousand(100), NewReno::new(true), 60),
        "
           11   21   41   81  161  321  201  201  101  101
          102  103  104  105  106  107  108  109  110  111
          112  113  114  115  116  117  118  119  120  121
          122  123  124  125  126  127  128  129  130  131
          132  133  134  135  136  137  138  139  140  141
          142  143  144  145  146  147  148  149  150  151
        ",
    );
}

#[test]
fn cubic_curve() {
    let cubic = Cubic::new(HyStart::Off, true);
    check_table(
        &curve(Path::thousand(100), cubic, 60),
        "
           11   21   41   81  161  321  282  283  201  202
          144  144  147  150  153  155  158  160  162  164
          166  167  169  170  171  172  173  174  174  175
          175  175  175  175  175  175  175  175  175  175
          175  175  175  175  176  176  177  177  178  179
          180  181  182  184  186  188  190  193  196  199
        ",
    );
}

#[test]
fn cubic_curve_on_a_long_path() {
    // 10 000 packets per second, 200 ms: 2000 packets fill it, and the cubic part rules.
    let mut path = Path::thousand(1_000);
    path.packet_time = Duration::from_micros(100);
    path.rtt = Duration::from_millis(200);
    check_table(
        &curve(path, Cubic::new(HyStart::Off, true), 120),
        "
           11   21   41   81  161  321  641 1281 2561 3193
         3193 3229 2277 2292 2320 2348 2376 2403 2429 2454
         2478 2501 2523 2543 2563 2582 2599 2616 2631 2646
         2659 2672 2683 2694 2703 2712 2720 2728 2734 2739
         2744 2748 2752 2755 2758 2760 2761 2762 2763 2764
         2764 2764 2764 2764 2764 2764 2764 2764 2765 2766
         2767 2768 2770 2772 2774 2777 2781 2785 2790 2796
         2803 2811 2819 2829 2839 2851 2863 2878 2893 2910
         2929 2949 2971 2995 3020 2120 2144 2186 2227 2268
         2308 2348 2387 2424 2461 2497 2532 2566 2598 2630
         2660 2689 2717 2743 2768 2792 2815 2836 2856 2875
         2892 2908 2923 2937 2949 2960 2971 2980 2988 2996
        ",
    );
}

#[test]
fn hystart_curves() {
    // Off, as Linux has it, and RFC 9406, which is sure only when the queue stands.
    let kinds = [HyStart::Off, HyStart::Classic, HyStart::PlusPlus];
    let tables = kinds.map(|hystart| curve(Path::thousand(200), Cubic::new(hystart, true), 20));
    check_table(
        &tables.join("\n"),
        "
           11   21   41   81  161  321  422  422  428  301
          305  216  216  221  226  231  236  240  244  248

           11   21   41   81  137  144  151  158  166  175
          183  192  202  212  223  234  246  258  271  284

           11   21   41   81  155  295  368  263  268  278
          289  300  311  218  221  226  231  236  241  245
        ",
    );
}

#[test]
fn c8_slow_start_is_left_by_the_ack_train() {
    // 1 Gbit/s, 40 ms, queue of 4000. Linux left at 3904 and 4210.
    let path = Path {
        packet_time: Duration::from_nanos(12_112),
        rtt: Duration::from_millis(40),
        queue_packets_max: 4_000,
        lost_one_of: 0,
        policer: None,
    };
    let cubic = Cubic::new(HyStart::Classic, true);
    let rows = Pipe::new(path, Box::new(cubic)).rounds(14);
    let threshold = rows.last().expect("rows").window.ssthresh;
    assert!((3_700..4_400).contains(&threshold), "left at {threshold}");
}
