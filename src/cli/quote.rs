//! Commands to paste into a shell.

use std::fmt;

/// A command line, quoted where a shell asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(String);

impl Words {
    pub(super) fn of(words: &[&str]) -> Self {
        let mut line = Words::default();
        words.iter().for_each(|word| line.word(word));
        line
    }

    pub(super) fn word(&mut self, word: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(&quoted(word));
    }

    /// Adds `--flag value`.
    pub(super) fn flag(&mut self, flag: &str, value: &str) {
        self.word(flag);
        self.word(value);
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/_-.,:@+=%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        let line = Words::of(&["preclaim", "declare", "a/b:5", "yard@0,-1..4,2", "a b", "it's", "$HOME", ""]);
        let text = r"preclaim declare a/b:5 yard@0,-1..4,2 'a b' 'it'\''s' '$HOME' ''";
        assert_eq!(line.to_string(), text);
    }
}
