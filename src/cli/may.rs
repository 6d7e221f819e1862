//! `preclaim config check --as NAME CLAIM…`: what the rules of a configuration let an agent claim, and why.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::claims::{Written, mode_name};
use super::complaint::Complaint;
use super::declare::{claim, share};
use super::output::{self, Format, Output, harmless};
use super::times::{self, length};
use super::{ExitCode, declare};
use crate::config::Config;
use crate::limits;
use crate::session::coordinator::{Asked, Judged, Priority, Rights, Rule};
use crate::types::{Agent, Intent, Micros, RawClaim, RawIntent, Slot, Time};
use crate::wire::{raw_mode, raw_target};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file; with --as, claims as `preclaim declare` takes them
    #[arg(value_name = "FILE|CLAIM")]
    rest: Vec<String>,
    /// Say what this agent may claim
    #[arg(long = "as", value_name = "NAME", value_parser = name)]
    name: Option<Agent>,
    /// The file, beside --as [default: preclaim.toml]
    #[arg(long, value_name = "FILE", requires = "name")]
    config: Option<PathBuf>,
    /// For how long
    #[arg(long = "for", value_name = "DURATION", value_parser = times::lasting, default_value = "1s", requires = "name")]
    lasts: Duration,
    /// How long from now it starts [default: as soon as it can]
    #[arg(long = "in", value_name = "DURATION", value_parser = times::span, requires = "name")]
    starts_in: Option<Duration>,
    /// 0 to 7
    #[arg(long, value_name = "N", default_value_t = 0, requires = "name",
        value_parser = clap::value_parser!(u8).range(0..=i64::from(limits::CLASS_MAX)))]
    class: u8,
    /// Priority input, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = share, requires = "name")]
    urgency: f64,
    #[command(flatten)]
    output: Output,
}

fn name(text: &str) -> Result<Agent, &'static str> {
    Agent::new(text).ok_or("it is an agent's name: 1 to 128 bytes without control characters")
}

impl Args {
    /// Whose rights are asked for, where they are.
    pub(super) fn name(&self) -> Option<&Agent> {
        self.name.as_ref()
    }

    /// The configuration that is checked; `default` where none is named.
    pub(super) fn file(&self, default: &str) -> Result<PathBuf, Complaint> {
        let usage = |what: &str| Complaint::new(ExitCode::Usage, what);
        match (&self.name, self.rest.as_slice()) {
            (Some(_), [first, ..]) if first.ends_with(".toml") && PathBuf::from(first).is_file() => {
                let what = format!("{} is a file, and beside --as stand claims", harmless(first));
                Err(usage(&what).todo("--config FILE"))
            }
            (Some(_), _) => Ok(self.config.clone().unwrap_or_else(|| default.into())),
            (None, []) => Ok(default.into()),
            (None, [file]) => Ok(file.into()),
            (None, _) => Err(usage("one configuration is checked at a time").todo("--as NAME, for claims")),
        }
    }

    fn intent(&self, claims: &[Written], now: Time) -> Result<Intent, Complaint> {
        let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let claims = claims.iter().map(|claim| RawClaim {
            target: claim.target().clone(),
            mode: claim.mode(),
            offset: 0,
            duration: us(self.lasts),
        });
        let raw = RawIntent {
            start: self.starts_in.map(|span| now.after(Micros::from_us(us(span))).as_us()),
            class: self.class.into(),
            urgency: self.urgency,
            claims: claims.collect(),
            ..RawIntent::default()
        };
        raw.parse().map_err(|why| Complaint::new(ExitCode::Usage, format!("{}: {}", why.field, why.expected)))
    }
}

/// Says what `name` may.
pub(super) fn tell(args: &Args, name: &Agent, config: &Config) -> ExitCode {
    let rights = &config.rights;
    if args.rest.is_empty() {
        return tell_rules(args, name, rights);
    }
    let claims: Result<Vec<Written>, Complaint> = args.rest.iter().map(|text| claim(text)).collect();
    let rules = &config.rules;
    let (slot_length, min_lead) = (rules.length, rules.min_lead);
    // Any time will do: what counts is how far ahead of it something is.
    let now = Slot::new(1 << 32).opens(slot_length);
    let decided_at = Slot::of(now, slot_length).decided_at(slot_length);
    let asked = Asked { decided_at, min_lead, slot_length };
    let intent = match claims.and_then(declare::within_limits).and_then(|claims| args.intent(&claims, now)) {
        Ok(intent) => intent,
        Err(complaint) => return complaint.say(),
    };
    let verdict = Verdict::of(rights, name, &intent, asked);
    let code = if verdict.forbidden.is_none() { ExitCode::Done } else { ExitCode::Refused };
    let printed = match args.output.format() {
        Format::Json => output::print(format_args!("{}\n", output::json(&verdict))),
        Format::Table => output::print(format_args!("{}", verdict.for_people(name, rights))),
    };
    if printed == ExitCode::Done { code } else { printed }
}

