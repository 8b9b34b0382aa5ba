//! The limit of the root queue of an interface: `pfifo` (packets), `bfifo` (bytes), `tbf` (bytes).
//!
//! The options that the kernel reported are sent back with only the limit changed, so that a
//! shaper keeps its rate and burst.

use super::link;
use super::raw::{ask, attributes, change, push_attribute};
use crate::error::{Error, Result};
use crate::netlink_dump::{Ask, text, u32_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`: family, padding, ifindex, handle, parent, info.
const TC_BYTES: usize = 20;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
/// `struct tc_tbf_qopt`: two `tc_ratespec` of 12 bytes come before the limit.
const TBF_LIMIT_AT: usize = 24;

/// The root queue of an interface, as far as its limit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootQueue {
    /// Kind, such as `pfifo`.
    pub kind: String,
    /// Handle, which tells it from a queue of the same kind that replaced it.
    pub handle: u32,
    /// The limit, packets or bytes by kind.
    pub limit: u32,
    options: Vec<u8>,
}

/// Reads the root queue of an interface in the namespace of the calling thread.
///
/// # Errors
/// [`Error::NotFound`] where there is no such interface; [`Error::Refused`] where its root queue
/// has no limit that can be changed, with what to do instead.
pub fn read(link: &str) -> Result<RootQueue> {
    let index = link::read(link)?.index;
    let mut payload = vec![0; TC_BYTES];
    payload[4..8].copy_from_slice(&index.to_ne_bytes());
    let queues = ask(
        &format!("read the queue of {link}"),
        RTM_GETQDISC,
        Ask::All,
        &payload,
    )?;
    let root = queues
        .iter()
        .find(|queue| u32_at(queue, 4) == Some(index) && u32_at(queue, 12) == Some(TC_H_ROOT));
    parse(link, root.map_or(&[][..], Vec::as_slice))
}

/// Changes the limit of the root queue of an interface in the namespace of the calling thread.
///
/// # Errors
/// As [`read`]; [`Error::Permission`] without `CAP_NET_ADMIN`; [`Error::Os`] where the kernel
/// refuses the value.
pub fn write(link: &str, limit: u32) -> Result<()> {
    let queue = read(link)?;
    let mut options = queue.options;
    let at = limit_at(&queue.kind, &options).expect("read() has found the limit there");
    options[at..at + 4].copy_from_slice(&limit.to_ne_bytes());

    let mut payload = vec![0; TC_BYTES];
    payload[4..8].copy_from_slice(&link::read(link)?.index.to_ne_bytes());
    payload[8..12].copy_from_slice(&queue.handle.to_ne_bytes());
    payload[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    push_attribute(
        &mut payload,
        TCA_KIND,
        format!("{}\0", queue.kind).as_bytes(),
    );
    push_attribute(&mut payload, TCA_OPTIONS, &options);
    change(
        &format!("set the limit of the {} of {link} to {limit}", queue.kind),
        (RTM_NEWQDISC, 0),
        payload,
    )
}

fn parse(link: &str, message: &[u8]) -> Result<RootQueue> {
    let find = |wanted: u16| {
        attributes(message, TC_BYTES)
            .find(|(kind, _)| *kind == wanted)
            .map(|(_, data)| data)
    };
    let kind = find(TCA_KIND).map_or_else(|| "noqueue".into(), text);
    let handle = u32_at(message, 8).unwrap_or_default();
    let options = find(TCA_OPTIONS).unwrap_or_default().to_vec();
    let refused = |reason: String| {
        Err(Error::Refused {
            what: format!("the queue of {link} ({kind})"),
            reason,
        })
    };
    let Some(at) = limit_at(&kind, &options) else {
        return refused(match kind.as_str() {
            "pfifo_fast" => "it has no limit of its own; set link.txqueuelen".into(),
            "noqueue" => "nothing waits here, so there is no limit".into(),
            _ => "only the limits of pfifo, bfifo and tbf are changed; use `tc`".into(),
        });
    };
    // Linux 6.18 net/sched/sch_api.c: a queue that the kernel made by itself has handle 0 and is
    // replaced, never changed.
    if handle == 0 {
        return refused(format!(
            "it is the kernel's default and cannot be changed; make it yours with \
             `tc qdisc replace dev {link} root {kind} limit N`"
        ));
    }
    Ok(RootQueue {
        limit: u32_at(&options, at).expect("limit_at looks inside"),
        kind,
        handle,
        options,
    })
}

/// Offset of the limit in the options of a kind.
fn limit_at(kind: &str, options: &[u8]) -> Option<usize> {
    let at = match kind {
        "pfifo" | "bfifo" => 0,
        "tbf" => {
            let (_, parms) = attributes(options, 0).find(|(kind, _)| *kind == TCA_TBF_PARMS)?;
            u32_at(parms, TBF_LIMIT_AT)?;
            parms.as_ptr() as usize - options.as_ptr() as usize + TBF_LIMIT_AT
        }
        _ => return None,
    };
    u32_at(options, at).map(|_| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_queue_and_says_so() {
        let error = read("lo").expect_err("noqueue");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("nothing waits"), "{error}");
    }

    #[test]
    fn the_limit_of_a_shaper_is_found_behind_its_rates() {
        let mut parms = [0; 36];
        parms[TBF_LIMIT_AT..TBF_LIMIT_AT + 4].copy_from_slice(&3000_u32.to_ne_bytes());
        let mut options = Vec::new();
        push_attribute(&mut options, 9, b"pad\0");
        push_attribute(&mut options, TCA_TBF_PARMS, &parms);
        let at = limit_at("tbf", &options).unwrap();
        assert_eq!(u32_at(&options, at), Some(3000));
        assert_eq!(limit_at("tbf", &options[..20]), None);
        assert_eq!(limit_at("pfifo", &[]), None);
    }
}
