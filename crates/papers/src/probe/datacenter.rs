//! The datacenter paper's products of bandwidth and delay, and its series of a value per second.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use base::{Bytes, QueueLimit, Rate};

use super::{Figures, Probe, kernel};
use lab::Outcome;
use lab::Virtual;
use lab::app::WARM_UP;
use lab::bdp::{self, Demand, HostLimits, PAPER_BUFFER_BYTES, Preset};
use lab::{Amount, Direction, Workload};
use lab::{HostSpec, PathSpec, Trial};

/// The paper's calculations, and their consequences for its hosts.
pub const PRODUCTS: Probe = Probe {
    name: "datacenter-products",
    about: "The bandwidth-delay products of the paths, and the settings that are too small for them.",
    figures: &[
        "home_bytes",
        "datacenter_1g_bytes",
        "datacenter_bytes",
        "datacenter_packets_1500",
        "datacenter_packets_10000",
        "rtt_ratio",
        "window_for_501_mbit_bytes",
        "fixed_window_datacenter_1g_bps",
        "settings_home",
        "settings_home_dsl",
        "settings_datacenter",
        "settings_datacenter_fixed",
    ],
    run: Some(|_| products()),
    run_on_kernel: None,
};

/// A minute in virtual time, second by second.
pub const SERIES: Probe = Probe {
    name: "datacenter-series",
    about: "A minute of bulk at 1 Gbit/s, second by second, beside the count of its bytes.",
    figures: &[
        "seconds",
        "series_over_count",
        "slowest_second_bps",
        "fastest_second_bps",
    ],
    run: Some(|seed| {
        let trial = series_trial(seed);
        let outcome = Virtual::default().run(&trial, &AtomicBool::new(false), &mut |_| ());
        series_figures(&outcome)
    }),
    run_on_kernel: Some(kernel::datacenter::series),
};

/// Which limit of the receive buffer moves which connection.
pub const RMEM_MAX: Probe = Probe {
    name: "datacenter-rmem-max",
    about: "Which of tcp_rmem and rmem_max bounds a receive buffer that sizes itself or is asked for.",
    figures: &[
        "autotuned_small_bytes",
        "autotuned_large_bytes",
        "asked_over_rmem_max",
        "asked_over_rmem_max_with_small_tcp_rmem",
        "forced_over_asked",
    ],
    run: None,
    run_on_kernel: Some(kernel::datacenter::rmem_max),
};

fn path(name: &str) -> Demand {
    let preset: &Preset = bdp::PRESETS
        .iter()
        .find(|preset| preset.name == name)
        .expect("the presets are constants");
    let rate = Rate::from_bits_per_second(preset.rate_bps);
    let rtt = Duration::from_micros(preset.rtt_us);
    Demand::new(rate, rtt, Bytes(1500)).expect("a test reads every preset")
}

/// Linux of 2019, whose initial receive buffer the paper takes for a limit.
fn host_of_2019() -> HostLimits {
    HostLimits {
        rmem: [4096, PAPER_BUFFER_BYTES, 6_291_456],
        wmem: [4096, 16_384, 4_194_304],
        rmem_max: Some(212_992),
        wmem_max: Some(212_992),
        moderate_rcvbuf: true,
        window_scaling: true,
        receive_ratio: bdp::receive_ratio((5, 0), Some(1)),
        queue_pkts: None,
    }
}

fn products() -> Figures {
    let [home, dsl, small, large] = ["home", "home-dsl", "datacenter-1g", "datacenter"].map(path);
    let proposals = |path: &Demand, limits: &HostLimits| {
        bdp::proposals(&path.rows(limits), limits).len() as f64
    };
    let as_it_came = host_of_2019();
    let fixed = HostLimits {
        moderate_rcvbuf: false,
        ..host_of_2019()
    };
    let claimed = Rate::from_bits_per_second(501_000_000);
    let fixed_bps = small.rate_of_window(PAPER_BUFFER_BYTES).bits_per_second();
    Figures::from([
        ("home_bytes", home.bytes() as f64),
        ("datacenter_1g_bytes", small.bytes() as f64),
        ("datacenter_bytes", large.bytes() as f64),
        ("datacenter_packets_1500", large.packets(Bytes(1500)) as f64),
        (
            "datacenter_packets_10000",
            large.packets(Bytes(10_000)) as f64,
        ),
        (
            "rtt_ratio",
            small.rtt().as_secs_f64() / home.rtt().as_secs_f64(),
        ),
        (
            "window_for_501_mbit_bytes",
            claimed.bdp_bytes(small.rtt()) as f64,
        ),
        ("fixed_window_datacenter_1g_bps", fixed_bps as f64),
        ("settings_home", proposals(&home, &as_it_came)),
        ("settings_home_dsl", proposals(&dsl, &as_it_came)),
        ("settings_datacenter", proposals(&large, &as_it_came)),
        ("settings_datacenter_fixed", proposals(&large, &fixed)),
    ])
}

