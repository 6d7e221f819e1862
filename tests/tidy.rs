//! Tidiness as a test: functions and files stay small, and nothing half done is left.

mod source;

use proc_macro2::{Delimiter, Group, TokenTree};
use source::{Source, is_ident, is_punct, rust_files};

/// Lines of a function, from its `fn` to its last brace: what fits a screen.
const FUNCTION_LINES: usize = 70;
/// Lines of a file.
const FILE_LINES: usize = 800;

fn all_files() -> Vec<Source> {
    ["src", "benches", "examples"].into_iter().flat_map(rust_files).collect()
}

#[test]
fn no_file_is_too_long() {
    let long = |file: &Source| file.text.lines().count() > FILE_LINES;
    let found: Vec<String> = all_files().iter().filter(|file| long(file)).map(Source::to_string).collect();
    assert!(found.is_empty(), "longer than {FILE_LINES} lines: {found:?}");
}

#[test]
fn no_function_is_too_long() {
    let mut found = Vec::new();
    for file in all_files() {
        let mut functions = Vec::new();
        function_lines(&file.tokens(), &mut functions);
        functions.retain(|(_, lines)| *lines > FUNCTION_LINES);
        found.extend(functions.into_iter().map(|(name, lines)| format!("{file}: {name} has {lines} lines")));
    }
    assert!(found.is_empty(), "longer than {FUNCTION_LINES} lines:\n{}", found.join("\n"));
}

/// The functions in `tokens`, those in functions too, each with its lines.
fn function_lines(tokens: &[TokenTree], found: &mut Vec<(String, usize)>) {
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            function_lines(&inside(group), found);
        }
        let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else { continue };
        if is_ident(Some(token), "fn")
            && let Some(body) = body(&tokens[at..])
        {
            let lines = body.span_close().end().line - token.span().start().line + 1;
            found.push((name.to_string(), lines));
        }
    }
}

/// The body of the item that `tokens` start with; `None` where it has none.
fn body(tokens: &[TokenTree]) -> Option<&Group> {
    tokens.iter().take_while(|token| !is_punct(Some(token), ';')).find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    })
}

#[test]
fn nothing_half_done_is_left_and_nothing_is_unwrapped_outside_of_tests() {
    let mut found = Vec::new();
    for file in all_files().iter().filter(|file| !is_test_file(file)) {
        let mut left = Vec::new();
        leftovers(&file.tokens(), &mut left);
        found.extend(left.into_iter().map(|(what, line)| format!("{file}:{line}: {what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A file that is a module of tests as a whole: tests.rs, x_tests.rs, or in a directory of such.
fn is_test_file(file: &Source) -> bool {
    let is_tests = |name: &str| name == "tests" || name.ends_with("_tests");
    file.path.with_extension("").iter().any(|part| part.to_str().is_some_and(is_tests))
}

fn leftovers(tokens: &[TokenTree], found: &mut Vec<(String, usize)>) {
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at += item_length(&tokens[at..]);
            continue;
        }
        match &tokens[at] {
            TokenTree::Group(group) => leftovers(&inside(group), found),
            TokenTree::Ident(name) => {
                let unwraps = name == "unwrap" && at > 0 && is_punct(tokens.get(at - 1), '.');
                let unfinished = ["todo", "unimplemented", "dbg"].iter().any(|macro_name| name == macro_name)
                    && is_punct(tokens.get(at + 1), '!');
                if unwraps || unfinished {
                    found.push((name.to_string(), name.span().start().line));
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether `tokens` start with `#[test]` or `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let Some(TokenTree::Group(attribute)) = tokens.get(1) else { return false };
    let text = attribute.stream().to_string().replace(' ', "");
    is_punct(tokens.first(), '#') && matches!(text.as_str(), "test" | "cfg(test)")
}

/// The tokens of the item that `tokens` start with, its attributes included.
fn item_length(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => is_punct(Some(token), ';'),
    };
    tokens.iter().position(ends).map_or(tokens.len(), |at| at + 1)
}

fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

#[test]
fn the_reader_sees_functions_leftovers_and_tests() {
    let text = "fn a() {\n  b.unwrap();\n  fn c() {}\n}\n#[cfg(test)]\nmod t {\n  fn d() { dbg!(e.unwrap()); }\n}\ntrait F { fn g(); }\nfn h() { todo!() }";
    let stream: proc_macro2::TokenStream = text.parse().expect("it is Rust");
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let (mut functions, mut left) = (Vec::new(), Vec::new());
    function_lines(&tokens, &mut functions);
    leftovers(&tokens, &mut left);
    functions.sort();
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(functions, [named("a", 4), named("c", 1), named("d", 1), named("h", 1)]);
    assert_eq!(left, [named("unwrap", 2), named("todo", 10)]);
}
