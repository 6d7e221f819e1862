//! What `top` shows, in words: lines of figures, and panels of rows in columns. The same for the screen and for
//! `--once`.

use super::figures::{Figure, Figures, Health};
use crate::cli::output::harmless;
use crate::cli::times::{Wall, length};
use crate::cli::watching::{Agent, Contended, Held, Waiting};
use crate::config::show_duration;
use crate::types::{Micros, Time};

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    Good,
    Bad,
    Dim,
}

/// Some words that stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// A column of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Of what does not fit, the highest ranks go first; those of rank 0 stay.
    pub(super) rank: u8,
    /// Numbers stand to the right.
    pub(super) is_number: bool,
}

/// Rows of one kind, the first column with what they are called.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<String>>,
}

/// In which order rows stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The worst first: most conflicts, longest wait, furthest overdue, most at once.
    #[default]
    Worst,
    /// Most waiting first, where that is counted.
    Waiting,
    Path,
    Agent,
}

impl Sort {
    /// The next one.
    pub(super) fn next(self) -> Self {
        match self {
            Sort::Worst => Sort::Waiting,
            Sort::Waiting => Sort::Path,
            Sort::Path => Sort::Agent,
            Sort::Agent => Sort::Worst,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Sort::Worst => "worst first",
            Sort::Waiting => "most waiting first",
            Sort::Path => "by path",
            Sort::Agent => "by agent",
        }
    }
}

const fn text(head: &'static str, rank: u8) -> Column {
    Column { head, rank, is_number: false }
}

const fn number(head: &'static str, rank: u8) -> Column {
    Column { head, rank, is_number: true }
}

const CONTENDED: &[Column] = &[
    text("CONTENDED", 0),
    number("CONFLICTS", 2),
    number("WAIT", 1),
    text("HELD BY", 0),
    text("UNTIL", 1),
    number("INTENT", 4),
    text("LAST CONFLICT", 3),
];
const WAITING: &[Column] = &[
    text("WAITS FOR", 0),
    text("AGENT", 0),
    number("SINCE", 1),
    number("GIVES UP IN", 3),
    text("OFFER", 4),
    number("CLASS", 5),
    number("INTENT", 2),
];
const OVERDUE: &[Column] = &[
    text("OVERDUE LEASE", 0),
    text("AGENT", 0),
    number("HELD FOR", 1),
    number("DECLARED", 1),
    text("UNTIL", 3),
    number("INTENT", 2),
];
const AGENTS: &[Column] = &[text("AGENT", 0), number("GRANTS", 1), number("WAIT", 1)];

/// How many panels there are.
pub(super) const PANELS: usize = 4;

/// All panels, the most important first. `filter` is a part of a path or of an agent's name.
pub(super) fn panels(figures: &Figures, sort: Sort, filter: &str, wall: &Wall) -> [Panel; PANELS] {
    [
        panel(CONTENDED, &figures.contended, sort, filter, |it| contended(it, wall)),
        panel(WAITING, &figures.waiting, sort, filter, |it| waiting(it, wall)),
        panel(OVERDUE, &figures.overdue, sort, filter, |it| overdue(it, wall)),
        panel(AGENTS, &figures.agents, sort, filter, |it| {
            vec![harmless(&it.agent), it.grants.to_string(), it.waiting.to_string()]
        }),
    ]
}

/// What rows are sorted and filtered by.
trait Entry {
    fn path(&self) -> &str;
    fn agent(&self) -> &str;
    fn waits(&self) -> u64;
}

fn panel<T: Entry>(
    columns: &'static [Column],
    entries: &[T],
    sort: Sort,
    filter: &str,
    row: impl Fn(&T) -> Vec<String>,
) -> Panel {
    let is_wanted = |it: &&T| it.path().contains(filter) || it.agent().contains(filter);
    let mut entries: Vec<&T> = entries.iter().filter(is_wanted).collect();
    match sort {
        Sort::Worst => {} // as the coordinator has them
        Sort::Waiting => entries.sort_by_key(|it| std::cmp::Reverse(it.waits())),
        Sort::Path => entries.sort_by_key(|it| it.path()),
        Sort::Agent => entries.sort_by_key(|it| it.agent()),
    }
    Panel { columns, rows: entries.into_iter().map(row).collect() }
}

