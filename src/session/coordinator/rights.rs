//! Who may claim, read and administer what: rules, of which the first that fits decides.
//!
//! A rule fits a claim *whole* where it is about all that the claim takes, and *in part* where it is about something
//! below that: an exclusive claim on `map` takes `map/vault` too, whatever a later rule says of `map`. The rules that
//! fit in part, ahead of the first that fits whole, have to allow it as well. What no rule fits whole is forbidden,
//! once there are rules.
//!
//! Rules are patterns without backtracking: a claim costs at most a look at each segment of each of
//! [`limits::RULES`] rules.

use std::fmt;
use std::sync::Arc;

use super::allowance::Allowance;
use super::priority::Caps;
use crate::limits;
use crate::types::{Agent, Claim, Intent, Micros, Mode, Path, Start, Target, Time};

/// All rules, in order, and what claiming urgency costs: one value, made once and handed round whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    rules: Vec<Rule>,
    allowance: Option<Allowance>,
    /// Whether without any rule everybody administers.
    everybody_administers: bool,
}

/// One rule: whom and what it is about, and what it allows. Default: everybody, everything, all claims without a
/// bound; neither to read nor to administer.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What people call it; 1 to [`limits::RULE_NAME_BYTES`] bytes without control characters.
    pub name: Arc<str>,
    /// Whom it is about.
    pub who: NamePattern,
    /// What it is about.
    pub what: What,
    /// How it may be claimed.
    pub modes: Modes,
    /// The most that counts of what an intent says of its priority; more is lowered to it.
    pub caps: Caps,
    /// The most units that one intent may take by this rule.
    pub units: Option<u64>,
    /// How long a claim may last, renewals included.
    pub duration: Option<Micros>,
    /// How far ahead of its decision a claim may end.
    pub horizon: Option<Micros>,
    /// Whether others' claims on it may be looked at.
    pub read: bool,
    /// Whether others' claims on it may be ended.
    pub administer: bool,
}

impl Rule {
    /// The default, of that name.
    pub fn named(name: &str) -> Self {
        Rule {
            name: name.into(),
            who: NamePattern::everybody(),
            what: What::Everything,
            modes: Modes::ALL,
            caps: Caps::default(),
            units: None,
            duration: None,
            horizon: None,
            read: false,
            administer: false,
        }
    }
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// All paths and all regions.
    Everything,
    /// Paths at or below these, and regions of the frames there.
    Path(PathPattern),
    /// Regions of the frames at or below these.
    Frame(PathPattern),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Everything => f.write_str("everything"),
            What::Path(pattern) => pattern.fmt(f),
            What::Frame(pattern) => write!(f, "regions of {pattern}"),
        }
    }
}

/// Text with at most one `*`, which stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Glob {
    Exactly(Box<str>),
    Around { before: Box<str>, after: Box<str> },
}

impl Glob {
    fn new(text: &str) -> Option<Self> {
        match text.split_once('*') {
            None => Some(Glob::Exactly(text.into())),
            Some((_, after)) if after.contains('*') => None,
            Some((before, after)) => Some(Glob::Around { before: before.into(), after: after.into() }),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Glob::Exactly(exactly) => **exactly == *text,
            Glob::Around { before, after } => {
                let rest = text.strip_prefix(&**before);
                rest.is_some_and(|rest| rest.ends_with(&**after))
            }
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Glob::Exactly(exactly) => f.write_str(exactly),
            Glob::Around { before, after } => write!(f, "{before}*{after}"),
        }
    }
}

/// Names of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Glob);

impl NamePattern {
    /// What one is, for people.
    pub const RULE: &'static str =
        "an agent's name, in which one `*` may stand for any text, such as \"robot-*\"";

    /// All names.
    pub fn everybody() -> Self {
        NamePattern(Glob::Around { before: "".into(), after: "".into() })
    }

