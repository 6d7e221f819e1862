//! What SIGHUP does: the configuration, and the files that it names, are read and checked as a whole; then all of it counts from
//! one slot's end on, or nothing does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::output::{self, harmless};
use super::super::signal::Hangup;
use super::super::times::{self, Wall};
use super::manager::Manager;
use super::material::Material;
use crate::config::{Change, Config, Effect};
use crate::coordinator::{Feasibility, Reload, Reloaded, Reloader, Told};
use crate::limits;
use crate::resolver::{CapacityView, RulesChange};

/// What the record says of who asked.
const BY: &str = "SIGHUP";

/// The configuration that a coordinator runs with, and where it stands.
#[derive(Debug)]
pub(in crate::cli) struct Reloading {
    file: PathBuf,
    in_force: Mutex<Config>,
}

/// A configuration that is right, and can take the place of the one in force.
struct Next {
    config: Config,
    material: Material,
    changes: Vec<Change>,
    rules: Option<RulesChange>,
}

/// Why one cannot, and what it would have changed, as far as that is known.
struct Refused {
    why: String,
    changes: Vec<Change>,
}

impl Reloading {
    /// Of a coordinator that is started with `config`, which stands in `file`.
    pub(super) fn new(file: PathBuf, config: Config) -> Self {
        Reloading { file, in_force: Mutex::new(config) }
    }

    /// Reads it again each time that `hangup` says so. `manager` is told of it.
    pub(super) async fn follow(self, mut hangup: Hangup, reloader: Reloader, manager: Arc<Manager>) {
        let reloading = Arc::new(self);
        loop {
            hangup.asked().await;
            manager.reload_begins();
            let (reloading, reloader) = (Arc::clone(&reloading), reloader.clone());
            // It reads files, waits for a slot's end and looks at every connection: not on a thread that connections wait for.
            match tokio::task::spawn_blocking(move || reloading.reload(&reloader)).await {
                Ok(Ok(line)) => output::talk(format_args!("read again: {line}")),
                Ok(Err(why)) => {
                    output::complain(format_args!("not read again, what was read before goes on: {why}"));
                }
                Err(panic) => output::complain(format_args!("not read again: {panic}")),
            }
            manager.reload_ends();
        }
    }

    /// # Errors
    /// Why all is as it was.
    fn reload(&self, reloader: &Reloader) -> Result<String, String> {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let refuse = |Refused { why, changes }| {
            let lines: Vec<&str> = why.lines().map(str::trim).collect();
            reloader.refused(&told(&changes), &lines.join("; "));
            why
        };
        let load = |()| Config::load(&self.file).map_err(|error| error.to_string());
        let read = regular(&self.file).and_then(load).map_err(|why| Refused { why, changes: Vec::new() });
        let next = read.and_then(|config| Next::of(&in_force, config, &self.file));
        let Next { config, material, changes, rules } = next.map_err(refuse)?;
        let set = told_of_set(reloader.capacities_set(), rules.as_ref());
        let read = material.files().into_iter().try_for_each(regular).and_then(|()| material.read());
        let reloaded = read.and_then(|(identity, access)| {
            let reload = Reload {
                identity,
                access,
                rules,
                spans: (&config.rules).into(),
                rights: Arc::new(config.rights.clone()),
                admission: Arc::new(Feasibility::new(config.frames.clone())),
                drain_within: config.drain_within,
                limits: config.limits.clone(),
                told: told(&changes),
            };
            reloader.reload(reload).map_err(|error| error.to_string())
        });
        let reloaded = reloaded.map_err(|why| refuse(Refused { why, changes: changes.clone() }))?;
        // It counts from here on, and what this process itself takes from a configuration is taken here too.
        if config.log.level != in_force.log.level {
            // A level that is none was not read; where the environment says another, that stays.
            let _ = output::set_log_level(&config.log.level);
        }
        *in_force = config;
        reloaded.over.iter().for_each(warn_of_too_small);
        Ok(line(&changes, &reloaded, &set))
    }
}

impl Next {
    /// `config`, which stands in `file`, where it can take the place of `before`.
    fn of(before: &Config, config: Config, file: &Path) -> Result<Self, Refused> {
        let changes = before.changes_to(&config);
        let fixed: Vec<String> =
            changes.iter().filter(|it| it.effect == Effect::Restart).map(Change::to_string).collect();
        if !fixed.is_empty() {
            let why = format!(
                "{}: {}: counts from a start on\n  do      put it back and send SIGHUP again; or start serve anew, which \
                 drops no grant",
                file.display(),
                several(&fixed)
            );
            return Err(Refused { why, changes });
        }
        let material = match Material::of(&config) {
            Ok(material) => material,
            Err(why) => return Err(Refused { why: format!("{}: {why}", file.display()), changes }),
        };
        let rules = config.change_of_rules(Some((&before.rules_document(), &before.rules)));
        Ok(Next { config, material, changes, rules })
    }
}

/// A pipe, say, would be waited for, for ever: a start may be fed by one, and is watched by whoever began it.
fn regular(path: &Path) -> Result<(), String> {
    let kind = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if kind.is_file() { Ok(()) } else { Err(format!("{}: it is no regular file", path.display())) }
}