fn contended(it: &Contended, wall: &Wall) -> Vec<String> {
    let (by, until, id) = match &it.holder {
        Some(held) => (harmless(&held.agent), ahead(held.until, wall), held.id.to_string()),
        None => ("nobody now".into(), String::new(), String::new()),
    };
    vec![
        harmless(&it.path),
        it.conflicts.to_string(),
        it.waiting.to_string(),
        by,
        until,
        id,
        format!("{} ago", length(wall.now.since(it.last_conflict))),
    ]
}

fn waiting(it: &Waiting, wall: &Wall) -> Vec<String> {
    vec![
        harmless(&it.path) + &others(it.claims),
        harmless(&it.agent),
        length(wall.now.since(it.since)),
        length(it.until.since(wall.now)),
        it.offer.map(|offer| ahead(offer, wall)).unwrap_or_default(),
        it.class.to_string(),
        it.id.to_string(),
    ]
}

fn overdue(it: &Held, wall: &Wall) -> Vec<String> {
    vec![
        harmless(&it.path) + &others(it.claims),
        harmless(&it.agent),
        length(wall.now.since(it.since)),
        show_duration(it.stated_us),
        ahead(it.until, wall),
        it.id.to_string(),
    ]
}

/// The other claims of one of which the first is shown.
fn others(claims: u64) -> String {
    if claims > 1 { format!(" +{}", claims - 1) } else { String::new() }
}

/// `10:31:07.250, in 8.9 s`, or no more than that it is over.
fn ahead(time: Time, wall: &Wall) -> String {
    if time > wall.now { wall.ahead(time) } else { "now".into() }
}

fn part(text: impl Into<String>, tone: Tone) -> Part {
    Part { text: text.into(), tone }
}

/// What is watched, and how it is.
pub(super) fn title(addr: &str, figures: &Figures, wall: &Wall) -> Vec<Part> {
    let tone = if figures.ready { Tone::Good } else { Tone::Bad };
    let now = wall.clock(figures.at);
    vec![
        part(format!("preclaim {}", harmless(&figures.version)), Tone::Title),
        part(figures.readiness.clone(), tone),
        part(now.split('.').next().unwrap_or(&now), Tone::Plain),
        part(addr, Tone::Plain),
        part(format!("slot {}", figures.slot.number), Tone::Dim),
    ]
}

/// How slots keep their time.
pub(super) fn lateness(figures: &Figures) -> Vec<Part> {
    let slot = &figures.slot;
    let tone = if slot.late_per_second > 0.0 { Tone::Bad } else { Tone::Plain };
    let mut parts = vec![part(format!("late {}/s, {} in all", rate(slot.late_per_second), slot.late), tone)];
    if let Some(lag) = slot.lag_p99_us {
        parts.push(part(format!("woken late by {} at p99", length(lag)), Tone::Plain));
    }
    parts.push(part(format!("slots {}/s", rate(slot.per_second)), Tone::Dim));
    parts
}

/// The three figures, each with its limit.
pub(super) fn health(health: &Health) -> Vec<Part> {
    let over = match health.over_us {
        Some(over) => format!("over {}", length(over)),
        None => "since its start".into(),
    };
    vec![
        figure("conflicts", health.conflict_rate, percent),
        figure("p99 to resolve", health.resolve_p99_us, length),
        figure("rollbacks", health.rollback_rate, percent),
        part(over, Tone::Dim),
    ]
}

fn figure<T: Copy>(name: &str, figure: Figure<T>, show: fn(T) -> String) -> Part {
    let value = figure.value.map_or_else(|| "–".into(), show);
    // The word too, for those who see no colours.
    let (verdict, tone) = if figure.good { ("below", Tone::Good) } else { ("NOT BELOW", Tone::Bad) };
    part(format!("{name} {value} ({verdict} {})", show(figure.limit)), tone)
}

fn percent(share: f64) -> String {
    let tenths = (share * 1_000.0).round();
    if tenths % 10.0 == 0.0 { format!("{} %", tenths / 10.0) } else { format!("{:.1} %", tenths / 10.0) }
}