    /// The pattern that `text` spells; `None` where it is none, or has no name that it could fit.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= limits::AGENT_BYTES && !text.contains(char::is_control);
        if fits { Glob::new(text).map(NamePattern) } else { None }
    }

    /// Whether that name is one of them.
    pub fn matches(&self, agent: &Agent) -> bool {
        self.0.matches(agent.as_str())
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Paths, segment by segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(Box<[Glob]>);

impl PathPattern {
    /// What one is, for people.
    pub const RULE: &'static str = "a path, in each segment of which one `*` may stand for any text, such as \
                                    \"aisle/*/dock-*\"";

    /// The pattern that `text` spells; `None` where it is none, or has no path that it could fit.
    pub fn new(text: &str) -> Option<Self> {
        // With a letter in the place of the star it has to be a path.
        Path::new(&text.replace('*', "x"))?;
        let segments: Option<Box<[Glob]>> = text.split('/').map(Glob::new).collect();
        segments.map(PathPattern)
    }

    /// How the two lie to each other, as far as both reach.
    fn lies(&self, path: &Path) -> Lies {
        let mut pattern = self.0.iter();
        let mut segments = path.as_str().split('/');
        loop {
            return match (pattern.next(), segments.next()) {
                (None, None) => Lies::Same,
                (None, Some(_)) => Lies::Below,
                (Some(_), None) => Lies::Above,
                (Some(glob), Some(segment)) if glob.matches(segment) => continue,
                (Some(_), Some(_)) => Lies::Apart,
            };
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            write!(f, "{}{segment}", if at > 0 { "/" } else { "" })?;
        }
        Ok(())
    }
}

/// How a path lies to a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Same,
    Below,
    Above,
    Apart,
}

/// Which modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Shared claims, and readings that an intent rests on.
    pub shared: bool,
    /// Exclusive claims.
    pub exclusive: bool,
    /// Claims of units.
    pub units: bool,
}

impl Modes {
    /// All of them.
    pub const ALL: Modes = Modes { shared: true, exclusive: true, units: true };
    /// None: nothing may be claimed.
    pub const NONE: Modes = Modes { shared: false, exclusive: false, units: false };

    fn have(self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => self.shared,
            Mode::Exclusive => self.exclusive,
            Mode::Units(_) => self.units,
        }
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.shared, "shared"), (self.exclusive, "exclusive"), (self.units, "units")];
        let words: Vec<&str> = all.into_iter().filter_map(|(has, word)| has.then_some(word)).collect();
        f.write_str(&if words.is_empty() { "none".to_owned() } else { words.join(", ") })
    }
}

macro_rules! whys {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why something is forbidden. Numbers stand in the audit log and are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ForbiddenBy {
            $($(#[$doc])* $name,)*
        }

        impl ForbiddenBy {
            /// All of them.
            pub const ALL: &'static [ForbiddenBy] = &[$(ForbiddenBy::$name,)*];

            /// Its number.
            pub const fn number(self) -> u8 {
                match self {
                    $(ForbiddenBy::$name => $number,)*
                }
            }

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ForbiddenBy::$name => $text,)*
                }
            }
        }
    };
}

whys! {
    /// No rule is about it.
    NoRule = 1, "no_rule";
    /// The rule does not have the mode.
    Mode = 2, "mode";
    /// More units than the rule has.
    Units = 3, "units";
    /// Longer than the rule has it.
    Duration = 4, "duration";
    /// Further ahead than the rule has it.
    Horizon = 5, "horizon";
    /// The rule does not let others' claims be looked at.
    Read = 6, "read";
    /// The rule does not let others' claims be ended.
    Administer = 7, "administer";
    /// Not the rules: a check of the operator's own, or an observer that asks for more than to look.
    Other = 8, "other";
}

/// Something is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// By which rule; `None` where none is about it.
    pub rule: Option<Arc<str>>,
    /// Why.
    pub by: ForbiddenBy,
    /// The field at fault; may be empty.
    pub field: String,
    /// The path or frame that it is about; empty for everything.
    pub what: Arc<str>,
    /// In words, within [`limits::TEXT_BYTES`].
    pub hint: String,
}

impl Forbidden {
    /// By something else than the rules.
    pub(super) fn by_check(field: String, hint: String) -> Self {
        Forbidden { rule: None, by: ForbiddenBy::Other, field, what: "".into(), hint }
    }
}

/// Something that rules are asked about.
#[derive(Clone, Copy, Debug)]
enum Spot<'a> {
    Everything,
    Path(&'a Path),
    /// A region of that frame.
    Region(&'a Path),
}

impl<'a> Spot<'a> {
    fn of(target: &'a Target) -> Self {
        match target {
            Target::Path(path) => Spot::Path(path),
            Target::Region(region) => Spot::Region(&region.frame),
        }
    }

    fn path(self) -> &'a str {
        match self {
            Spot::Everything => "",
            Spot::Path(path) | Spot::Region(path) => path.as_str(),
        }
    }
}