fn tell_rules(args: &Args, name: &Agent, rights: &Rights) -> ExitCode {
    let rules: Vec<&Rule> = rights.rules_of(name).collect();
    match args.output.format() {
        Format::Json => rules.iter().fold(ExitCode::Done, |code, rule| match code {
            ExitCode::Done => output::print(format_args!("{}\n", output::json(&RuleBody::of(rule)))),
            code => code,
        }),
        Format::Table if rights.is_open() => output::print(format_args!(
            "there are no rules: everybody may claim and look at everything, and nobody administers\n"
        )),
        Format::Table => {
            let mut text: String = rules.iter().map(|rule| format!("{}\n", spelled(rule))).collect();
            text.push_str("what none of these is about is forbidden\n");
            output::print(format_args!("{text}"))
        }
    }
}

/// A rule in one line.
fn spelled(rule: &Rule) -> String {
    let Rule { name, who, what, modes, caps, units, duration, horizon, read, administer } = rule;
    let bounds = [
        units.map(|most| format!("up to {most} units")),
        duration.map(|most| format!("for up to {}", length(most))),
        horizon.map(|most| format!("ending up to {} ahead", length(most))),
        Some(caps.words())
            .filter(|words| !words.is_empty())
            .map(|words| format!("counting as up to {words}")),
        read.then(|| "read".to_owned()),
        administer.then(|| "administer".to_owned()),
    ];
    let bounds: String = bounds.into_iter().flatten().map(|bound| format!(", {bound}")).collect();
    harmless(&format!("rule \"{name}\": {who} on {what}: {modes}{bounds}"))
}

#[derive(Serialize)]
struct Verdict {
    agent: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    forbidden: Option<ForbiddenBody>,
    claims: Vec<ClaimBody>,
    /// What counts of the priority that was asked for.
    in_force: Counts,
    /// The rule that lowered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lowered_by: Option<String>,
    /// What that costs out of the allowance, in credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

#[derive(Serialize)]
struct ForbiddenBody {
    rule: Option<String>,
    by: &'static str,
    field: String,
    hint: String,
}

#[derive(Serialize)]
struct ClaimBody {
    claim: String,
    mode: String,
    allowed: bool,
    /// The rules that were asked, in order; the last is about all of it, unless none is.
    rules: Vec<RuleBody>,
}

#[derive(Serialize)]
struct RuleBody {
    name: String,
    text: String,
}

impl RuleBody {
    fn of(rule: &Rule) -> Self {
        RuleBody { name: rule.name.to_string(), text: spelled(rule) }
    }
}

#[derive(Serialize)]
struct Counts {
    class: u8,
    urgency: f64,
}

impl Verdict {
    fn of(rights: &Rights, name: &Agent, intent: &Intent, asked: Asked) -> Self {
        let judged = rights.judge(name, intent, asked);
        let caps = judged.as_ref().cloned().unwrap_or_default();
        let (counts, lowered_by) = caps.lower(Priority::of(intent));
        let forbidden = judged.err().map(|why| ForbiddenBody {
            rule: why.rule.map(|rule| rule.to_string()),
            by: why.by.as_str(),
            field: why.field,
            hint: why.hint,
        });
        let explained = if rights.is_open() { Vec::new() } else { rights.explain(name, intent, asked) };
        let claims = intent.claims.iter().enumerate().map(|(at, claim)| {
            let target = raw_target(&claim.target);
            let mode = raw_mode(claim.mode);
            let said = explained.get(at);
            ClaimBody {
                claim: super::claims::Place(&target).to_string(),
                mode: mode_name(mode),
                allowed: said.is_none_or(|said| said.forbidden.is_none()),
                rules: said.map_or_else(Vec::new, |Judged { rules, .. }| {
                    rules.iter().map(|rule| RuleBody::of(rule)).collect()
                }),
            }
        });
        Verdict {
            agent: name.as_str().to_owned(),
            allowed: forbidden.is_none(),
            forbidden,
            claims: claims.collect(),
            in_force: Counts { class: counts.class.number(), urgency: counts.urgency },
            lowered_by: lowered_by.map(|rule| rule.to_string()),
            cost: rights.allowance().map(|allowance| allowance.credits(intent, counts)),
        }
    }

    fn for_people(&self, name: &Agent, rights: &Rights) -> String {
        let name = harmless(name.as_str());
        let mut text = match &self.forbidden {
            None => format!("allowed: {name} may claim that\n"),
            Some(why) => {
                format!("forbidden: {name} may not claim that, in {}: {}\n", why.field, harmless(&why.hint))
            }
        };
        for claim in &self.claims {
            let verdict = if claim.allowed { "allowed" } else { "forbidden" };
            text.push_str(&format!("  {} ({}): {verdict}\n", harmless(&claim.claim), claim.mode));
            match claim.rules.as_slice() {
                [] if rights.is_open() => text.push_str("    there are no rules\n"),
                [] => text.push_str("    no rule is about it\n"),
                rules => rules.iter().for_each(|rule| text.push_str(&format!("    {}\n", rule.text))),
            }
        }
        let Counts { class, urgency } = self.in_force;
        text.push_str(&format!("  class {class}, urgency {urgency} count"));
        if let Some(rule) = &self.lowered_by {
            text.push_str(&format!(", no more by rule \"{}\"", harmless(rule)));
        }
        if let (Some(cost), Some(allowance)) = (self.cost.filter(|cost| *cost > 0.0), rights.allowance()) {
            let size = allowance.size.as_f64();
            text.push_str(&format!("; that costs {cost} credits, and a purse holds {size}"));
        }
        text.push('\n');
        text
    }
}