/// What is decided and taken in a second. What does not happen is not shown, apart from what everybody looks for.
pub(super) fn rates(figures: &Figures) -> Vec<Part> {
    let mut parts = vec![part(format!("a second: {} in", rate(figures.inputs_per_second)), Tone::Plain)];
    let always = ["granted", "conflict"];
    let of = |name: &str| figures.per_second.get(name).copied().unwrap_or_default();
    let rest = figures.per_second.keys().map(String::as_str);
    let rest = rest.filter(|name| !always.contains(name) && of(name) > 0.0);
    for name in always.into_iter().chain(rest) {
        let tone = if of(name) > 0.0 { Tone::Plain } else { Tone::Dim };
        parts.push(part(format!("{} {name}", rate(of(name))), tone));
    }
    parts
}

/// How much there is.
pub(super) fn counts(figures: &Figures) -> Vec<Part> {
    let mut parts = vec![
        part(format!("{} grants", figures.grants), Tone::Plain),
        part(format!("{} wait", figures.undecided), Tone::Plain),
        part(format!("{} connected", figures.connected), Tone::Plain),
        part(format!("{} away", figures.away), Tone::Dim),
    ];
    if !figures.complete {
        parts.push(part("the lists are of a part of these", Tone::Dim));
    }
    parts
}

