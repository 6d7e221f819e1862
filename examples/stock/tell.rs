//! What happened, in words and in a table.

use std::io::{self, Write};

use super::account::{Account, Answer};
use super::story::Table;
use super::without::Lock;
use super::world::{REGIONS, Scale};

pub(crate) fn introduce(scale: &Scale, lock: &Lock, out: &mut impl Write) -> io::Result<()> {
    let Scale { pools: [north, south], agents, shoppers, .. } = scale;
    writeln!(
        out,
        "{north} units in the {}, {south} in the {}, and {shoppers} who want one.",
        REGIONS[0], REGIONS[1]
    )?;
    writeln!(
        out,
        "{agents} agents in each region serve them; some agents die, some are stopped for a while."
    )?;
    writeln!(out, "The lock is {}. It expires after {:?}.\n", lock.what(), scale.lock_expires)?;
    out.flush()
}

pub(crate) fn tell(
    ways: &[&Account],
    preclaim: &Account,
    out: &mut impl Write,
    markdown: bool,
) -> io::Result<()> {
    table(ways).print(out, markdown)?;
    let [in_one, in_two] = preclaim.settlements();
    writeln!(out, "\nWith preclaim:")?;
    writeln!(
        out,
        "- Of {} sales, {in_one} lowered the capacity in the slot of the release, {in_two} in the one before.",
        in_one + in_two
    )?;
    let [least, most] = preclaim.shares().map(|share| 100.0 * share);
    writeln!(
        out,
        "- The north kept {least:.0} % to {most:.0} % of what it had for its own, as the sales went; the south the rest."
    )?;
    writeln!(out, "- What the shop window showed, and how many then found one:")?;
    for (least, less_than, words) in
        [(0.9, 2.0, "90 % and more"), (0.1, 0.9, "between"), (0.0, 0.1, "below 10 %")]
    {
        let (count, shown, found) = preclaim.shown(least, less_than);
        let percent = 100.0 * shown;
        writeln!(
            out,
            "  {words:<13}  shown to {count:>4}, {percent:>5.1} % on average; {found:>4} found one"
        )?;
    }
    writeln!(out)
}

/// A column a way.
fn table(ways: &[&Account]) -> Table {
    let head: Vec<&str> = std::iter::once("").chain(ways.iter().map(|way| way.way)).collect();
    let mut table = Table::new(&head);
    let mut row = |what: &str, figure: &dyn Fn(&Account) -> String| {
        let mut cells = vec![what.to_owned()];
        cells.extend(ways.iter().map(|way| figure(way)));
        let cells: Vec<&dyn std::fmt::Display> = cells.iter().map(|cell| cell as _).collect();
        table.row(&cells);
    };
    row("sold", &|way| format!("{} of {}", way.sold(), way.units()));
    row("oversold", &|way| way.oversold().to_string());
    row("paid, and refunded", &|way| way.count(Answer::Refunded).to_string());
    row("reserved, and not there", &|way| way.count(Answer::PromiseBroken).to_string());
    row("left on the shelf, by the books", &|way| way.left_over().to_string());
    for percent in [50.0, 95.0, 99.0] {
        row(&format!("sold within, {percent:.0} %"), &|way| in_ms(way.took().0.percentile(percent)));
    }
    row("not sold, told within, 50 %", &|way| in_ms(way.took().1.median()));
    row("sold by transfer", &|way| way.transferred().to_string());
    row("transfers timed out", &|way| way.count(Answer::TransferFailed).to_string());
    row("not tried, breaker open", &|way| way.count(Answer::NotTried).to_string());
    row("agents that died", &|way| way.count(Answer::Died).to_string());
    table
}

fn in_ms(figure: f64) -> String {
    format!("{figure:.0} ms")
}
