//! The project's own source, as the fences read it: files, and their tokens without comments.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// A source file of the project.
pub(crate) struct Source {
    /// Relative to the package's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn tokens(&self) -> Vec<TokenTree> {
        let stream: TokenStream = self.text.parse().unwrap_or_else(|error| panic!("{self}: {error}"));
        stream.into_iter().collect()
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files under `directory`, in order; none where there is no such directory.
pub(crate) fn rust_files(directory: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join(directory), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(directory: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            let path = path.strip_prefix(root()).expect("it lies under the root").to_owned();
            found.push(Source { path, text });
        }
    }
}

pub(crate) fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

pub(crate) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}
