//! One service or connection: its numbers, what the doctor says with the evidence, and its rate
//! over the last minutes.

use std::time::Duration;

use base::{FlowSample, human};
use linux::NetnsPlace;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::super::history::SECONDS;
use super::super::model::Model;
use super::super::rows::Row;
use super::theme::{self, Theme, clean, push_labelled, wrapped};
use crate::commands::diagnose::document::{FlowRow, VerdictRow};
use crate::commands::diagnose::screen;

/// Lines of the graph, and the least height of a screen that has one.
const GRAPH_LINES: u16 = 5;
const GRAPH_FROM: u16 = 18;

/// Areas of the text and of the graph, which may have no room.
pub(super) fn areas(area: Rect) -> [Rect; 2] {
    let graph_lines = match area.height {
        height if height >= 2 * GRAPH_FROM => 2 * GRAPH_LINES,
        height if height >= GRAPH_FROM => GRAPH_LINES,
        _ => 0,
    };
    Layout::vertical([Constraint::Min(0), Constraint::Length(graph_lines)]).areas(area)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let [text, graph] = areas(area);
    let lines = lines(model, area.width.into(), theme);
    super::draw_text(frame, text, &lines, model.scrolled);
    if let Some(row) = model.row().filter(|_| graph.height > 0) {
        draw_graph(frame, graph, (model, row), theme);
    }
}

