//! The screen of `top`: a model drawn into a buffer of any size. What does not fit is left out, the least important
//! first; nothing is wrapped into something else.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use super::figures::Figures;
use super::model::Model;
use super::panel::{self, PANELS, Panel, Part, Tone};
use crate::cli::times::Wall;
use crate::cli::watching::Slot;
use crate::types::Micros;

/// Between columns, and between words that stand side by side.
const GAP: usize = 2;
/// Names and paths are not cut shorter than this, while another column can go instead.
const NAME: usize = 14;
/// A bar that is shorter shows nothing.
const BAR: usize = 10;

const HELP: [&str; 15] = [
    "q  Ctrl-C        end",
    "←  →  Tab        the next panel, whose rows the other arrows move",
    "↑  ↓  PgUp PgDn  its rows",
    "s                sort: worst first, most waiting first, by path, by agent",
    "/                filter by a part of a path or of an agent's name; Esc clears it",
    "p  Space         pause, and go on",
    "?                this",
    "",
    "A slot's work stands in its bar, out of the slot's length:",
    panel::STEPS,
    "late is from the slot's end to when its thread was awake; sync is the record made durable.",
    "",
    "Health has limits below which it is good (docs/METRICS.md). A lease is overdue when it is held for twice",
    "as long as it was declared for, or more. Conflicts count half as much after each minute, and so on;",
    "`preclaim hot` says what to do about a path.",
];

/// Something on the screen, in lines.
enum Section<'a> {
    Parts(Vec<Part>),
    Bar(&'static str, Slot, Micros),
    Panel(usize, &'a Panel),
}

/// A section with where it stands, how important it is, and how many lines it wants at least and at most.
struct Placed<'a> {
    section: Section<'a>,
    rank: u8,
    least: usize,
    most: usize,
}

/// Where and how it is drawn.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    is_coloured: bool,
}

/// Draws the whole of it. Without colours it says the same.
pub(super) fn draw(model: &Model, wall: &Wall, area: Rect, buffer: &mut Buffer, is_coloured: bool) {
    let mut canvas = Canvas { buffer, area, is_coloured };
    if model.is_help {
        return canvas.lines(HELP.iter().map(|line| vec![plain(line)]));
    }
    match &model.figures {
        Some(figures) => canvas.figures(model, figures, wall),
        None => {
            let text = model.trouble.clone().unwrap_or_else(|| format!("asking {} ...", model.addr));
            let tone = if model.trouble.is_some() { Tone::Bad } else { Tone::Plain };
            canvas.lines(text.lines().map(|line| vec![Part { text: line.to_owned(), tone }]));
        }
    }
}

fn plain(text: &str) -> Part {
    Part { text: text.to_owned(), tone: Tone::Plain }
}

