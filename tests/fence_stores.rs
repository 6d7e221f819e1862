//! The checks of docs/FENCING.md, as they stand there, against the real thing. What this machine does not
//! have is left out, and said.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod scratch;
mod servers;

use std::sync::Barrier;
use std::thread;

use rusqlite::Connection;
use scratch::Scratch;
use servers::{Postgres, Redis};

const DOCUMENT: &str = include_str!("../docs/FENCING.md");

/// The blocks of code below the heading `## name`.
fn blocks(name: &str) -> Vec<&'static str> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(name)).unwrap();
    section
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap().1.trim_end())
        .collect()
}

/// What each store is asked, in order: start, token, and whether it is let in.
const WRITES: [(i64, i64, bool); 9] = [
    (1_000, 7, true),
    (1_000, 7, true),   // the same holder again
    (5_000, 4, true),   // a later window with a lower token
    (1_000, 7, false),  // the first holder, late
    (1_000, 99, false), // a higher token of an earlier window
    (5_000, 3, false),
    (5_000, 5, true),
    // Compared as numbers: as text 10 000 would be lower. And beyond what 32 bits hold.
    (10_000, 1, true),
    (1_795_948_258_350_000, 5_000_000_000, true),
];

/// What is in the row once all of them have been asked.
const LAST: (i64, i64) = (1_795_948_258_350_000, 5_000_000_000);

fn body(start: i64, token: i64) -> String {
    format!("it's by {start}:{token}")
}

const TABLES: &str = "
    CREATE TABLE doc (key TEXT PRIMARY KEY, body TEXT NOT NULL, start_us BIGINT NOT NULL, token BIGINT NOT NULL);
    CREATE TABLE fence (key TEXT PRIMARY KEY, start_us BIGINT NOT NULL, token BIGINT NOT NULL);";

#[test]
fn sqlite_does_what_the_document_says() {
    let [row, fence] = blocks("SQLite")[..] else { panic!("two statements") };
    let sqlite = Connection::open_in_memory().unwrap();
    sqlite.execute_batch(TABLES).unwrap();
    for (start, token, admitted) in WRITES {
        let written = sqlite.execute(row, (&"a", &body(start, token), start, token)).unwrap();
        assert_eq!(written, usize::from(admitted), "{start}:{token}");
        let seen = sqlite.execute(fence, ("a", start, token)).unwrap();
        assert_eq!(seen, usize::from(admitted), "{start}:{token}");
    }
    let kept = sqlite.query_row("SELECT start_us, token, body FROM doc", (), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
    });
    assert_eq!(kept.unwrap(), (LAST.0, LAST.1, body(LAST.0, LAST.1)));
    assert_eq!(sqlite.execute(row, ("b", "another key", 1, 1)).unwrap(), 1);
}

#[test]
fn the_example_has_the_statement_of_the_document() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let example = words(include_str!("../examples/fencing.rs"));
    assert!(example.contains(&words(blocks("SQLite")[0])), "{example}");
}

/// Two holders at once, again and again: whatever their order, the later one's write is what stays, with
/// its own fence.
#[test]
fn sqlite_keeps_check_and_write_together_over_connections() {
    let [_, fence] = blocks("SQLite")[..] else { panic!("two statements") };
    let scratch = Scratch::fresh("sqlite");
    let file = scratch.path().join("store.db");
    let open = || {
        let sqlite = Connection::open(&file).unwrap();
        sqlite.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        sqlite
    };
    open().execute_batch(TABLES).unwrap();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for own in 0..2 {
            let (both, open) = (&both, &open);
            scope.spawn(move || {
                let mut sqlite = open();
                for round in 0..20 {
                    both.wait();
                    let begun =
                        sqlite.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
                    if begun.execute(fence, ("a", round * 2 + own, 1)).unwrap() == 1 {
                        let write = "INSERT OR REPLACE INTO doc VALUES ('a', 'x', ?1, 1)";
                        begun.execute(write, (round * 2 + own,)).unwrap();
                        begun.commit().unwrap();
                    }
                    both.wait();
                }
            });
        }
    });
    let kept =
        open().query_row("SELECT doc.start_us, fence.start_us FROM doc JOIN fence USING (key)", (), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
    assert_eq!(kept.unwrap(), (39, 39));
}

