//! What commands print, and how they end when it cannot be printed.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use serde::Serialize;

use super::voice::Voice;
use super::{ExitCode, log};
use crate::config::{LogConfig, all_printable};
use crate::limits;

/// Set where a command must not wait for whoever reads its standard error.
static VOICE: OnceLock<Voice> = OnceLock::new();

/// How a command prints its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
}

/// The flag that chooses it.
#[derive(Debug, clap::Args)]
pub(super) struct Output {
    /// For people, or for programs: one JSON value a line, times in microseconds since 1970 [default:
    /// table on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

impl Output {
    /// The format that was asked for, or the one for who reads.
    pub(super) fn format(&self) -> Format {
        self.output.unwrap_or(if io::stdout().is_terminal() { Format::Table } else { Format::Json })
    }

    /// Whether JSON was asked for by name: for a command whose standard output is another's.
    pub(super) fn is_json_asked(&self) -> bool {
        self.output == Some(Format::Json)
    }
}

/// Prints data.
pub(super) fn print(data: fmt::Arguments<'_>) -> ExitCode {
    match write(data) {
        Ok(()) => ExitCode::Done,
        Err(error) => failed(&error),
    }
}

/// Prints data, and says whether it could be; see [`failed`].
pub(super) fn write(data: fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_fmt(data).and_then(|()| out.flush())
}

/// The value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    // Only maps with keys that are no text cannot be written, and none is.
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"unprintable\":\"{error}\"}}"))
}

/// Text from elsewhere, such as a note, with what would steer a terminal, cannot be seen, or turns round what stands
/// beside it made visible.
pub(super) fn harmless(text: &str) -> String {
    all_printable(text)
}

/// A colour of words that people look for first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Colour {
    Green,
    Red,
    Yellow,
}

/// Whether a terminal is to be coloured: not under `NO_COLOR`, nor where it cannot be.
pub(super) fn is_colour_wanted() -> bool {
    let unwanted = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !unwanted("NO_COLOR") && !is_dumb
}

/// The word in that colour, where `stream` is a terminal and `NO_COLOR` is not set.
pub(super) fn painted(word: &str, colour: Colour, stream: &impl IsTerminal) -> String {
    if !stream.is_terminal() || !is_colour_wanted() {
        return word.to_owned();
    }
    let code = match colour {
        Colour::Green => 32,
        Colour::Red => 31,
        Colour::Yellow => 33,
    };
    format!("\u{1b}[1;{code}m{word}\u{1b}[0m")
}

/// How a command ends that could not write its data: quietly, where its reader has gone.
pub(super) fn failed(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::Done;
    }
    complain(format_args!("standard output: {error}"));
    ExitCode::Failure
}

/// Says what is wrong.
pub(super) fn complain(what: impl fmt::Display) {
    talk(format_args!("error: {what}"));
}

/// Says what is going on.
pub(super) fn talk(what: impl fmt::Display) {
    // Where nobody can be told, the exit code still tells; talk is no data, and nobody waits for it.
    let _ = Speech.write_all(format!("{what}\n").as_bytes());
}

/// From now on, nothing that is said waits for its reader: a full pipe or a terminal after Ctrl-S holds up
/// nobody but a thread of its own. What is to be heard before something else happens wants [`flush`].
pub(super) fn talk_without_waiting() {
    // Without that thread, it is said as before.
    if let Ok(voice) = Voice::start(io::stderr()) {
        let _ = VOICE.set(voice);
    }
}

/// Gives what was said a moment to be written.
pub(super) fn flush() {
    if let Some(voice) = VOICE.get() {
        voice.flush(limits::VOICE_FLUSHES_WITHIN.to_std());
    }
}

/// How far a command is, on one line that is written over, where somebody looks.
pub(super) struct Progress {
    on: bool,
}

impl Progress {
    pub(super) fn start() -> Self {
        Progress { on: io::stderr().is_terminal() }
    }

    pub(super) fn tell(&self, what: &str) {
        if self.on {
            // To the start of the line, and the rest of it cleared.
            let _ = write!(io::stderr(), "\r\x1b[K{what}");
        }
    }

    pub(super) fn done(&self) {
        self.tell("");
    }
}

/// Standard error, as talk reaches it.
pub(super) struct Speech;

impl Write for Speech {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text).map(|()| text.len())
    }

    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        match VOICE.get() {
            Some(voice) => {
                voice.say(text.to_vec());
                Ok(())
            }
            None => io::stderr().write_all(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the log to standard error: warnings, unless `PRECLAIM_LOG` asks for more.
pub(super) fn start_log() {
    log::start();
}

/// From here on the log has this level, as `[log] level` spells it. Says whether it has: not where `PRECLAIM_LOG` says
/// another.
///
/// # Errors
/// What a level may be, where this is none.
pub(super) fn set_log_level(level: &str) -> Result<bool, String> {
    log::set_level(level)
}

/// From here on the log is as `config` says.
pub(super) fn configure_log(config: &LogConfig) {
    log::configure(config);
}

/// Says what the log left out, every now and then, for as long as it is polled. Cancel safe.
pub(super) async fn tell_what_the_log_left_out() {
    let mut every = tokio::time::interval(limits::LOG_LINES_WITHIN.to_std());
    loop {
        every.tick().await;
        log::tell_left_out();
    }
}

/// Says what the log left out, when nothing more will be said.
pub(super) fn end_log() {
    log::tell_rest();
}
