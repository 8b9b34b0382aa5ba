//! The records in order of offset: a line of those that left once and that nothing has happened to,
//! behind a tree of the others.
//!
//! Most records join the line at its end and leave it at its front, which costs next to nothing.
//! Losses and SACK take up what lies in the middle: all up to there moves into the tree first, each
//! record once, so that no peer can make a step cost more than the tree does.

use alloc::collections::{BTreeMap, VecDeque};

use super::Record;

#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    /// By start; all in front of the line.
    tree: BTreeMap<u64, Record>,
    /// With its start.
    line: VecDeque<(u64, Record)>,
}

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.tree.is_empty() && self.line.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tree.len() + self.line.len()
    }

    /// The first record and its start.
    pub(super) fn first(&self) -> Option<(u64, &Record)> {
        let in_tree = self.tree.first_key_value();
        let in_line = || self.line.front().map(|(start, record)| (*start, record));
        in_tree
            .map(|(start, record)| (*start, record))
            .or_else(in_line)
    }

    /// The last record and its start.
    pub(super) fn last(&self) -> Option<(u64, &Record)> {
        let in_line = self.line.back().map(|(start, record)| (*start, record));
        let in_tree = || self.tree.last_key_value();
        in_line.or_else(|| in_tree().map(|(start, record)| (*start, record)))
    }

    /// Appends a record behind all others.
    pub(super) fn push(&mut self, start: u64, record: Record) {
        self.line.push_back((start, record));
    }

    /// Takes the first record out where it starts below `offset`.
    pub(super) fn pop_below(&mut self, offset: u64) -> Option<(u64, Record)> {
        if self.first()?.0 >= offset {
            return None;
        }
        self.tree.pop_first().or_else(|| self.line.pop_front())
    }

    /// All records that start below `offset`, with all others in front of the line.
    pub(super) fn up_to(&mut self, offset: u64) -> &mut BTreeMap<u64, Record> {
        while self.line.front().is_some_and(|(start, _)| *start < offset) {
            self.tree.extend(self.line.pop_front());
        }
        &mut self.tree
    }

    /// The record that starts there, where something has happened to it.
    pub(super) fn touched(&self, start: u64) -> Option<&Record> {
        self.tree.get(&start)
    }

    /// All records.
    pub(super) fn all(&mut self) -> &mut BTreeMap<u64, Record> {
        self.up_to(u64::MAX)
    }

    /// Takes all records out, and keeps room for this many.
    pub(super) fn clear(&mut self, kept: usize) {
        // An empty map keeps a node.
        self.tree = BTreeMap::new();
        self.line.clear();
        self.line.shrink_to(kept);
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Record)> {
        let line = self.line.iter().map(|(start, record)| (*start, record));
        let tree = self.tree.iter().map(|(start, record)| (*start, record));
        tree.chain(line)
    }
}