impl Canvas<'_> {
    fn figures(&mut self, model: &Model, figures: &Figures, wall: &Wall) {
        let panels = panel::panels(figures, model.sort, &model.filter, wall);
        let sections = self.sections(model, figures, &panels, wall);
        let height = usize::from(self.area.height);
        // The keys stand at the bottom, where there is room for what they work on.
        let is_footed = height > 4;
        let heights = share(&sections, height - usize::from(is_footed));
        let mut y = 0;
        for (placed, lines) in sections.iter().zip(heights) {
            self.section(&placed.section, model, y, lines);
            y += lines;
        }
        if is_footed {
            self.parts(&footer(model), height - 1);
        }
    }

    /// In the order in which they stand.
    fn sections<'a>(
        &self,
        model: &Model,
        figures: &Figures,
        panels: &'a [Panel; PANELS],
        wall: &Wall,
    ) -> Vec<Placed<'a>> {
        let width = usize::from(self.area.width);
        let one = |rank, parts| Placed { section: Section::Parts(parts), rank, least: 1, most: 1 };
        let some = |rank, parts: Vec<Part>| {
            let most = flow(&parts, width).len();
            Placed { section: Section::Parts(parts), rank, least: 1, most }
        };
        let mut sections = vec![one(0, panel::title(&model.addr, figures, wall))];
        if let Some(trouble) = &model.trouble {
            let first = trouble.lines().next().unwrap_or_default().to_owned();
            sections.push(one(1, vec![Part { text: first, tone: Tone::Bad }]));
        }
        let length = figures.slot.length_us;
        let bars = [(3, "typical", figures.slot.typical), (12, "worst", figures.slot.worst)];
        for (rank, name, slot) in bars {
            let bar = slot.map(|slot| Section::Bar(name, slot, length));
            sections.extend(bar.map(|section| Placed { section, rank, least: 1, most: 1 }));
        }
        let mut lateness = panel::lateness(figures);
        lateness.push(Part { text: panel::STEPS.into(), tone: Tone::Dim });
        sections.push(one(7, lateness));
        sections.push(some(4, panel::health(&figures.health)));
        sections.push(some(5, panel::rates(figures)));
        sections.push(one(9, panel::counts(figures)));
        for (at, (panel, rank)) in panels.iter().zip([2, 6, 8, 10]).enumerate() {
            let most = 1 + panel.rows.len();
            let section = Section::Panel(at, panel);
            sections.push(Placed { section, rank, least: most.min(2), most });
        }
        sections
    }

    fn section(&mut self, section: &Section<'_>, model: &Model, y: usize, height: usize) {
        match section {
            _ if height == 0 => {}
            Section::Parts(parts) => {
                let lines = flow(parts, usize::from(self.area.width)).into_iter().take(height);
                lines.enumerate().for_each(|(at, line)| self.parts(line, y + at));
            }
            Section::Bar(name, slot, length) => self.bar(name, slot, *length, y),
            Section::Panel(at, panel) => self.panel(panel, model.above[*at], *at == model.focus, y, height),
        }
    }

    fn bar(&mut self, name: &str, slot: &Slot, length: Micros, y: usize) {
        let done = panel::done(slot, length);
        let width = usize::from(self.area.width);
        let beside = 8 + GAP + width_of(&done);
        if width < beside + BAR {
            return self.put(0, y, width, &format!("{name} {done}"), Style::new());
        }
        self.put(0, y, 8, name, Style::new());
        let bar = panel::bar(slot, length, width - beside);
        for (at, letter) in bar.chars().enumerate() {
            let style = self.step(letter);
            self.put(8 + at, y, 1, letter.encode_utf8(&mut [0; 4]), style);
        }
        self.put(width - width_of(&done), y, width_of(&done), &done, Style::new());
    }

    fn panel(&mut self, panel: &Panel, above: usize, is_focused: bool, y: usize, height: usize) {
        let above = above.min(panel.rows.len().saturating_sub(1));
        let widths = widths(panel, usize::from(self.area.width));
        let head: Vec<String> = panel.columns.iter().map(|column| column.head.to_owned()).collect();
        let style = if is_focused { Modifier::BOLD | Modifier::REVERSED } else { Modifier::BOLD };
        if panel.rows.is_empty() {
            let first = panel.columns.first().map_or("", |column| column.head);
            return self.put(
                0,
                y,
                usize::from(self.area.width),
                &format!("{first}  none"),
                Style::new().add_modifier(style),
            );
        }
        self.row(panel, &widths, &head, y, Style::new().add_modifier(style));
        let rows = panel.rows.iter().skip(above).take(height - 1);
        for (at, row) in rows.enumerate() {
            self.row(panel, &widths, row, y + 1 + at, Style::new());
        }
    }

    fn row(&mut self, panel: &Panel, widths: &[usize], cells: &[String], y: usize, style: Style) {
        let mut x = 0;
        for ((column, cell), width) in panel.columns.iter().zip(cells).zip(widths) {
            if *width == 0 {
                continue;
            }
            let indent = if column.is_number { width.saturating_sub(width_of(cell)) } else { 0 };
            self.put(x + indent, y, width - indent, cell, style);
            x += width + GAP;
        }
    }

    /// What stands side by side; what has no room there is left out.
    fn parts(&mut self, parts: &[Part], y: usize) {
        let width = usize::from(self.area.width);
        let mut x = 0;
        for (at, part) in parts.iter().enumerate() {
            if at > 0 && x + width_of(&part.text) > width {
                break;
            }
            let style = self.tone(part.tone);
            self.put(x, y, width - x, &part.text, style);
            x = (x + width_of(&part.text) + GAP).min(width);
        }
    }

    fn lines(&mut self, lines: impl Iterator<Item = Vec<Part>>) {
        let height = usize::from(self.area.height);
        lines.take(height).enumerate().for_each(|(y, line)| self.parts(&line, y));
    }

    /// Text of up to `width` columns; what is longer ends with `…`.
    fn put(&mut self, x: usize, y: usize, width: usize, text: &str, style: Style) {
        let (right, bottom) = (usize::from(self.area.width), usize::from(self.area.height));
        let width = width.min(right.saturating_sub(x));
        if width == 0 || y >= bottom {
            return;
        }
        let (x, y) = (self.area.x + x as u16, self.area.y + y as u16);
        if width_of(text) <= width {
            self.buffer.set_stringn(x, y, text, width, style);
            return;
        }
        let (end, _) = self.buffer.set_stringn(x, y, text, width - 1, style);
        self.buffer.set_stringn(end, y, "…", 1, style);
    }

    fn tone(&self, tone: Tone) -> Style {
        let coloured = |colour| if self.is_coloured { Style::new().fg(colour) } else { Style::new() };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Title => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good => coloured(Color::Green),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        }
    }

    fn step(&self, letter: char) -> Style {
        let colour = match letter {
            'l' => Color::Yellow,
            'c' => Color::Cyan,
            'r' => Color::Green,
            's' => Color::Magenta,
            'p' => Color::Blue,
            _ => return Style::new().add_modifier(Modifier::DIM),
        };
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }
}