fn rate(rate: f64) -> String {
    if rate >= 10.0 || rate == 0.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// The steps of a slot's work, each with the letter that stands for it in the bar.
pub(super) const STEPS: &str = "l late  c collect  r resolve  s sync  p publish";

/// A slot's work out of its length, as letters: each step as long as its share, rounded so that their sum is right.
pub(super) fn bar(slot: &crate::cli::watching::Slot, of: Micros, width: usize) -> String {
    let steps = [
        ('l', slot.lag_us),
        ('c', slot.collect_us),
        ('r', slot.resolve_us),
        ('s', slot.persist_us),
        ('p', slot.publish_us),
    ];
    let cells = |us: u64| (us.saturating_mul(width as u64) + of.as_us() / 2) / of.as_us().max(1);
    let (mut bar, mut done, mut us) = (String::new(), 0, 0);
    for (letter, step) in steps {
        us += step.as_us();
        let until = cells(us).min(width as u64);
        bar.extend(std::iter::repeat_n(letter, (until - done) as usize));
        done = until;
    }
    bar.extend(std::iter::repeat_n('·', width - done as usize));
    bar
}

/// What stands beside a bar.
pub(super) fn done(slot: &crate::cli::watching::Slot, of: Micros) -> String {
    format!("{} of {}", length(slot.done_us), show_duration(of))
}

impl Entry for Contended {
    fn path(&self) -> &str {
        &self.path
    }
    fn agent(&self) -> &str {
        self.holder.as_ref().map_or("", |held| &held.agent)
    }
    fn waits(&self) -> u64 {
        self.waiting
    }
}

impl Entry for Waiting {
    fn path(&self) -> &str {
        &self.path
    }
    fn agent(&self) -> &str {
        &self.agent
    }
    fn waits(&self) -> u64 {
        0
    }
}

impl Entry for Held {
    fn path(&self) -> &str {
        &self.path
    }
    fn agent(&self) -> &str {
        &self.agent
    }
    fn waits(&self) -> u64 {
        0
    }
}

impl Entry for Agent {
    fn path(&self) -> &str {
        ""
    }
    fn agent(&self) -> &str {
        &self.agent
    }
    fn waits(&self) -> u64 {
        self.waiting
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::top::figures::History;
    use crate::cli::top::figures::tests::look;
    use crate::cli::watching::Slot;

    pub(in crate::cli::top) const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    fn held(agent: &str, path: &str) -> Held {
        Held {
            agent: agent.into(),
            id: 41,
            token: 7,
            path: path.into(),
            claims: 2,
            hold: true,
            since: NOW.before(Micros::from_secs(90)),
            until: NOW.after(Micros::from_ms(8_900)),
            stated_us: Micros::from_secs(30),
        }
    }

    fn contended(path: &str, conflicts: u64, waiting: u64, holder: Option<Held>) -> Contended {
        let last_conflict = NOW.before(Micros::from_ms(20));
        Contended { path: path.into(), conflicts, last_conflict, waiting, holder }
    }

    /// Figures with something in each panel, some of it hostile.
    pub(in crate::cli::top) fn figures() -> Figures {
        let mut history = History::default();
        history.take(look(NOW.before(Micros::from_secs(2)).as_us(), 100, 10), false);
        let mut now = look(NOW.as_us(), 300, 40);
        now.claims.contended = vec![
            contended("aisle/4", 30, 0, Some(held("robot-1", "aisle/4"))),
            contended("db/\u{1b}[2Jschema", 9, 3, None),
        ];
        now.claims.longest_waiting = vec![Waiting {
            agent: "zoë".into(),
            id: 3,
            path: "aisle/4".into(),
            claims: 1,
            class: 2,
            since: NOW.before(Micros::from_secs(4)),
            until: NOW.after(Micros::from_secs(6)),
            offer: Some(NOW.after(Micros::from_ms(8_900))),
        }];
        now.claims.overdue = vec![held("robot-1", "aisle/4")];
        now.claims.agents = vec![
            Agent { agent: "robot-1".into(), grants: 5, waiting: 0 },
            Agent { agent: "zoë".into(), grants: 0, waiting: 1 },
        ];
        (now.claims.grants, now.claims.undecided) = (5, 1);
        history.take(now, false)
    }

    fn firsts(panel: &Panel) -> Vec<&str> {
        panel.rows.iter().map(|row| row[0].as_str()).collect()
    }

    #[test]
    fn rows_say_who_has_it_until_when_and_how_many_wait() {
        let [contended, waiting, overdue, agents] = panels(&figures(), Sort::Worst, "", &Wall::utc(NOW));
        let row = ["aisle/4", "30", "0", "robot-1", "10:31:07.250, in 8.9 s", "41", "20 ms ago"];
        assert_eq!(contended.rows[0], row);
        assert_eq!(contended.rows[1][3], "nobody now");
        assert_eq!(waiting.rows[0][..4], ["aisle/4", "zoë", "4.0 s", "6.0 s"]);
        assert_eq!(overdue.rows[0][..4], ["aisle/4 +1", "robot-1", "90.0 s", "30s"]);
        assert_eq!(agents.rows[1], ["zoë", "0", "1"]);
        for panel in [contended, waiting, overdue, agents] {
            assert!(panel.rows.iter().all(|row| row.len() == panel.columns.len()));
            assert!(panel.rows.iter().flatten().all(|cell| !cell.contains(char::is_control)));
        }
    }

    #[test]
    fn rows_are_sorted_and_filtered_by_path_and_agent() {
        let wall = Wall::utc(NOW);
        let of = |sort, filter| panels(&figures(), sort, filter, &wall);
        assert_eq!(firsts(&of(Sort::Waiting, "")[0]), ["db/\\u{1b}[2Jschema", "aisle/4"]);
        assert_eq!(firsts(&of(Sort::Path, "")[0]), ["aisle/4", "db/\\u{1b}[2Jschema"]);
        assert_eq!(firsts(&of(Sort::Waiting, "")[3]), ["zoë", "robot-1"]);
        assert_eq!(firsts(&of(Sort::Worst, "robot")[0]), ["aisle/4"]);
        assert_eq!(firsts(&of(Sort::Worst, "zo")[1]), ["aisle/4"]);
        assert!(of(Sort::Worst, "nothing").iter().all(|panel| panel.rows.is_empty()));
        let round = [Sort::Worst; 4]
            .iter()
            .enumerate()
            .map(|(turns, sort)| (0..turns).fold(*sort, |sort, _| sort.next()).as_str());
        assert_eq!(round.collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn a_figure_that_is_not_good_says_so_in_words() {
        let texts: Vec<String> = health(&figures().health).into_iter().map(|part| part.text).collect();
        let told = [
            "conflicts 13 % (NOT BELOW 5 %)",
            "p99 to resolve 9 ms (below 200 ms)",
            "rollbacks 0 % (below 1 %)",
            "over 2.0 s",
        ];
        assert_eq!(texts, told);
    }

    #[test]
    fn a_bar_has_each_step_as_long_as_its_share_of_the_slot() {
        let us = Micros::from_us;
        let slot = Slot { lag_us: us(1_000), resolve_us: us(3_000), persist_us: us(500), ..Slot::default() };
        assert_eq!(bar(&slot, us(10_000), 10), "lrrrs·····");
        let long = Slot { resolve_us: us(70_000), publish_us: us(9_000), ..Slot::default() };
        assert_eq!(bar(&long, us(10_000), 10), "rrrrrrrrrr");
        assert_eq!(bar(&slot, Micros::ZERO, 0), "");
        assert_eq!(bar(&Slot::default(), us(10_000), 3), "···");
    }
}