/// How far a rule is about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Whole,
    Part,
}

impl What {
    fn fit(&self, spot: Spot<'_>) -> Option<Fit> {
        match (self, spot) {
            (What::Everything, _) => Some(Fit::Whole),
            (What::Path(_) | What::Frame(_), Spot::Everything) => Some(Fit::Part),
            (What::Path(pattern), Spot::Path(path)) => match pattern.lies(path) {
                Lies::Same | Lies::Below => Some(Fit::Whole),
                Lies::Above => Some(Fit::Part),
                Lies::Apart => None,
            },
            // A region is a node just below its frame, beside all other paths there.
            (What::Path(pattern) | What::Frame(pattern), Spot::Region(frame)) => match pattern.lies(frame) {
                Lies::Same | Lies::Below => Some(Fit::Whole),
                Lies::Above | Lies::Apart => None,
            },
            // A path closes the frames on it and below it.
            (What::Frame(pattern), Spot::Path(path)) => {
                (pattern.lies(path) != Lies::Apart).then_some(Fit::Part)
            }
        }
    }
}

/// When a claim is asked for: what an intent's latest end is counted from.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The decision time of the open slot.
    pub decided_at: Time,
    /// The earliest start after a decision.
    pub min_lead: Micros,
    /// The slot length.
    pub slot_length: Micros,
}

impl Asked {
    /// The latest start that the intent may take.
    fn latest_start(&self, intent: &Intent) -> Time {
        match intent.start {
            Start::At(start) => start.after(intent.slack),
            Start::Asap => {
                let within = Micros::from_us(self.slot_length.as_us().saturating_sub(1));
                self.decided_at.after(self.min_lead).after(intent.slack.max(within))
            }
        }
    }
}

/// One use of something, as rules see it.
#[derive(Clone, Copy, Debug)]
struct Use<'a> {
    field: (&'static str, usize),
    spot: Spot<'a>,
    mode: Mode,
    lasts: Micros,
    until: Time,
}

/// What the rules say of one claim, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged<'r> {
    /// The rules that were asked, in order; the last is about all of it, unless none is.
    pub rules: Vec<&'r Rule>,
    /// Why it is forbidden.
    pub forbidden: Option<Forbidden>,
}

impl Rights {
    /// With these rules, of which the first that fits decides, and this allowance. Rules past
    /// [`limits::RULES`] are a fault of the caller's and left out.
    pub fn new(mut rules: Vec<Rule>, allowance: Option<Allowance>) -> Self {
        rules.truncate(limits::RULES);
        Rights { rules, allowance, everybody_administers: false }
    }

    /// As long as there is no rule everybody may administer too: for a coordinator that is one person's alone.
    #[must_use]
    pub fn everybody_administers(self) -> Self {
        Rights { everybody_administers: true, ..self }
    }

