//! The loop around the screen of `top`: looks come in, keys come in, what there is is drawn. The terminal is put back
//! as it was however this ends: by a key, a signal, a panic.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_core::Stream;
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::draw;
use super::figures::Look;
use super::model::{Model, Next};
use crate::cli::complaint::Complaint;
use crate::cli::times::Wall;
use crate::cli::watching::Watched;
use crate::cli::{ExitCode, output};
use crate::types::Time;

/// The terminal while it is taken.
struct Screen {
    terminal: DefaultTerminal,
    is_coloured: bool,
}

impl Screen {
    /// Takes it; a panic gives it back before it is told.
    fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Screen { terminal, is_coloured: output::is_colour_wanted() })
    }

    fn draw(&mut self, model: &Model) -> io::Result<()> {
        let is_coloured = self.is_coloured;
        let now = model.figures.as_ref().map_or(Time::ZERO, |figures| figures.at);
        let wall = Wall::at(now);
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw::draw(model, &wall, area, frame.buffer_mut(), is_coloured);
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows it until a key ends it. Dropped, it gives the terminal back.
pub(super) async fn run(watched: &Watched, every: Duration) -> ExitCode {
    let mut screen = match Screen::open() {
        Ok(screen) => screen,
        Err(error) => {
            let what = format!("the terminal cannot be taken: {error}");
            return Complaint::new(ExitCode::Failure, what).todo("preclaim top --once").say();
        }
    };
    let ended = show(&mut screen, watched, every).await;
    // What is said next is to be seen.
    drop(screen);
    match ended {
        Ok(()) => ExitCode::Done,
        Err(error) => Complaint::new(ExitCode::Failure, format!("the terminal: {error}")).say(),
    }
}

async fn show(screen: &mut Screen, watched: &Watched, every: Duration) -> io::Result<()> {
    let (tell, mut looks) = mpsc::channel(1);
    let mut looking = JoinSet::new();
    looking.spawn(look_again_and_again(watched.clone(), every, tell));
    let mut keys = EventStream::new();
    let mut model = Model::new(watched.addr());
    loop {
        screen.draw(&model)?;
        tokio::select! {
            look = looks.recv() => match look {
                Some(Ok(look)) => model.look(look),
                Some(Err(why)) => model.fail(why.to_string()),
                None => return Ok(()),
            },
            event = next(&mut keys) => match event.transpose()? {
                Some(Event::Key(key)) => if model.key(key) == Next::Quit { return Ok(()) },
                // Drawn anew in another size.
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

/// What the terminal tells next. Cancel safe.
async fn next(keys: &mut EventStream) -> Option<io::Result<Event>> {
    poll_fn(|context| Pin::new(&mut *keys).poll_next(context)).await
}

/// Looks until nobody wants to see it any more.
async fn look_again_and_again(
    watched: Watched,
    every: Duration,
    tell: mpsc::Sender<Result<Look, Complaint>>,
) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if tell.send(super::look(&watched).await).await.is_err() {
            return;
        }
    }
}
