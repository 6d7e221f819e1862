//! What `top` knows and what each key does. Pure: no terminal, no clock.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::figures::{Figures, History, Look};
use super::panel::{PANELS, Sort};

/// Letters that a filter may have: a whole path.
const FILTER_CHARS: usize = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Where the coordinator is asked.
    pub(super) addr: String,
    history: History,
    /// What is shown.
    pub(super) figures: Option<Figures>,
    /// Why there is nothing newer.
    pub(super) trouble: Option<String>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) is_help: bool,
    /// The panel that the arrows move.
    pub(super) focus: usize,
    /// How many rows of each panel are above what is seen.
    pub(super) above: [usize; PANELS],
}

/// What comes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Quit,
}

impl Model {
    pub(super) fn new(addr: &str) -> Self {
        Model { addr: addr.to_owned(), ..Model::default() }
    }

    /// Takes a look in. While it is paused, that is for the rates alone.
    pub(super) fn look(&mut self, look: Look) {
        let figures = self.history.take(look, false);
        self.trouble = None;
        if !self.is_paused || self.figures.is_none() {
            self.figures = Some(figures);
        }
    }

    /// There is no look: why.
    pub(super) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::GoOn;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            // The terminal sends no signal for it meanwhile.
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::GoOn };
        }
        if self.is_typing {
            self.typed(key.code);
            return Next::GoOn;
        }
        let was_help = std::mem::take(&mut self.is_help);
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc if !was_help => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.is_help = !was_help,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Left => self.focus = (self.focus + PANELS - 1) % PANELS,
            KeyCode::Right | KeyCode::Tab => self.focus = (self.focus + 1) % PANELS,
            KeyCode::Up => self.scroll(|above| above.saturating_sub(1)),
            KeyCode::Down => self.scroll(|above| above + 1),
            KeyCode::PageUp => self.scroll(|above| above.saturating_sub(10)),
            KeyCode::PageDown => self.scroll(|above| above + 10),
            KeyCode::Home => self.scroll(|_| 0),
            _ => {}
        }
        Next::GoOn
    }

    fn scroll(&mut self, change: impl FnOnce(usize) -> usize) {
        let most = self.figures.as_ref().map_or(0, |figures| {
            [figures.contended.len(), figures.waiting.len(), figures.overdue.len(), figures.agents.len()]
                [self.focus]
                .saturating_sub(1)
        });
        let above = &mut self.above[self.focus];
        *above = change(*above).min(most);
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if !letter.is_control() && self.filter.chars().count() < FILTER_CHARS => {
                self.filter.push(letter);
            }
            _ => {}
        }
        // What is filtered begins at its top.
        self.above = [0; PANELS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::figures::tests::look;
    use crate::cli::top::panel::tests::figures;

    fn press(model: &mut Model, codes: impl IntoIterator<Item = KeyCode>) -> Next {
        codes.into_iter().map(|code| model.key(code.into())).last().unwrap_or(Next::GoOn)
    }

    fn letters(text: &str) -> impl Iterator<Item = KeyCode> + '_ {
        text.chars().map(KeyCode::Char)
    }

    #[test]
    fn q_and_ctrl_c_end_it_but_a_filter_takes_every_letter() {
        let mut model = Model::default();
        assert_eq!(press(&mut model, letters("q")), Next::Quit);
        assert_eq!(press(&mut model, letters("/qs?p")), Next::GoOn);
        assert_eq!((model.filter.as_str(), model.is_typing), ("qs?p", true));
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(model.key(ctrl_c), Next::Quit);
        press(&mut model, [KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((model.filter.as_str(), model.is_typing), ("qs?", false));
        press(&mut model, [KeyCode::Esc]);
        assert_eq!(model.filter, "");
        press(&mut model, letters("/").chain(letters(&"x".repeat(2 * FILTER_CHARS))));
        assert_eq!(model.filter.len(), FILTER_CHARS);
    }

    #[test]
    fn a_pause_keeps_what_is_shown_and_rates_go_on_after_it() {
        let mut model = Model::default();
        model.look(look(1_000_000, 100, 0));
        press(&mut model, letters("p"));
        model.look(look(2_000_000, 200, 0));
        assert_eq!(model.figures.as_ref().map(|it| it.at.as_us()), Some(1_000_000));
        press(&mut model, letters("p"));
        model.look(look(3_000_000, 250, 0));
        let figures = model.figures.unwrap();
        assert_eq!((figures.at.as_us(), figures.per_second["granted"]), (3_000_000, 50.0));
    }

    #[test]
    fn arrows_choose_a_panel_and_move_its_rows_within_bounds() {
        let mut model = Model { figures: Some(figures()), ..Model::default() };
        press(&mut model, [KeyCode::Down, KeyCode::Down, KeyCode::Down]);
        assert_eq!(model.above, [1, 0, 0, 0], "two rows are contended: one stays in sight");
        press(&mut model, [KeyCode::Left, KeyCode::PageDown]);
        assert_eq!((model.focus, model.above), (3, [1, 0, 0, 1]));
        press(&mut model, [KeyCode::Right, KeyCode::Up, KeyCode::Up]);
        assert_eq!((model.focus, model.above), (0, [0, 0, 0, 1]));
    }

    #[test]
    fn trouble_is_told_until_there_is_a_look_again_and_help_goes_with_any_key() {
        let mut model = Model::default();
        model.fail("gone".into());
        assert!(model.trouble.is_some());
        model.look(look(1_000_000, 1, 0));
        assert_eq!(model.trouble, None);
        press(&mut model, letters("?"));
        assert!(model.is_help);
        press(&mut model, letters("?"));
        assert!(!model.is_help);
        press(&mut model, letters("?s"));
        assert_eq!((model.is_help, model.sort), (false, Sort::Waiting));
    }
}
