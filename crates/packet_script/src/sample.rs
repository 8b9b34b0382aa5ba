//! Quantities of a connection in scripts, from a [`FlowSample`].

use std::time::Duration;

use base::FlowSample;

use super::run::Value;

/// The value of a field by its name in scripts.
pub(super) fn of(sample: &FlowSample, field: &str) -> Option<Value> {
    let name = |name: &str| Some(Value::Name(name.into()));
    match field {
        "state" => name(sample.state?.name()),
        "congestion_state" => name(sample.congestion_state?.name()),
        _ => flag(sample, field)
            .map(u64::from)
            .or_else(|| time(sample, field).map(|time| time.as_micros() as u64))
            .or_else(|| small(sample, field).map(u64::from))
            .or_else(|| count(sample, field))
            .map(Value::Number),
    }
}

fn flag(sample: &FlowSample, field: &str) -> Option<bool> {
    match field {
        "timestamps" => sample.timestamps,
        "sack" => sample.sack,
        "ecn" => sample.ecn,
        _ => None,
    }
}

fn time(sample: &FlowSample, field: &str) -> Option<Duration> {
    match field {
        "ato" => sample.ato,
        "busy" => sample.busy_time,
        "min_rtt" => sample.min_rtt,
        "rto" => sample.rto,
        "rttvar" => sample.rttvar,
        "rwnd_limited" => sample.rwnd_limited_time,
        "sndbuf_limited" => sample.sndbuf_limited_time,
        "srtt" => sample.srtt,
        _ => None,
    }
}

fn small(sample: &FlowSample, field: &str) -> Option<u32> {
    match field {
        "advmss" => sample.advmss_bytes,
        "backoff" => sample.backoff.map(u32::from),
        "cwnd" => sample.cwnd_pkts,
        "lost" => sample.lost_pkts,
        "notsent" => sample.notsent_bytes,
        "outq" => sample.send_queue_bytes,
        "pmtu" => sample.pmtu_bytes,
        "probes" => sample.probes.map(u32::from),
        "rcv_mss" => sample.rcv_mss_bytes,
        "rcv_space" => sample.rcv_space_bytes,
        "rcv_ssthresh" => sample.rcv_ssthresh_bytes,
        "rcv_wnd" => sample.rcv_wnd_bytes,
        "rcv_wscale" => sample.rcv_wscale.map(u32::from),
        "rcvbuf" => sample.rcvbuf_bytes,
        "reordering" => sample.reordering_pkts,
        "retrans" => sample.retrans_pkts,
        "sacked" => sample.sacked_pkts,
        "rmem" => sample.rmem_bytes,
        "snd_mss" => sample.snd_mss_bytes,
        "snd_wnd" => sample.snd_wnd_bytes,
        "snd_wscale" => sample.snd_wscale.map(u32::from),
        "sndbuf" => sample.sndbuf_bytes,
        // Linux shows "none yet" as the largest positive number.
        "ssthresh" => sample.ssthresh_pkts.map(|pkts| pkts.min(i32::MAX as u32)),
        "timeouts" => sample.timeouts.map(u32::from),
        "unacked" => sample.unacked_pkts,
        "unread" => sample.unread_bytes,
        "wmem" => sample.wmem_queued_bytes,
        _ => None,
    }
}

fn count(sample: &FlowSample, field: &str) -> Option<u64> {
    match field {
        "bytes_acked" => sample.bytes_acked,
        "bytes_received" => sample.bytes_received,
        "bytes_retrans" => sample.bytes_retrans,
        "bytes_sent" => sample.bytes_sent,
        "data_segs_in" => sample.data_segs_in,
        "data_segs_out" => sample.data_segs_out,
        "delivered" => sample.delivered_pkts,
        "delivered_ce" => sample.delivered_ce_pkts,
        "dsack_dups" => sample.dsack_dups,
        "out_of_order" => sample.out_of_order_pkts,
        "reord_seen" => sample.reord_seen,
        "rto_total" => sample.rto_total,
        "segs_in" => sample.segs_in,
        "segs_out" => sample.segs_out,
        "total_retrans" => sample.retrans_total_pkts,
        _ => None,
    }
}
