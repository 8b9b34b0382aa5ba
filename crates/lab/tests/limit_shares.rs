//! What the doctor infers of a sender's time against what our stack knows; `tcptailor lab shares`
//! does it for all scenarios and faults.

use core::sync::atomic::AtomicBool;

use base::Limit;
use lab::{LimitErrors, SHARE_ERROR_MAX, fault_cells, score_limits};

#[test]
fn inferred_shares_are_near_the_true_ones() {
    let check = |fault: &str, limit: Limit| {
        let cells = fault_cells();
        let cell = cells
            .iter()
            .find(|cell| cell.id == format!("fault/{fault}"));
        let trial = cell.unwrap_or_else(|| panic!("no fault {fault}")).run(7);
        let flows = score_limits(&trial, &AtomicBool::new(false)).expect("our stack has it");
        let errors = LimitErrors::of(&flows);
        assert!(errors.wrong_mean <= SHARE_ERROR_MAX, "{fault}: {errors:#?}");
        // It is there to be found: none of it could be inferred by chance.
        let row = errors.limits.iter().find(|row| row.limit == limit);
        let row = row.expect("each limit has a row");
        assert!(row.flows > 0, "{fault}: no flow waits for {limit}");
        assert!(row.said_mean > 0.05, "{fault}: {row:?}");
    };
    check("nagle-delack-stall", Limit::Nagle);
    check("cork-not-uncorked", Limit::Cork);
    check("rcvbuf-locked", Limit::PeerWindow);
    check("sndbuf-locked", Limit::SendBuffer);
    check("random-loss", Limit::Congestion);
    check("sack-or-timestamps-off", Limit::Recovery);
    check("initcwnd-too-small", Limit::Handshake);
}