/// Columns that it takes on a terminal.
fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// The parts in lines of that width, each whole.
fn flow(parts: &[Part], width: usize) -> Vec<&[Part]> {
    let mut lines = Vec::new();
    let (mut from, mut x) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        let wide = width_of(&part.text);
        if at > from && x + wide > width {
            lines.push(&parts[from..at]);
            (from, x) = (at, 0);
        }
        x += wide + GAP;
    }
    lines.push(&parts[from..]);
    lines
}

/// How many lines of `height` each section has: the least that they want by rank, then one more for each that wants
/// more, again and again.
fn share(sections: &[Placed<'_>], height: usize) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..sections.len()).collect();
    by_rank.sort_by_key(|at| sections[*at].rank);
    let (mut heights, mut left) = (vec![0; sections.len()], height);
    for at in &by_rank {
        if sections[*at].least <= left {
            heights[*at] = sections[*at].least;
            left -= sections[*at].least;
        }
    }
    loop {
        let before = left;
        for at in &by_rank {
            if left > 0 && heights[*at] > 0 && heights[*at] < sections[*at].most {
                heights[*at] += 1;
                left -= 1;
            }
        }
        if left == before {
            return heights;
        }
    }
}

/// How wide each column of a panel is; 0 for those that are left out.
fn widths(panel: &Panel, width: usize) -> Vec<usize> {
    let wanted = |at: usize| {
        let cells = panel.rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(cell));
        cells.chain([width_of(panel.columns[at].head)]).max().unwrap_or(0)
    };
    let wanted: Vec<usize> = (0..panel.columns.len()).map(wanted).collect();
    let mut by_rank: Vec<usize> = (0..panel.columns.len()).collect();
    by_rank.sort_by_key(|at| panel.columns[*at].rank);
    let (mut widths, mut used) = (vec![0; panel.columns.len()], 0);
    for at in by_rank {
        let is_name = panel.columns[at].rank == 0;
        let gap = if used == 0 { 0 } else { GAP };
        let least = if is_name { wanted[at].min(NAME) } else { wanted[at] };
        // The first is always there, as much of it as fits.
        let least = if used == 0 { least.min(width) } else { least };
        if used + gap + least > width {
            break;
        }
        widths[at] = least;
        used += gap + least;
    }
    for at in 0..widths.len() {
        if widths[at] > 0 {
            let more = (wanted[at] - widths[at].min(wanted[at])).min(width - used);
            widths[at] += more;
            used += more;
        }
    }
    widths
}