    /// Whether there is no rule: everybody may claim and read everything, and nobody administers, unless
    /// [`Rights::everybody_administers`].
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What claiming urgency costs, where it costs something.
    pub fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_ref()
    }

    /// Whether the agent may have the intent, and how much of its priority counts.
    ///
    /// # Errors
    /// The first claim that it may not have, and why.
    pub fn judge(&self, agent: &Agent, intent: &Intent, asked: Asked) -> Result<Caps, Forbidden> {
        if self.is_open() {
            return Ok(Caps::default());
        }
        let latest = asked.latest_start(intent);
        let claims = intent.claims.iter().enumerate().map(|(at, claim)| use_of(at, claim, latest));
        // A reading has a shared place on its path until the slot's end.
        let readings = intent.expects.iter().enumerate().map(|(at, expect)| Use {
            field: ("expects", at),
            spot: Spot::Path(&expect.path),
            mode: Mode::Shared,
            lasts: Micros::ZERO,
            until: asked.decided_at,
        });
        self.of(agent).judge(claims.chain(readings), asked.decided_at)
    }

    /// Whether the agent may have what it was granted at `start` until `until`: those of `claims` that end last.
    ///
    /// # Errors
    /// The first that it may not have for so long, and why.
    pub fn judge_renewal(
        &self,
        agent: &Agent,
        claims: &[Claim],
        (start, until): (Time, Time),
        asked: Asked,
    ) -> Result<(), Forbidden> {
        let last = claims.iter().map(|claim| claim.window(start).end()).max();
        let renewed = claims.iter().enumerate().filter(|(_, claim)| Some(claim.window(start).end()) == last);
        let uses = renewed.map(|(at, claim)| {
            let opens = claim.window(start).start();
            Use { lasts: until.since(opens), until, ..use_of(at, claim, start) }
        });
        if self.is_open() { Ok(()) } else { self.of(agent).judge(uses, asked.decided_at).map(drop) }
    }

    /// Whether the agent may look at others' claims at and below `under`, or at all of them.
    ///
    /// # Errors
    /// Why not.
    pub fn may_read(&self, agent: &Agent, under: Option<&Path>) -> Result<(), Forbidden> {
        let spot = under.map_or(Spot::Everything, Spot::Path);
        if self.is_open() { Ok(()) } else { self.of(agent).let_through(spot, ForbiddenBy::Read) }
    }

    /// Whether the agent may look at others' claims on `target`.
    pub fn may_read_target(&self, agent: &Agent, target: &Target) -> bool {
        self.is_open() || self.of(agent).let_through(Spot::of(target), ForbiddenBy::Read).is_ok()
    }

    /// Whether the agent may end another's intent, which has these claims; none where there is no such intent.
    ///
    /// # Errors
    /// Why not.
    pub fn may_administer(&self, agent: &Agent, claims: &[Claim]) -> Result<(), Forbidden> {
        if self.is_open() && self.everybody_administers {
            return Ok(());
        }
        let own = self.of(agent);
        if !own.rules().any(|rule| rule.administer) {
            return Err(forbidden(None, ForbiddenBy::Administer, Spot::Everything));
        }
        let mut spots = claims.iter().map(|claim| Spot::of(&claim.target));
        spots.try_for_each(|spot| own.let_through(spot, ForbiddenBy::Administer))
    }

    /// Whether the agent may have the coordinator drain: it has to administer everything.
    ///
    /// # Errors
    /// Why not.
    pub fn may_drain(&self, agent: &Agent) -> Result<(), Forbidden> {
        if self.is_open() && self.everybody_administers {
            return Ok(());
        }
        self.of(agent).let_through(Spot::Everything, ForbiddenBy::Administer)
    }

    /// The rules about the agent, in order.
    pub fn rules_of(&self, agent: &Agent) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.who.matches(agent))
    }

    /// What the rules say of each claim of the intent, for people.
    pub fn explain(&self, agent: &Agent, intent: &Intent, asked: Asked) -> Vec<Judged<'_>> {
        let latest = asked.latest_start(intent);
        let own = self.of(agent);
        let of = |(at, claim)| own.explain(use_of(at, claim, latest), asked.decided_at);
        intent.claims.iter().enumerate().map(of).collect()
    }

    fn of(&self, agent: &Agent) -> Own<'_> {
        let is_own = |(at, rule): (usize, &Rule)| rule.who.matches(agent).then_some(at);
        Own { all: &self.rules, own: self.rules.iter().enumerate().filter_map(is_own).collect() }
    }
}

fn use_of<'a>(at: usize, claim: &'a Claim, start: Time) -> Use<'a> {
    Use {
        field: ("claims", at),
        spot: Spot::of(&claim.target),
        mode: claim.mode,
        lasts: claim.duration,
        until: claim.window(start).end(),
    }
}

/// The rules about one agent.
struct Own<'r> {
    all: &'r [Rule],
    own: Vec<usize>,
}