#[test]
fn postgresql_does_what_the_document_says() {
    let [upsert, update, fence] = blocks("PostgreSQL")[..] else { panic!("three statements") };
    let Some(postgres) = Postgres::start() else { return };
    let prepared = format!(
        "{TABLES}
        PREPARE upsert(text, text, bigint, bigint) AS {upsert};
        PREPARE change(text, text, bigint, bigint) AS {update};
        PREPARE fence(text, bigint, bigint) AS {fence};
        INSERT INTO doc VALUES ('there', '', 0, 0);\n"
    );
    let mut script = prepared;
    let mut expected = Vec::new();
    for (start, token, admitted) in WRITES {
        let body = body(start, token).replace('\'', "''");
        script += &format!("EXECUTE upsert('a', '{body}', {start}, {token});\n");
        script += &format!("EXECUTE change('there', '{body}', {start}, {token});\n");
        script += &format!("EXECUTE fence('a', {start}, {token});\n");
        let rows = u8::from(admitted);
        expected.extend([format!("INSERT 0 {rows}"), format!("UPDATE {rows}"), format!("INSERT 0 {rows}")]);
    }
    script += "SELECT key, body, start_us, token FROM doc ORDER BY key;\n";
    let (start, token) = LAST;
    for key in ["a", "there"] {
        expected.push(format!("{key}|{}|{start}|{token}", body(start, token)));
    }
    let said = postgres.psql(&script);
    let lines: Vec<&str> =
        said.lines().filter(|line| !["CREATE TABLE", "PREPARE"].contains(line)).skip(1).collect();
    assert_eq!(lines, expected, "{said}");
}

/// The one waits inside its transaction for the other's row lock, and then looks at what that one wrote.
#[test]
fn postgresql_looks_at_the_row_as_it_is_once_it_has_waited_for_it() {
    let [_, update, fence] = blocks("PostgreSQL")[..] else { panic!("three statements") };
    let Some(postgres) = Postgres::start() else { return };
    postgres.psql(&format!("{TABLES} INSERT INTO doc VALUES ('a', '', 0, 0);"));
    let prepare = format!(
        "PREPARE change(text, text, bigint, bigint) AS {update};
        PREPARE fence(text, bigint, bigint) AS {fence};"
    );
    let mut later = postgres.session();
    later.ask(&prepare);
    later.ask("BEGIN; EXECUTE fence('a', 20, 1); EXECUTE change('a', 'later', 20, 1);");
    let mut earlier = postgres.session();
    earlier.ask(&prepare);
    earlier.send("EXECUTE change('a', 'earlier', 10, 1); EXECUTE fence('a', 10, 1);");
    // Once it is seen to wait, the other one ends.
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted;";
    while postgres.psql(waiting).trim() == "0" {}
    later.ask("COMMIT;");
    let said = earlier.answer();
    assert_eq!(said.lines().collect::<Vec<_>>(), ["UPDATE 0", "INSERT 0 0"]);
    assert_eq!(postgres.psql("SELECT body FROM doc;").trim(), "later");
}

#[test]
fn redis_does_what_the_document_says() {
    let [script] = blocks("Redis")[..] else { panic!("one script") };
    assert_eq!(script.lines().count(), 1, "it is to be pasted as one word");
    let Some(redis) = Redis::start() else { return };
    for (start, token, admitted) in WRITES {
        let (fence, body) = ([start.to_string(), token.to_string()], body(start, token));
        let said = redis.cli(&["EVAL", script, "1", "a", &fence[0], &fence[1], &body]);
        assert_eq!(said.trim(), if admitted { "1" } else { "0" }, "{start}:{token}");
    }
    let kept = redis.cli(&["HMGET", "a", "start", "token", "value"]);
    let (start, token) = LAST;
    assert_eq!(kept.trim(), format!("{start}\n{token}\n{}", body(start, token)));
}