/// What the keys do, or what is typed.
fn footer(model: &Model) -> Vec<Part> {
    let dim = |text: &str| Part { text: text.to_owned(), tone: Tone::Dim };
    if model.is_typing {
        let typed = format!("/{}▏", crate::cli::output::harmless(&model.filter));
        return vec![plain(&typed), dim("Enter keeps it, Esc clears it")];
    }
    let mut parts = Vec::new();
    if model.is_paused {
        parts.push(Part { text: "PAUSED".into(), tone: Tone::Bad });
    }
    if !model.filter.is_empty() {
        parts.push(plain(&format!("only with {:?}", model.filter)));
    }
    let sort = format!("s sort ({})", model.sort.as_str());
    parts.extend(["q end", "? help", "/ filter", &sort, "p pause", "arrows: panels, rows"].map(dim));
    parts
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::cli::top::panel::Sort;
    use crate::cli::top::panel::tests::{NOW, figures};

    fn model() -> Model {
        let mut model = Model::new("127.0.0.1:7412");
        model.figures = Some(figures());
        model
    }

    /// The screen as text, line by line.
    fn screen(model: &Model, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let wall = Wall::utc(NOW);
        terminal
            .draw(|frame| {
                let area = frame.area();
                draw(model, &wall, area, frame.buffer_mut(), true);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_usual_screen_has_it_all() {
        let shown = screen(&model(), 100, 24);
        let told = [
            "preclaim 0.1.0  ready  10:30:58  127.0.0.1:7412  slot 179594825835",
            "typical",
            "worst",
            "late 0/s, 2 in all",
            "conflicts 13 % (NOT BELOW 5 %)  p99 to resolve 9 ms (below 200 ms)  rollbacks 0 % (below 1 %)",
            "over 2.0 s",
            "a second: 0 in  100 granted  15 conflict",
            "5 grants  1 wait  0 connected  0 away",
            "CONTENDED",
            "aisle/4                    30     0  robot-1     10:31:07.250, in 8.9 s",
            "db/\\u{1b}[2Jschema          9     3  nobody now",
            "WAITS FOR",
            "aisle/4    zoë",
            "OVERDUE LEASE",
            "aisle/4 +1     robot-1    90.0 s       30s",
            "AGENT",
            "robot-1",
            "zoë",
        ];
        for (line, start) in shown.iter().zip(told) {
            assert!(line.starts_with(start), "{line:?} should begin with {start:?}\n{}", shown.join("\n"));
        }
        assert!(shown[23].starts_with("q end  ? help"), "{}", shown.join("\n"));
    }

    #[test]
    fn on_any_size_nothing_is_garbled_and_the_most_important_stays() {
        for width in [1, 5, 13, 20, 27, 40, 61, 80, 200] {
            for height in [1, 2, 3, 5, 8, 13, 24, 60] {
                let shown = screen(&model(), width, height);
                assert!(shown[0].starts_with(if width < 5 { "" } else { "prec" }), "{width}x{height}");
                let whole = shown.join("\n");
                assert!(!whole.contains('\u{1b}'), "{whole}");
                if width >= 40 && height >= 3 {
                    assert!(whole.contains("CONTENDED") && whole.contains("aisle/4"), "{whole}");
                    assert!(whole.contains("robot-1"), "who has it: {whole}");
                }
                if width >= 61 && height >= 24 {
                    for what in ["30", "in 8.9 s", "NOT BELOW 5 %", "WAITS FOR", "OVERDUE"] {
                        assert!(whole.contains(what), "{width}x{height} {what}: {whole}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_column_goes_whole_and_a_name_is_cut_with_a_mark() {
        let shown = screen(&model(), 44, 24).join("\n");
        assert!(shown.contains("HELD BY") && !shown.contains("LAST CONFLICT"), "{shown}");
        let narrow = screen(&model(), 12, 24).join("\n");
        assert!(narrow.contains("db/\\u{1b}[2…"), "{narrow}");
    }

    #[test]
    fn the_footer_tells_of_the_filter_and_of_a_pause() {
        let mut model = model();
        for code in [KeyCode::Char('/'), KeyCode::Char('d'), KeyCode::Char('b')] {
            model.key(code.into());
        }
        let shown = screen(&model, 80, 24);
        assert!(shown[23].starts_with("/db▏"), "{}", shown.join("\n"));
        assert!(!shown.join("\n").contains("aisle/4"), "nothing else is left");
        model.key(KeyCode::Enter.into());
        model.key(KeyCode::Char('p').into());
        assert!(screen(&model, 80, 24)[23].starts_with("PAUSED  only with \"db\""));
        assert_eq!(model.sort, Sort::Worst);
    }

    #[test]
    fn help_and_trouble_are_shown() {
        let mut model = model();
        model.fail("unreachable: x cannot be read\n  why  it is gone".into());
        assert_eq!(screen(&model, 80, 24)[1], "unreachable: x cannot be read");
        model.key(KeyCode::Char('?').into());
        assert!(screen(&model, 80, 24)[0].starts_with("q  Ctrl-C"));
        let mut first = Model::new("127.0.0.1:7412");
        assert_eq!(screen(&first, 80, 3)[0], "asking 127.0.0.1:7412 ...");
        first.fail("unreachable: x\n  why  y".into());
        assert_eq!(screen(&first, 80, 3), ["unreachable: x", "  why  y", ""]);
    }

    #[test]
    fn lines_go_to_the_most_important_first_and_then_to_each_in_turn() {
        let of = |rank, least, most| Placed { section: Section::Parts(Vec::new()), rank, least, most };
        let sections = [of(0, 1, 1), of(2, 2, 9), of(1, 2, 9)];
        let shared = |height| share(&sections, height);
        assert_eq!(shared(0), [0, 0, 0]);
        assert_eq!(shared(2), [1, 0, 0]);
        assert_eq!(shared(3), [1, 0, 2]);
        assert_eq!(shared(5), [1, 2, 2]);
        assert_eq!(shared(8), [1, 3, 4]);
        assert_eq!(shared(99), [1, 9, 9]);
    }
}
