//! Text below the options of a help text, laid out for a width.

/// An item of so few columns, such as an exit code, keeps its remark beside it.
const SHORT_ITEM: usize = 4;
/// Indent of a remark below its item.
pub(crate) const BELOW: &str = "      ";

/// Joins the lines of each paragraph, which is wrapped when it is shown. Remarks beside commands of
/// examples become comments, so that the lines can be pasted; where a list of items with remarks
/// is wider than it may be, each remark goes below its item.
pub(crate) fn laid_out(text: &str, columns: usize) -> String {
    let blocks: Vec<String> = text
        .split("\n\n")
        .map(|block| match block.split_once(":\n  ") {
            Some((title, _)) if !title.contains('\n') => {
                let list = &block[title.len() + 2..];
                let mark = if title == "Examples" { "# " } else { "" };
                format!("{title}:\n{}", list_of(list, mark, columns))
            }
            _ => block.lines().collect::<Vec<_>>().join(" "),
        })
        .collect();
    blocks.join("\n\n")
}

/// A line of a list.
enum Part<'t> {
    /// An item, maybe with a gap and a remark beside it; or the second line of a command.
    Item(&'t str, Option<(&'t str, &'t str)>),
    /// The second line of a remark, with its indent.
    Remark(&'t str, &'t str),
}

fn parts(list: &str) -> Vec<Part<'_>> {
    let mut goes_on = false;
    let part = |line| {
        let is_second = std::mem::replace(&mut goes_on, str::ends_with(line, '\\'));
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if is_second {
            return Part::Item(line, None);
        }
        if indent > BELOW.len() {
            return Part::Remark(&line[..indent], words);
        }
        let beside = words.split_once("  ").map(|(item, _)| {
            let (item, rest) = line.split_at(indent + item.len());
            let remark = rest.trim_start();
            (item, (&rest[..rest.len() - remark.len()], remark))
        });
        match beside {
            Some((item, remark)) => Part::Item(item, Some(remark)),
            None => Part::Item(line, None),
        }
    };
    list.lines().map(part).collect()
}

fn list_of(list: &str, mark: &str, columns: usize) -> String {
    let parts = parts(list);
    let beside = parts.iter().map(|part| match part {
        Part::Item(item, Some((gap, remark))) => format!("{item}{gap}{mark}{remark}"),
        Part::Item(line, None) => (*line).to_owned(),
        Part::Remark(indent, words) => format!("{indent}{mark}{words}"),
    });
    let beside: Vec<String> = beside.collect();
    if beside.iter().all(|line| line.chars().count() <= columns) {
        return beside.join("\n");
    }
    let mut below = Vec::new();
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        let mut remark = match part {
            Part::Item(item, Some((gap, remark))) if item.trim().len() <= SHORT_ITEM => {
                below.push(format!("{item}{gap}{remark}"));
                continue;
            }
            Part::Item(item, remark) => {
                below.push(item.to_owned());
                remark.map_or_else(String::new, |(_, remark)| remark.to_owned())
            }
            Part::Remark(_, words) => words.to_owned(),
        };
        while let Some(Part::Remark(_, words)) = parts.next_if(|part| part.is_remark()) {
            remark = format!("{remark} {words}");
        }
        below.extend(wrapped(
            remark.trim_start(),
            &format!("{BELOW}{mark}"),
            columns,
        ));
    }
    below.join("\n")
}

impl Part<'_> {
    const fn is_remark(&self) -> bool {
        matches!(self, Self::Remark(..))
    }
}

/// The words in lines that begin with `start`.
pub(crate) fn wrapped(words: &str, start: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{start}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Examples:
  t fit           find and fix
  t bench HOST    a stream,
                  ten seconds
  t bench --compare nodelay=on,off
                  in turn
  t predict --rate 100mbit \\
            --rtt 40ms
  t check

A paragraph of
two lines.

Exit codes:
  0  done, or nothing to improve";

    #[test]
    fn remarks_stand_beside_their_items() {
        let wide = "\
Examples:
  t fit           # find and fix
  t bench HOST    # a stream,
                  # ten seconds
  t bench --compare nodelay=on,off
                  # in turn
  t predict --rate 100mbit \\
            --rtt 40ms
  t check

A paragraph of two lines.

Exit codes:
  0  done, or nothing to improve";
        assert_eq!(laid_out(TEXT, 40), wide);
    }

    #[test]
    fn remarks_stand_below_where_it_is_narrow() {
        let narrow = "\
Examples:
  t fit
      # find and fix
  t bench HOST
      # a stream, ten
      # seconds
  t bench --compare nodelay=on,off
      # in turn
  t predict --rate 100mbit \\
            --rtt 40ms
  t check

A paragraph of two lines.

Exit codes:
  0  done, or nothing to improve";
        assert_eq!(laid_out(TEXT, 22), narrow);
    }
}