pub(super) fn lines(model: &Model, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(row) = model.row() else {
        return vec![Line::raw("It has ended; q goes back.")];
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    let mut title = vec![Span::styled(clean(&row.name), bold)];
    if row.count() > 1 {
        let text = format!("  one of {} connections:", row.count());
        title.push(Span::styled(text, theme.faint()));
    }
    lines.push(Line::from(title));
    if let Some(connection) = model.connection(row) {
        let owner = connection.owners.first();
        let mut text = owner.map_or_else(
            || "process unknown".to_owned(),
            |owner| format!("{}/{}", owner.pid(), owner.process.command),
        );
        if row.count() > 1 {
            let key = connection.key();
            text = format!("{} > {}  {text}", key.local, key.remote);
        }
        if model.are_apart {
            let NetnsPlace { netns, container } = &*row.place;
            let place = screen::place_name(netns, container.as_deref());
            text = format!("{text} in {place}");
        }
        lines.push(Line::raw(clean(&text)));
        push(&mut lines, &numbers(&connection.sample), columns);
    }
    let Some(flow) = model.flow(row) else {
        lines.push(Line::raw(""));
        let text = "No verdict yet, or none of its own: that of the other end counts.";
        push(&mut lines, text, columns);
        return lines;
    };
    if !flow.limits.is_empty() {
        let shares = flow.limits.iter();
        let shares: Vec<String> = shares
            .map(|limit| format!("{} {}", limit.limit, human::share(limit.share)))
            .collect();
        push(
            &mut lines,
            &format!("its time: {}", shares.join(", ")),
            columns,
        );
    }
    for verdict in &flow.verdicts {
        push_verdict(&mut lines, verdict, columns, theme);
    }
    push_missing(&mut lines, flow, model.is_measuring(flow), columns);
    lines
}

/// Adds a text that goes on two columns farther in.
fn push(lines: &mut Vec<Line<'static>>, text: &str, columns: usize) {
    lines.extend(wrapped(text, columns, 2, 0).into_iter().map(Line::raw));
}

/// Values of the last look.
fn numbers(sample: &FlowSample) -> String {
    let time = |time: Option<Duration>| time.map(human::time);
    let packets = |count: Option<u32>| count.map(|count| count.to_string());
    let bytes = |count: Option<u32>| count.map(|count| format!("{count} B"));
    let known = [
        ("rtt", time(sample.srtt)),
        ("min rtt", time(sample.min_rtt)),
        ("cwnd", packets(sample.cwnd_pkts)),
        ("in flight", packets(sample.unacked_pkts)),
        ("unsent", bytes(sample.notsent_bytes)),
        ("unread", bytes(sample.unread_bytes)),
        ("peer window", bytes(sample.snd_wnd_bytes)),
        (
            "retransmitted",
            sample.retrans_total_pkts.map(|count| count.to_string()),
        ),
        ("cc", sample.congestion.as_deref().map(clean)),
    ];
    let known = known.into_iter();
    let shown: Vec<String> = known
        .filter_map(|(name, value)| Some(format!("{name} {}", value?)))
        .collect();
    shown.join(", ")
}

/// The finding, the change, and then the evidence.
fn push_verdict(
    lines: &mut Vec<Line<'static>>,
    verdict: &VerdictRow,
    columns: usize,
    theme: &Theme,
) {
    let style = match (verdict.finding, verdict.act) {
        (true, true) => theme.finding(),
        (true, false) => theme.doubtful(),
        (false, _) => Style::new().add_modifier(Modifier::BOLD),
    };
    let mark = if verdict.finding { "! " } else { "" };
    let share = human::share(verdict.share);
    let confidence = screen::confidence(verdict);
    lines.push(Line::raw(""));
    lines.push(Line::from(vec![
        Span::styled(format!("{mark}{}", verdict.id), style),
        Span::styled(
            format!("  {share} of the time, confidence {confidence}"),
            theme.faint(),
        ),
    ]));
    push_labelled(lines, Span::raw("  "), verdict.sentence, columns);
    let changes = verdict.change.iter().chain(&verdict.alternatives);
    for (index, change) in changes.enumerate() {
        let label = if index == 0 {
            "  change  "
        } else {
            "  or      "
        };
        let label = Span::styled(label, theme.change());
        push_labelled(lines, label, &screen::advice(change), columns);
    }
    if let Some(next) = &verdict.next {
        push_labelled(lines, Span::raw("  then    "), &next.to_string(), columns);
    }
    if !verdict.remark.is_empty() {
        push_labelled(lines, Span::raw("  note    "), &verdict.remark, columns);
    }
    let evidence = verdict.evidence.iter();
    let names = evidence.clone().map(|row| row.field.len());
    let width = names.max().unwrap_or(0).min(columns / 3);
    for row in evidence {
        let label = format!("  {:<width$}  ", clean(row.field));
        let text = format!("{}; expected: {}", row.observed, row.expected);
        push_labelled(lines, Span::styled(label, theme.faint()), &text, columns);
    }
}

/// Why there is no verdict, and what could not be read.
fn push_missing(
    lines: &mut Vec<Line<'static>>,
    flow: &FlowRow,
    is_measuring: bool,
    columns: usize,
) {
    let unknown = flow.unknown.iter().map(|why| match is_measuring {
        true => format!(
            "measuring: {} seen for {}; the verdict follows after a whole window",
            human::count(flow.samples as u64, "sample"),
            human::time(Duration::from_secs_f64(flow.seen_s.max(0.0)))
        ),
        false => format!("unclear: {why}"),
    });
    let options = flow.options_error.iter();
    let options = options.map(|why| format!("options of the socket could not be read: {why}"));
    let idle = flow.idle && flow.verdicts.is_empty();
    let idle = idle.then(|| "idle: no payload moved and none was waiting".to_owned());
    for text in unknown.chain(options).chain(idle) {
        lines.push(Line::raw(""));
        push(lines, &text, columns);
    }
}

/// `80 s`, `4 min`.
fn span(seconds: usize) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    }
}

fn draw_graph(frame: &mut Frame<'_>, area: Rect, (model, row): (&Model, &Row), theme: &Theme) {
    let columns = usize::from(area.width).min(SECONDS);
    let [title, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rates = model.history(row).map_or_else(
        || vec![0; columns],
        |history| history.rates_bps(model.second, columns),
    );
    let most = rates.iter().copied().max().unwrap_or(0);
    let text = format!(
        "rate, last {}: now {}, most {}",
        span(columns),
        human::bps(row.rate_bps),
        human::bps(most)
    );
    let (_, color) = theme::mark(row.held);
    let style = if theme.color {
        Style::new().fg(color)
    } else {
        Style::new()
    };
    let text = theme::fitted(&text, area.width.into(), theme);
    frame.render_widget(Paragraph::new(Line::styled(text, theme.header())), title);
    let graph = Sparkline::default()
        .data(rates)
        .max(most.max(1))
        .bar_set(theme.bars())
        .style(style);
    frame.render_widget(graph, bars);
}
