//! The reference of all settings, made from [`base::KNOBS`].

use std::fmt::Write;

use base::knob::{Kind, LinuxSite};
use base::{KNOBS, Knob, KnobValue, Scope};
use serde::Serialize;
use stack::profile::{self, PROFILES, Profile};

use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// List the settings that tcptailor knows.
///
/// Their units and ranges, where Linux keeps them, and what each profile of tcptailor's own stack
/// sets them to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor knobs                        all of them
  tcptailor knobs net.ipv4.tcp_rmem      one of them, in full
  tcptailor knobs --profile netburner    with the values of that profile
  tcptailor knobs --markdown             the reference page docs/knobs.md")]
pub(crate) struct Args {
    /// Show this one in full.
    #[arg(value_name = "KNOB", conflicts_with = "markdown")]
    name: Option<String>,
    /// Print the reference page.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Show the values that this profile of tcptailor's own stack has.
    #[arg(long, value_name = "NAME", default_value = "linux_6_18")]
    profile: String,
}

#[derive(Serialize)]
struct Document {
    profile: &'static str,
    knobs: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    scope: Scope,
    unit: &'static str,
    min: Option<u64>,
    max: Option<u64>,
    /// `None`: a setting of tcptailor's own stack alone.
    linux: Option<String>,
    /// Value in the profile; `None`: that stack has no such setting of a connection.
    value: Option<KnobValue>,
    aliases: &'static [&'static str],
    help: String,
    cite: &'static str,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if args.markdown {
        output.print(&markdown())?;
        return Ok(Exit::Done);
    }
    let knobs: Vec<&Knob> = match &args.name {
        Some(name) => {
            let hint = "`tcptailor knobs` lists them.";
            vec![find(name).map_err(|error| Problem::usage(error).hint(hint))?]
        }
        None => KNOBS.iter().collect(),
    };
    let profile = profile::find(&args.profile).map_err(|error| {
        Problem::usage(error).hint("docs/knobs.md lists what each profile sets.")
    })?;
    let document = Document {
        profile: profile.name,
        knobs: knobs.iter().map(|knob| row(knob, &profile)).collect(),
    };
    output.report("knobs", &document, || match knobs.as_slice() {
        [knob] => in_full(knob, &document.knobs[0]),
        knobs => overview(knobs, &document.knobs, profile.name),
    })?;
    Ok(Exit::Done)
}

/// By its name here, or by that of its socket option in Linux.
fn find(name: &str) -> Result<&'static Knob, base::KnobError> {
    let is_option = |knob: &&Knob| match &knob.linux {
        Some(LinuxSite::SocketOption { symbol, .. }) => symbol.eq_ignore_ascii_case(name),
        _ => false,
    };
    base::find_knob(name).or_else(|error| KNOBS.iter().find(is_option).ok_or(error))
}

fn row(knob: &Knob, profile: &Profile) -> Row {
    let is_number = !matches!(knob.kind, Kind::Flag | Kind::Name | Kind::Choice(_));
    Row {
        name: knob.name,
        scope: knob.scope,
        unit: unit(knob.kind),
        min: is_number.then_some(knob.min),
        max: is_number.then_some(knob.max),
        linux: knob.linux.as_ref().map(place),
        value: knob.get(&profile.settings).ok(),
        aliases: knob.aliases,
        help: knob.help.into(),
        cite: knob.cite,
    }
}

const fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Flag => "on/off",
        Kind::Count => "number",
        Kind::Bytes => "bytes",
        Kind::Packets => "packets",
        Kind::Micros => "us",
        Kind::BytesTriple => "3 x bytes",
        Kind::Rate => "bit/s",
        Kind::Name => "name",
        Kind::Choice(_) => "choice",
    }
}

pub(crate) const fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Socket => "socket",
        Scope::Route => "route",
        Scope::Link => "link",
        Scope::Qdisc => "queue",
        Scope::Namespace => "namespace",
        Scope::Host => "host",
    }
}

fn place(site: &LinuxSite) -> String {
    match site {
        LinuxSite::SocketOption { symbol, .. } => format!("setsockopt {symbol}"),
        LinuxSite::RouteMetric { name, .. } => format!("ip route {name}"),
        LinuxSite::LinkMtu => "ip link mtu".into(),
        LinuxSite::LinkTxqueuelen => "ip link txqueuelen".into(),
        LinuxSite::QdiscLimit => "tc qdisc limit".into(),
        LinuxSite::Sysctl { .. } => "sysctl".into(),
    }
}

/// The values that it takes; nothing where the unit says it.
fn range(knob: &Knob) -> String {
    let range = match knob.kind {
        Kind::Flag | Kind::Name => return String::new(),
        Kind::Choice(names) => names.join(", "),
        _ => knob.range(),
    };
    if knob.or_none {
        format!("{range}, none")
    } else {
        range
    }
}