fn told(changes: &[Change]) -> Told {
    Told { by: BY.to_owned(), changes: changes.iter().map(Change::to_string).collect() }
}

/// What has changed, in one line.
fn line(changes: &[Change], reloaded: &Reloaded, set: &str) -> String {
    let Reloaded { from, ended, .. } = reloaded;
    let changes: Vec<String> = changes.iter().map(Change::to_string).collect();
    let (changes, from) = match changes.is_empty() {
        true => ("no key has changed; ".to_owned(), String::new()),
        false => (format!("{}; ", several(&changes)), format!(", from slot {} on", from.number())),
    };
    format!("{changes}certificates and who is let in{from}; {ended} connections were ended{set}")
}

/// A list in one line, whose rest is counted.
fn several(items: &[String]) -> String {
    let shown = items.iter().take(limits::RELOAD_KEYS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(limits::RELOAD_KEYS) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// What becomes of so many capacities that were set at run time.
fn told_of_set(set: usize, rules: Option<&RulesChange>) -> String {
    match rules {
        Some(RulesChange { resources: Some(_), .. }) if set > 0 => {
            format!(
                "; the table of resources has changed, and takes the place of {set} capacities set at run time"
            )
        }
        Some(_) if set > 0 => format!("; {set} capacities set at run time stay"),
        _ => String::new(),
    }
}

fn warn_of_too_small(view: &CapacityView) {
    let CapacityView { path, capacity, most, room_from, .. } = view;
    let wall = Wall::at(times::now());
    let until = room_from.map_or("it is raised".to_owned(), |from| wall.ahead(from));
    output::talk(format_args!(
        "warning: {}: {most} of {capacity} units are granted: nothing is taken back, and nothing more fits until {until}",
        harmless(path.as_str())
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Slot;

    fn next(before: &str, after: &str) -> Result<Next, Refused> {
        let [before, after] = [before, after].map(|text| Config::parse("preclaim.toml", text).unwrap());
        Next::of(&before, after, Path::new("preclaim.toml"))
    }

    const SERVE: &str = "[tls]\ncert = \"a\"\nkey = \"b\"\n[auth]\nmode = \"open\"\n[state]\ndir = \"state\"\n\
                         [limits]\nlanes = 8\n";

    #[test]
    fn what_counts_from_a_start_on_refuses_all_of_it_and_says_what_and_what_to_do() {
        let after = SERVE.replace("lanes = 8", "lanes = 9").replace("\"state\"", "\"other\"");
        let Err(refused) = next(SERVE, &after) else { panic!("it is taken") };
        let first = refused.why.lines().next().unwrap();
        assert!(first.contains("preclaim.toml: state.dir \"state\" -> \"other\""), "{first}");
        assert!(!first.contains("lanes") && refused.why.contains("do      "), "{}", refused.why);
        assert_eq!(refused.changes.len(), 2, "the record says all");
        let Err(refused) = next(SERVE, &SERVE.replace("[tls]\ncert = \"a\"\nkey = \"b\"\n", "")) else {
            panic!("it is taken")
        };
        assert!(refused.why.contains("[tls]"), "{}", refused.why);
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let file = std::env::temp_dir().join(format!("preclaim-regular-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        assert_eq!(regular(&file), Ok(()));
        std::fs::remove_file(&file).unwrap();
        assert!(regular(&file).unwrap_err().contains("preclaim-regular-"));
        assert!(regular(&std::env::temp_dir()).unwrap_err().contains("no regular file"));
    }

    #[test]
    fn a_line_says_what_changed_and_from_when_on() {
        let Ok(next) = next(SERVE, &SERVE.replace("lanes = 8", "lanes = 9")) else { panic!("it is refused") };
        assert!(next.rules.is_none(), "limits are no rules of the core");
        let reloaded = Reloaded { from: Slot::new(7), ended: 2, over: Vec::new() };
        assert_eq!(
            line(&next.changes, &reloaded, ""),
            "limits.lanes 8 -> 9; certificates and who is let in, from slot 7 on; 2 connections were ended"
        );
        assert_eq!(
            line(&[], &reloaded, ""),
            "no key has changed; certificates and who is let in; 2 connections were ended"
        );
        let many: Vec<String> = (0..limits::RELOAD_KEYS + 3).map(|it| it.to_string()).collect();
        assert!(several(&many).ends_with("31, and 3 more"), "{}", several(&many));
    }

    #[test]
    fn what_was_set_at_run_time_is_said_to_stay_or_to_go() {
        let change = |resources| RulesChange {
            rules: crate::resolver::Rules::default(),
            resources,
            document: "".into(),
        };
        assert_eq!(told_of_set(0, Some(&change(None))), "");
        assert_eq!(told_of_set(2, None), "");
        assert!(told_of_set(2, Some(&change(None))).ends_with("2 capacities set at run time stay"));
        assert!(told_of_set(2, Some(&change(Some(Vec::new())))).contains("takes the place of 2"));
    }
}
