//! What came of it, in numbers.

use std::io::{self, Write};

use tokio::time::Instant;

use super::story::{Figures, Table};
use super::world::{MINUTE, Model, Provider};
use super::{Failure, MOST, Scale};

/// What was spent of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) calls: usize,
    /// As the model says, in tokens.
    pub(crate) spent: u64,
    /// As the book says.
    pub(crate) booked: u64,
}

impl Budget {
    pub(crate) fn new(model: &Model, booked: u64) -> Self {
        let (spent, calls) = model.invoice();
        Budget { calls, spent, booked }
    }
}

/// What came of calls that would be made at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FanOut {
    /// How often the provider refused one.
    pub(crate) refused: usize,
    /// When it took each of the others, in minutes.
    pub(crate) taken: Vec<f64>,
}

impl FanOut {
    pub(crate) fn new(provider: &Provider, begin: Instant) -> Self {
        let (refused, taken) = provider.seen();
        let minutes = |at: Instant| (at - begin).as_secs_f64() / MINUTE.as_secs_f64();
        FanOut { refused, taken: taken.into_iter().map(minutes).collect() }
    }

    /// When the last was taken, in minutes.
    pub(crate) fn last(&self) -> f64 {
        self.taken.iter().copied().fold(0.0, f64::max)
    }
}

/// How many requests were paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub(crate) requests: usize,
    pub(crate) paid: usize,
}

impl Cap {
    pub(crate) fn of(paid: Vec<bool>) -> Self {
        Cap { requests: paid.len(), paid: paid.into_iter().filter(|paid| *paid).count() }
    }
}

/// All runs: each pair is without and with preclaim.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    scale: Scale,
    pub(crate) budget: Vec<[Budget; 2]>,
    pub(crate) fan_out: Vec<[FanOut; 2]>,
    pub(crate) cap: Vec<[Cap; 2]>,
}

const WAYS: [&str; 2] = ["without", "with preclaim"];

/// The figures of many runs, as `least`, or as `median (least to most)`.
fn range(figures: impl Iterator<Item = f64>, decimals: usize) -> String {
    let mut all = Figures::default();
    figures.for_each(|figure| all.add(figure));
    let (least, median, most) = (all.percentile(0.0), all.median(), all.worst());
    match least == most {
        true => format!("{median:.decimals$}"),
        false => format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})"),
    }
}

impl Account {
    pub(crate) fn new(scale: Scale) -> Self {
        Account { scale, budget: Vec::new(), fan_out: Vec::new(), cap: Vec::new() }
    }

    pub(crate) fn tell(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        self.tell_budget(markdown, out)?;
        self.tell_fan_out(markdown, out)?;
        self.tell_cap(markdown, out)
    }

    fn tell_budget(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        let (budget, agents) = (self.scale.limits.budget, self.scale.agents);
        writeln!(
            out,
            "{agents} agents spend a budget of {budget} tokens, in calls of {MOST} at most; each reads, thinks and \
             spends (without the\nrefund it would pay for {} calls):\n",
            budget / MOST
        )?;
        let mut table =
            Table::new(&["", "calls", "spent", "booked", "over the budget", "of the budget used"]);
        for (way, name) in WAYS.into_iter().enumerate() {
            let of = |figure: fn(&Budget) -> f64| range(self.budget.iter().map(|both| figure(&both[way])), 0);
            let over = self.budget.iter().map(|both| both[way].spent.saturating_sub(budget) as f64);
            let used = self.budget.iter().map(|both| 100.0 * both[way].spent as f64 / budget as f64);
            let (calls, spent) = (of(|budget| budget.calls as f64), of(|budget| budget.spent as f64));
            let booked = of(|budget| budget.booked as f64);
            table.row(&[&name, &calls, &spent, &booked, &range(over, 0), &format!("{} %", range(used, 0))]);
        }
        table.print(out, markdown)?;
        writeln!(out)
    }

    fn tell_fan_out(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        let Scale { limits, calls, .. } = &self.scale;
        writeln!(
            out,
            "{calls} calls at once, to a provider that takes {} calls and {} tokens in any minute (here {} ms):\n",
            limits.calls,
            limits.tokens,
            MINUTE.as_millis()
        )?;
        let mut table = Table::new(&[
            "",
            "refused (429)",
            "last taken, minutes",
            "taken in minute 1",
            "2",
            "3",
            "4",
            "5",
            "later",
        ]);
        for (way, name) in WAYS.into_iter().enumerate() {
            let runs = || self.fan_out.iter().map(|both| &both[way]);
            let within = |from: f64, to: f64| {
                range(
                    runs().map(|run| run.taken.iter().filter(|at| (from..to).contains(*at)).count() as f64),
                    0,
                )
            };
            let (refused, last) =
                (range(runs().map(|run| run.refused as f64), 0), range(runs().map(FanOut::last), 2));
            let [a, b, c, d, e] = [0.0, 1.0, 2.0, 3.0, 4.0].map(|from| within(from, from + 1.0));
            table.row(&[&name, &refused, &last, &a, &b, &c, &d, &e, &within(5.0, f64::INFINITY)]);
        }
        table.print(out, markdown)?;
        writeln!(out)
    }

    fn tell_cap(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        let Scale { limits, requests, cents, .. } = &self.scale;
        let money = |cents: u64| format!("{}.{:02}", cents / 100, cents % 100);
        let (cap, each) = (money(limits.cap_cents), money(*cents));
        writeln!(out, "{requests} requests of {each} for a cap of {cap}:\n")?;
        let mut table = Table::new(&["", "paid for", "refused", "spent of the cap, times"]);
        for (way, name) in WAYS.into_iter().enumerate() {
            let runs = || self.cap.iter().map(|both| &both[way]);
            let paid = range(runs().map(|run| run.paid as f64), 0);
            let refused = range(runs().map(|run| (run.requests - run.paid) as f64), 0);
            let spent = runs().map(|run| (run.paid as u64 * cents) as f64 / limits.cap_cents as f64);
            table.row(&[&name, &paid, &refused, &range(spent, 2)]);
        }
        table.print(out, markdown)
    }

    /// Fails where the runs do not show what they are there to show.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Scale { limits, calls, requests, cents, .. } = &self.scale;
        for [without, with] in &self.budget {
            if with.spent > limits.budget || with.spent != with.booked {
                return Err(format!("the budget did not hold, or the book is wrong: {with:?}").into());
            }
            if without.spent <= without.booked {
                return Err(format!("no update was lost without: {without:?}").into());
            }
        }
        for [without, with] in &self.fan_out {
            if with.refused > 0 || with.taken.len() as u64 != *calls || without.refused == 0 {
                return Err(format!("calls were refused, or none were without: {with:?} {without:?}").into());
            }
        }
        let fit = (limits.cap_cents / cents).min(*requests) as usize;
        match self.cap.iter().find(|[without, with]| with.paid != fit || without.paid <= fit) {
            Some(both) => Err(format!("{fit} should have been paid for, and more without: {both:?}").into()),
            None => Ok(()),
        }
    }
}