/// Measured time of the series.
const SERIES_SECONDS: u32 = 60;

/// The trial of [`SERIES`], for every engine.
#[must_use]
pub fn series_trial(seed: u64) -> Trial {
    Trial {
        path: PathSpec::emulated(
            Rate::from_bits_per_second(1_000_000_000),
            Duration::from_micros(1490),
            QueueLimit::Packets(1000),
        ),
        client: HostSpec::default(),
        server: HostSpec::default(),
        workload: Workload::Bulk {
            direction: Direction::Up,
            flows: 1,
            write_size: Bytes(64 << 10),
            unacked: None,
            amount: Amount::Time(Duration::from_secs(SERIES_SECONDS.into())),
        },
        seed,
    }
}

/// The figures of [`SERIES`]: the series second by second from the end of the warm-up on, and its
/// sum beside the bytes that the outcome counted.
#[must_use]
pub fn series_figures(outcome: &Outcome) -> Figures {
    let begin = WARM_UP.as_secs_f64();
    let mut seconds = vec![0.0_f64; outcome.duration_s.round() as usize];
    let mut from = 0.0_f64;
    for point in &outcome.series {
        let until = point.at_us as f64 / 1e6;
        for (index, bits) in seconds.iter_mut().enumerate() {
            let second = begin + index as f64;
            let overlap = (until.min(second + 1.0) - from.max(second)).max(0.0);
            *bits += overlap * point.goodput_bps as f64;
        }
        from = until;
    }
    let counted = outcome.goodput_bps as f64 * outcome.duration_s;
    let slowest = seconds.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let fastest = seconds.iter().copied().reduce(f64::max).unwrap_or(0.0);
    Figures::from([
        (
            "seconds",
            seconds.iter().filter(|bits| **bits > 0.0).count() as f64,
        ),
        ("series_over_count", seconds.iter().sum::<f64>() / counted),
        ("slowest_second_bps", slowest),
        ("fastest_second_bps", fastest),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::Point;

    #[test]
    fn the_products_are_those_of_the_paper() {
        let figures = products();
        let check = |name: &str, expected: f64| assert_eq!(figures[name], expected, "{name}");
        check("home_bytes", 15_000.0);
        check("datacenter_1g_bytes", 186_250.0);
        check("datacenter_bytes", 1_975_000.0);
        check("datacenter_packets_1500", 1317.0);
        check("datacenter_packets_10000", 198.0);
        check("window_for_501_mbit_bytes", 93_311.0);
        check("settings_home", 0.0);
        check("settings_home_dsl", 0.0);
        check("settings_datacenter", 0.0);
        check("settings_datacenter_fixed", 1.0);
    }

    #[test]
    fn points_are_shared_out_to_the_seconds_that_they_cover() {
        let point = |at_us, goodput_bps| Point {
            at_us,
            goodput_bps,
            ..Point::default()
        };
        let outcome = Outcome {
            goodput_bps: 200,
            duration_s: 2.0,
            series: vec![
                point(500_000, 7),
                point(1_500_000, 100),
                point(3_000_000, 200),
            ],
            ..Outcome::default()
        };
        let figures = series_figures(&outcome);
        // The second from 1 to 2 has half a point of 100 and half of 200.
        assert_eq!(figures["slowest_second_bps"], 150.0);
        assert_eq!(figures["fastest_second_bps"], 200.0);
        assert_eq!(figures["series_over_count"], 350.0 / 400.0);
        assert_eq!(figures["seconds"], 2.0);
    }
}
