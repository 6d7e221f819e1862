//! `preclaim top`: how a coordinator does, who is in whose way and who waits, as it goes.

mod draw;
mod figures;
mod model;
mod panel;
mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use self::figures::{Figures, History, Look};
use super::ExitCode;
use super::complaint::Complaint;
use super::output::{self, Format, Output, json};
use super::table::Table;
use super::times::Wall;
use super::watching::{self, Watched, Watching};
use crate::limits;

const EXAMPLE: &str = "\
Examples:
  $ preclaim top                                    # beside a `preclaim dev` of yours
  $ preclaim top --watching 127.0.0.1:7412          # or PRECLAIM_WATCHING: [metrics] addr of a `serve`
  $ preclaim top --once --output json | jq '.contended[0] | .path, .holder.agent'

On a terminal it looks each second until q is pressed; ? shows the keys. Elsewhere each look is a line of JSON.
--once looks twice, since rates are what two looks differ by; its figures of health are those since the
coordinator's start. docs/OPERATING.md reads a screen.";

/// Columns of a bar where there is no screen to fit it to.
const BAR: usize = 40;

/// See how the coordinator does, which paths are contended, who holds them and who waits
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Print it once, and end
    #[arg(long)]
    once: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = watching::every)]
    every: Duration,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    watching: Watching,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let format = args.output.format();
    let is_screen = format == Format::Table && !args.once;
    if is_screen && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Complaint::new(ExitCode::Usage, "this is no terminal")
            .todo("preclaim top --once")
            .todo("preclaim top --output json        for a line at each look")
            .say();
    }
    args.watching.run(async |watched| match (is_screen, args.once) {
        (true, _) => screen::run(watched, args.every).await,
        (false, true) => once(watched, args.every, format).await,
        (false, false) => lines(watched, args.every).await,
    })
}

/// All that it asks for at one time.
async fn look(watched: &Watched) -> Result<Look, Complaint> {
    let (metrics, slots, claims, readiness) = tokio::try_join!(
        watched.metrics(),
        watched.slots(),
        watched.claims(limits::CLAIMS_SHOWN),
        watched.readiness()
    )?;
    Ok(Look { metrics, slots, claims, readiness })
}

async fn once(watched: &Watched, every: Duration, format: Format) -> ExitCode {
    let mut history = History::default();
    let looked = async {
        history.take(look(watched).await?, true);
        tokio::time::sleep(every).await;
        Ok(history.take(look(watched).await?, true))
    };
    let figures = match looked.await {
        Ok(figures) => figures,
        Err(why) => return Complaint::say(&why),
    };
    match format {
        Format::Json => output::print(format_args!("{}\n", json(&figures))),
        Format::Table => output::print(format_args!("{}", text(watched.addr(), &figures))),
    }
}

/// A line of JSON at each look but the first, with which the rates begin.
async fn lines(watched: &Watched, every: Duration) -> ExitCode {
    let mut history = History::default();
    let mut is_first = true;
    loop {
        let figures = match look(watched).await {
            Ok(look) => history.take(look, false),
            Err(why) => return why.say(),
        };
        if !std::mem::take(&mut is_first)
            && let Err(error) = output::write(format_args!("{}\n", json(&figures)))
        {
            return output::failed(&error);
        }
        tokio::time::sleep(every).await;
    }
}

/// The screen as text, with all rows.
fn text(addr: &str, figures: &Figures) -> String {
    let wall = Wall::at(figures.at);
    let line = |parts: Vec<panel::Part>| {
        parts.into_iter().map(|part| part.text).collect::<Vec<_>>().join("  ") + "\n"
    };
    let mut text = line(panel::title(addr, figures, &wall));
    let length = figures.slot.length_us;
    for (name, slot) in [("typical", figures.slot.typical), ("worst", figures.slot.worst)] {
        if let Some(slot) = slot {
            let (bar, done) = (panel::bar(&slot, length, BAR), panel::done(&slot, length));
            text += &format!("{name:8}{bar}  {done}\n");
        }
    }
    text += &line(panel::lateness(figures));
    text += &line(panel::health(&figures.health));
    text += &line(panel::rates(figures));
    text += &line(panel::counts(figures));
    for panel in panel::panels(figures, panel::Sort::Worst, "", &wall) {
        let heads: Vec<&str> = panel.columns.iter().map(|column| column.head).collect();
        if panel.rows.is_empty() {
            text += &format!("\n{}  none\n", heads.first().unwrap_or(&""));
            continue;
        }
        let mut table = Table::headed(&heads);
        panel.rows.into_iter().for_each(|row| table.row(row));
        text += &format!("\n{table}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_it_is_a_table_with_no_letter_that_steers_a_terminal() {
        let text = text("127.0.0.1:7412", &panel::tests::figures());
        assert!(text.starts_with("preclaim 0.1.0  ready  "), "{text}");
        for what in
            ["conflicts 13 % (NOT BELOW 5 %)", "\nCONTENDED", "\nWAITS FOR", "\nOVERDUE LEASE", "\nAGENT"]
        {
            assert!(text.contains(what), "{what}: {text}");
        }
        assert!(!text.contains('\u{1b}') && text.contains("db/\\u{1b}[2Jschema"), "{text}");
    }

    #[test]
    fn as_json_it_has_the_figures_with_their_limits() {
        let figures = serde_json::to_value(panel::tests::figures()).unwrap();
        assert_eq!(figures["health"]["conflict_rate"]["limit"], 0.05);
        assert_eq!(figures["health"]["conflict_rate"]["good"], false);
        assert_eq!(figures["contended"][0]["holder"]["agent"], "robot-1");
        assert_eq!(figures["contended"][1].get("holder"), None);
        assert_eq!(figures["per_second"]["granted"], 100.0);
    }
}
