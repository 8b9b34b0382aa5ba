//! How verdicts are written as JSON: `id`, `sentence`, `finding`, `limit`, `share`, `confidence`,
//! `evidence`, `next`, `change`, `live`, `remark`.

use base::{Rate, Scope};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::verdict::{Proposal, Verdict};

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            diagnosis,
            limit,
            share,
            confidence,
            evidence,
            next,
            proposals,
            remark,
        } = self;
        let mut json = serializer.serialize_struct("Verdict", 11)?;
        json.serialize_field("id", diagnosis.id)?;
        json.serialize_field("sentence", diagnosis.sentence)?;
        json.serialize_field("finding", &diagnosis.is_finding())?;
        json.serialize_field("limit", limit)?;
        json.serialize_field("share", share)?;
        json.serialize_field("confidence", confidence)?;
        json.serialize_field("evidence", evidence)?;
        json.serialize_field("next", next)?;
        json.serialize_field("change", proposals)?;
        // When the first of them works; null where there is nothing to change.
        json.serialize_field("live", &proposals.first().map(|proposal| proposal.live))?;
        json.serialize_field("remark", remark)?;
        json.end()
    }
}

impl Serialize for Proposal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            side,
            beside,
            knob,
            to,
            live,
            risk,
        } = self;
        let scope: Scope = knob.scope;
        let mut json = serializer.serialize_struct("Proposal", 7)?;
        json.serialize_field("side", side)?;
        json.serialize_field("beside", beside)?;
        json.serialize_field("scope", &scope)?;
        json.serialize_field("knob", knob.name)?;
        json.serialize_field("to", to)?;
        json.serialize_field("live", live)?;
        json.serialize_field("risk", risk)?;
        json.end()
    }
}

/// A rate as a number of bit/s.
pub(crate) fn rate_bps<S: Serializer>(
    rate: &Option<Rate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    rate.map(Rate::bits_per_second).serialize(serializer)
}
