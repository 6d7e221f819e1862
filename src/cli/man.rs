//! `preclaim man`: manual pages, from what `--help` is made of.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, ExitCode, output};

/// Print the manual page of preclaim, or write those of all its commands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  $ preclaim man | man -l -\n  $ preclaim man --dir /usr/local/share/man/man1"
)]
pub(super) struct Args {
    /// Write a page for each command into this directory, which is made where it is missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    let written = match &args.dir {
        Some(dir) => write_all(&cli, dir).map_err(|error| format!("{}: {error}", dir.display())),
        None => page(&cli).map_err(|error| error.to_string()),
    };
    match written {
        Ok(text) => output::print(format_args!("{text}")),
        Err(why) => {
            output::complain(why);
            ExitCode::Failure
        }
    }
}

/// Writes the pages, and says where they are.
fn write_all(cli: &clap::Command, dir: &Path) -> io::Result<String> {
    fs::create_dir_all(dir)?;
    let mut told = String::new();
    for command in shown(cli) {
        let file = dir.join(Man::new(command.clone()).get_filename());
        fs::write(&file, page(command)?)?;
        told.push_str(&format!("{}\n", file.display()));
    }
    Ok(told)
}

/// The command and all below it that are not hidden.
fn shown(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    iter::once(command).chain(below.flat_map(shown)).collect()
}

/// The page of one command, in roff. What stands after the help, examples above all, keeps its lines.
fn page(command: &clap::Command) -> io::Result<String> {
    let page =
        Man::new(command.clone()).manual("preclaim").source(concat!("preclaim ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if shown(command).len() > 1 {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(after) = command.get_after_help() {
        writeln!(text, ".SH EXAMPLES AND NOTES\n.nf")?;
        after.to_string().lines().try_for_each(|line| writeln!(text, "{}", literally(line)))?;
        writeln!(text, ".fi")?;
    }
    String::from_utf8(text).map_err(io::Error::other)
}

/// A line as roff shows it: as it is.
fn literally(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_is_shown_has_its_page_and_no_other() {
        let mut cli = Cli::command().disable_help_subcommand(true);
        cli.build();
        let names: Vec<String> =
            shown(&cli).into_iter().map(|it| Man::new(it.clone()).get_filename()).collect();
        for name in ["preclaim.1", "preclaim-declare.1", "preclaim-audit-verify.1"] {
            assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("hold-inner")), "{names:?}");
        for command in shown(&cli) {
            let text = page(command).unwrap();
            let name = command.get_name();
            assert!(text.contains(".TH preclaim") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
    }

    #[test]
    fn examples_stand_line_by_line_as_they_are() {
        assert_eq!(
            literally("  $ preclaim ls --under 'a\\b'"),
            "  $ preclaim ls \\-\\-under \\(aqa\\eb\\(aq"
        );
        assert_eq!(literally(".TH"), "\\&.TH");
        let text = page(&clap::Command::new("x").after_help("Example:\n  $ x --y")).unwrap();
        assert!(text.ends_with(".nf\nExample:\n  $ x \\-\\-y\n.fi\n"), "{text}");
    }
}