impl<'r> Own<'r> {
    fn rules(&self) -> impl Iterator<Item = &'r Rule> {
        let all = self.all;
        self.own.iter().filter_map(move |at| all.get(*at))
    }

    /// The rules about `spot` up to the first that is about all of it, and whether there is such a one.
    fn about(&self, spot: Spot<'_>) -> (Vec<(usize, &'r Rule, Fit)>, bool) {
        let mut found = Vec::new();
        for (at, rule) in self.rules().enumerate() {
            let Some(fit) = rule.what.fit(spot) else { continue };
            found.push((at, rule, fit));
            if fit == Fit::Whole {
                return (found, true);
            }
        }
        (found, false)
    }

    fn judge<'a>(&self, uses: impl Iterator<Item = Use<'a>>, now: Time) -> Result<Caps, Forbidden> {
        let mut caps = Caps::default();
        let mut taken = vec![0_u64; self.own.len()];
        for it in uses {
            let (rules, is_whole) = self.about(it.spot);
            for (at, rule, fit) in rules {
                check(rule, fit, it, &mut taken[at], now)?;
                caps.and(&rule.caps, &rule.name);
            }
            if !is_whole {
                return Err(at_field(it, forbidden(None, ForbiddenBy::NoRule, it.spot)));
            }
        }
        Ok(caps)
    }

    fn let_through(&self, spot: Spot<'_>, by: ForbiddenBy) -> Result<(), Forbidden> {
        let (rules, is_whole) = self.about(spot);
        let allows = |rule: &Rule| if by == ForbiddenBy::Administer { rule.administer } else { rule.read };
        match rules.into_iter().find(|(_, rule, _)| !allows(rule)) {
            Some((_, rule, _)) => Err(forbidden(Some(rule), by, spot)),
            None if is_whole => Ok(()),
            None => Err(forbidden(None, by, spot)),
        }
    }

    fn explain(&self, it: Use<'_>, now: Time) -> Judged<'r> {
        let (about, is_whole) = self.about(it.spot);
        let mut rules = Vec::new();
        for (_, rule, fit) in about {
            rules.push(rule);
            if let Err(forbidden) = check(rule, fit, it, &mut 0, now) {
                return Judged { rules, forbidden: Some(forbidden) };
            }
        }
        let none = || at_field(it, forbidden(None, ForbiddenBy::NoRule, it.spot));
        Judged { rules, forbidden: (!is_whole).then(none) }
    }
}

/// Whether one rule allows one use. `taken` is what the intent takes of units by it.
fn check(rule: &Rule, fit: Fit, it: Use<'_>, taken: &mut u64, now: Time) -> Result<(), Forbidden> {
    let fault = |by, field: &str, why: String| {
        let of = forbidden(Some(rule), by, it.spot);
        let hint = format!("{}: {why}", of.hint);
        let (list, at) = it.field;
        Err(Forbidden { field: format!("{list}[{at}]{field}"), hint, ..of })
    };
    if !rule.modes.have(it.mode) {
        return fault(ForbiddenBy::Mode, "", format!("its modes are {}", rule.modes));
    }
    // Units above something take nothing of what is there.
    if let (Mode::Units(units), Fit::Whole) = (it.mode, fit) {
        *taken = taken.saturating_add(units);
        if let Some(most) = rule.units.filter(|most| *taken > *most) {
            return fault(ForbiddenBy::Units, ".mode", format!("up to {most} units of one intent"));
        }
    }
    if let Some(most) = rule.duration.filter(|most| it.lasts > *most) {
        return fault(ForbiddenBy::Duration, ".duration", format!("up to {}", words(most)));
    }
    if let Some(most) = rule.horizon.filter(|most| it.until > now.after(*most)) {
        return fault(
            ForbiddenBy::Horizon,
            "",
            format!("it may end up to {} after its decision", words(most)),
        );
    }
    Ok(())
}

/// A span for people, exactly.
fn words(span: Micros) -> String {
    match span.as_us() {
        us if us.is_multiple_of(1_000_000) => format!("{} s", us / 1_000_000),
        us if us.is_multiple_of(1_000) => format!("{} ms", us / 1_000),
        us => format!("{us} us"),
    }
}

fn at_field(it: Use<'_>, forbidden: Forbidden) -> Forbidden {
    let (list, at) = it.field;
    Forbidden { field: format!("{list}[{at}]"), ..forbidden }
}

fn forbidden(rule: Option<&Rule>, by: ForbiddenBy, spot: Spot<'_>) -> Forbidden {
    let lacks = match by {
        ForbiddenBy::Read => " lets this name look at others' claims there",
        ForbiddenBy::Administer => " lets this name end others' claims there",
        _ => " is about it",
    };
    let hint = match rule {
        None => format!("no rule{lacks}"),
        Some(rule) => match by {
            ForbiddenBy::Read => format!("by rule \"{}\", which has no `read`", rule.name),
            ForbiddenBy::Administer => format!("by rule \"{}\", which has no `administer`", rule.name),
            _ => format!("by rule \"{}\"", rule.name),
        },
    };
    let name = rule.map(|rule| Arc::clone(&rule.name));
    Forbidden { rule: name, by, field: String::new(), what: spot.path().into(), hint }
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