fn overview(knobs: &[&Knob], rows: &[Row], profile: &str) -> String {
    let mut table = output::table(&["KNOB", "SCOPE", "UNIT", profile, "WHAT IT DOES"]);
    for (knob, row) in knobs.iter().zip(rows) {
        let value = shown(knob, row.value.as_ref());
        let (scope, unit) = (scope_name(row.scope), row.unit);
        table.add_row([row.name, scope, unit, &value, &row.help]);
    }
    output::render(&table)
}

fn shown(knob: &Knob, value: Option<&KnobValue>) -> String {
    value.map_or_else(|| "-".into(), |value| knob.format(value))
}

fn in_full(knob: &Knob, row: &Row) -> String {
    let mut table = output::table(&["KNOB", row.name]);
    table.add_row(["scope", scope_name(row.scope)]);
    table.add_row(["unit", row.unit]);
    table.add_row(["range", &range(knob)]);
    table.add_row(["in Linux", row.linux.as_deref().unwrap_or(OWN_STACK)]);
    table.add_row(["in profiles", &by_value(knob)]);
    if !row.aliases.is_empty() {
        table.add_row(["also called", &row.aliases.join(", ")]);
    }
    table.add_row(["what it does", &row.help]);
    table.add_row(["source", row.cite]);
    output::render(&table)
}

const OWN_STACK: &str = "nowhere; a setting of tcptailor's own stack";

/// `off (netburner, winsock); 200ms (linux_6_18)`: the profiles by the value that they have.
fn by_value(knob: &Knob) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, profile) in PROFILES {
        let Ok(value) = knob.get(&profile().settings) else {
            return "-".into();
        };
        let value = knob.format(&value);
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(name),
            None => groups.push((value, vec![name])),
        }
    }
    match groups.as_slice() {
        [(value, _)] => format!("{value} (all)"),
        groups => groups
            .iter()
            .map(|(value, names)| format!("{value} ({})", names.join(", ")))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// The page docs/knobs.md.
fn markdown() -> String {
    let mut page = String::from(
        "# Knobs\n\n\
         <!-- Generated by `tcptailor knobs --markdown > docs/knobs.md`; a test compares. -->\n\n\
         Every setting that tcptailor reads, proposes or changes, smallest scope first. A scope\n\
         says how far a change reaches in Linux: one socket, all connections of a route, an\n\
         interface, its queue, or a whole network namespace. In tcptailor's own stack each is a\n\
         setting of one connection, which may also be `none` where the line says so; Linux has no\n\
         `none`. Values are written with their unit (`64KiB`, `40ms`, `1000p`, `on`).\n",
    );
    page += "\n## Profiles\n\n";
    for (name, profile) in PROFILES {
        writeln!(page, "- `{name}`: {}", profile().about).expect("a String grows");
    }
    let mut scope = None;
    for knob in KNOBS {
        if scope != Some(knob.scope) {
            scope = Some(knob.scope);
            write!(page, "\n## Scope: {}\n", scope_name(knob.scope)).expect("a String grows");
        }
        paragraph(&mut page, knob).expect("a String grows");
    }
    page
}

fn paragraph(page: &mut String, knob: &Knob) -> std::fmt::Result {
    write!(page, "\n### `{}`\n\n{}\n\n- Unit: ", knob.name, knob.help)?;
    match range(knob) {
        range if range.is_empty() => writeln!(page, "{}", unit(knob.kind))?,
        range => writeln!(page, "{}, {range}", unit(knob.kind))?,
    }
    match &knob.linux {
        Some(site) => writeln!(page, "- In Linux: {}", place(site))?,
        None => writeln!(page, "- In Linux: {OWN_STACK}")?,
    }
    if knob.stack.is_some() {
        writeln!(page, "- In profiles: {}", by_value(knob))?;
    }
    if !knob.aliases.is_empty() {
        writeln!(page, "- Also called: `{}`", knob.aliases.join("`, `"))?;
    }
    writeln!(page, "- Source: {}", knob.cite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_found_by_the_name_that_linux_gives_its_option() {
        let check = |name: &str, expected: &str| {
            let found = find(name).map(|knob| knob.name);
            assert_eq!(found.ok(), Some(expected), "{name}");
        };
        check("TCP_NODELAY", "nodelay");
        check("so_sndbuf", "sndbuf");
        check("nodelay", "nodelay");
        assert!(find("TCP_NOSUCH").is_err());
    }

    #[test]
    fn the_overview_fits_100_columns_and_names_every_knob() {
        let profile = profile::linux_6_18();
        let knobs: Vec<&Knob> = KNOBS.iter().collect();
        let rows: Vec<Row> = KNOBS.iter().map(|knob| row(knob, &profile)).collect();
        let text = overview(&knobs, &rows, profile.name);
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        for knob in KNOBS.iter().filter(|knob| knob.name.len() < 20) {
            assert!(text.contains(knob.name), "{} is missing", knob.name);
        }
    }
}
