//! What is measured of each row, in the order of the columns.

use base::Fraction;

use crate::kernel::Load;
use crate::race::What;
use crate::stage::{Direction, Network};

/// Connections that are busy at once.
const ACTIVE: usize = 1000;

/// One thing that is measured of each row.
pub(crate) struct Cell {
    /// Its name in JSON, and what stands above its columns.
    pub(crate) what: String,
    pub(crate) head: String,
    network: fn(Fraction, u64) -> Network,
    loss: Fraction,
    pub(crate) measured: What,
}

impl Cell {
    fn on_device(what: &str, measured: What) -> Self {
        Self {
            what: what.into(),
            head: String::new(),
            network: |_, _| Network::Device,
            loss: Fraction::ZERO,
            measured,
        }
    }

    /// What lies between kernel and stack; each seed has losses of its own.
    pub(crate) fn network(&self, seed: u64) -> Network {
        (self.network)(self.loss, seed)
    }
}

/// Over the bare device: one connection, and round trips.
pub(crate) fn device() -> Vec<Cell> {
    let mut cells = both_directions(1);
    cells.push(Cell::on_device("ping", What::Ping));
    cells
}

/// Over the bare device: many connections, idle and busy.
pub(crate) fn crowd(connections: usize) -> Vec<Cell> {
    let load = Load::Idle;
    let mut cells = vec![Cell::on_device("idle", What::Flows { load, connections })];
    cells.extend(both_directions(connections.min(ACTIVE)));
    cells
}

fn both_directions(connections: usize) -> Vec<Cell> {
    let flows = |load| What::Flows { load, connections };
    vec![
        Cell::on_device("kernel_to_stack", flows(Load::Send)),
        Cell::on_device("stack_to_kernel", flows(Load::Receive)),
    ]
}

/// Over the path, at each loss.
pub(crate) fn path(losses: &[Fraction]) -> Vec<Cell> {
    losses.iter().flat_map(|&loss| path_cells(loss)).collect()
}

fn path_cells(loss: Fraction) -> [Cell; 2] {
    let cell = |(what, head): (&str, &str), load, network| Cell {
        what: format!("{what} {loss}"),
        head: format!("{head} {loss}"),
        network,
        loss,
        measured: What::Flows {
            load,
            connections: 1,
        },
    };
    let to_stack = |loss, seed| Network::Path {
        loss,
        seed,
        data: Direction::ToStack,
    };
    let from_stack = |loss, seed| Network::Path {
        loss,
        seed,
        data: Direction::FromStack,
    };
    [
        cell(("kernel_to_stack", "to it"), Load::Send, to_stack),
        cell(("stack_to_kernel", "from it"), Load::Receive, from_stack),
    ]
}
