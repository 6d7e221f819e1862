use proptest::prelude::*;

use super::*;
use crate::types::{Class, RawClaim, RawExpect, RawIntent, RawMode, RawTarget};

const NOW: Time = Time::from_us(1_000_000);

fn asked() -> Asked {
    Asked { decided_at: NOW, min_lead: Micros::ZERO, slot_length: Micros::from_ms(10) }
}

fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap()
}

fn on(path: &str) -> What {
    What::Path(PathPattern::new(path).unwrap())
}

fn in_frame(path: &str) -> What {
    What::Frame(PathPattern::new(path).unwrap())
}

fn rule(name: &str, who: &str, what: What) -> Rule {
    Rule { who: NamePattern::new(who).unwrap(), what, ..Rule::named(name) }
}

fn deny(name: &str, what: What) -> Rule {
    Rule { modes: Modes::NONE, ..rule(name, "*", what) }
}

fn path(path: &str, mode: RawMode, duration: u64) -> RawClaim {
    RawClaim { target: RawTarget::Path(path.into()), mode, offset: 0, duration }
}

fn exclusive(at: &str) -> RawClaim {
    path(at, RawMode::Exclusive, 1_000)
}

fn region(frame: &str) -> RawClaim {
    let target = RawTarget::Box { frame: frame.into(), min: vec![0.0; 2], max: vec![1.0; 2] };
    RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 1_000 }
}

fn intent(claims: Vec<RawClaim>) -> Intent {
    RawIntent { id: 1, claims, ..RawIntent::default() }.parse().unwrap()
}

fn rights(rules: Vec<Rule>) -> Rights {
    Rights::new(rules, None)
}

/// Why it is forbidden, and by which rule; `None` where it is not.
fn judged(rights: &Rights, name: &str, intent: &Intent) -> Option<(ForbiddenBy, String)> {
    let forbidden = rights.judge(&agent(name), intent, asked()).err()?;
    assert!(forbidden.hint.len() <= limits::TEXT_BYTES, "{}", forbidden.hint);
    Some((forbidden.by, forbidden.rule.map_or_else(String::new, |rule| rule.to_string())))
}

fn by(why: ForbiddenBy, rule: &str) -> Option<(ForbiddenBy, String)> {
    Some((why, rule.to_owned()))
}

#[test]
fn without_rules_everything_may_be_claimed_and_read_and_nothing_administered() {
    let open = Rights::default();
    let high = RawIntent { class: 7, claims: vec![exclusive("a")], ..RawIntent::default() }.parse().unwrap();
    assert_eq!(open.judge(&agent("x"), &high, asked()), Ok(Caps::default()));
    assert_eq!(open.may_read(&agent("x"), None), Ok(()));
    assert!(open.may_administer(&agent("x"), &high.claims).is_err());
}

#[test]
fn a_pattern_has_one_star_for_any_text_and_no_more() {
    let matches = |pattern: &str, name: &str| NamePattern::new(pattern).unwrap().matches(&agent(name));
    assert!(matches("robot-*", "robot-") && matches("robot-*", "robot-7") && !matches("robot-*", "robo"));
    assert!(
        matches("*@ci", "a@ci") && matches("a*z", "az") && !matches("ab*bc", "abc"),
        "no letter counts twice"
    );
    assert!(matches("robot", "robot") && !matches("robot", "robot-1"));
    for bad in ["", "a*b*", "**", "a\n", &"x".repeat(limits::AGENT_BYTES + 1)] {
        assert_eq!(NamePattern::new(bad), None, "{bad:?}");
    }
    for bad in ["", "a//b", "/a", "a/**", "*/x*y*", "a/"] {
        assert_eq!(PathPattern::new(bad), None, "{bad:?}");
    }
    for good in ["*", "a/*/c", "dock-*/x", "a*b/c"] {
        assert!(PathPattern::new(good).is_some(), "{good}");
    }
}

#[test]
fn the_first_rule_that_is_about_all_of_a_claim_decides() {
    let rights = rights(vec![
        rule("lifts", "lift-*", on("aisle/4")),
        deny("closed", on("aisle/4")),
        rule("aisles", "*", on("aisle/*")),
    ]);
    let four = intent(vec![exclusive("aisle/4/left")]);
    assert_eq!(judged(&rights, "lift-1", &four), None);
    assert_eq!(judged(&rights, "robot-1", &four), by(ForbiddenBy::Mode, "closed"));
    assert_eq!(
        judged(&rights, "robot-1", &intent(vec![exclusive("aisle/44")])),
        None,
        "by segments, not letters"
    );
    assert_eq!(judged(&rights, "robot-1", &intent(vec![exclusive("dock")])), by(ForbiddenBy::NoRule, ""));
    let both = intent(vec![exclusive("aisle/5"), exclusive("aisle/4")]);
    let forbidden = rights.judge(&agent("robot-1"), &both, asked()).unwrap_err();
    assert_eq!((forbidden.field.as_str(), &*forbidden.what), ("claims[1]", "aisle/4"));
}

#[test]
fn what_takes_something_that_a_rule_is_about_has_to_be_allowed_by_it_too() {
    let rights = rights(vec![deny("vault", on("map/vault")), rule("map", "*", on("map"))]);
    assert_eq!(judged(&rights, "a", &intent(vec![exclusive("map/floor")])), None);
    assert_eq!(judged(&rights, "a", &intent(vec![exclusive("map")])), by(ForbiddenBy::Mode, "vault"));
    // A region of the frame `map` is beside the path below it.
    assert_eq!(judged(&rights, "a", &intent(vec![region("map")])), None);
    assert_eq!(judged(&rights, "a", &intent(vec![region("map/vault")])), by(ForbiddenBy::Mode, "vault"));
}

#[test]
fn a_rule_of_a_frame_is_about_its_regions_and_about_paths_that_close_it() {
    let rights =
        rights(vec![deny("junction", in_frame("map/junction")), rule("rest", "*", What::Everything)]);
    assert_eq!(
        judged(&rights, "a", &intent(vec![region("map/junction/low")])),
        by(ForbiddenBy::Mode, "junction")
    );
    assert_eq!(judged(&rights, "a", &intent(vec![region("map")])), None);
    for closes in ["map", "map/junction", "map/junction/low"] {
        assert_eq!(judged(&rights, "a", &intent(vec![exclusive(closes)])), by(ForbiddenBy::Mode, "junction"));
    }
    assert_eq!(judged(&rights, "a", &intent(vec![exclusive("map/floor")])), None);
    let alone = self::rights(vec![rule("junction", "*", in_frame("map/junction"))]);
    assert_eq!(judged(&alone, "a", &intent(vec![region("map/junction")])), None);
    assert_eq!(judged(&alone, "a", &intent(vec![exclusive("map/junction")])), by(ForbiddenBy::NoRule, ""));
}

#[test]
fn each_bound_forbids_just_past_its_edge() {
    let bounded = Rule {
        units: Some(5),
        duration: Some(Micros::from_us(500)),
        horizon: Some(Micros::from_us(2_000)),
        modes: Modes { exclusive: false, ..Modes::ALL },
        ..rule("bounded", "*", on("s"))
    };
    let rights = rights(vec![bounded]);
    let of = |claims: Vec<RawClaim>, start: u64| {
        let start = Some(NOW.as_us() + start);
        let raw = RawIntent { id: 1, start, claims, ..RawIntent::default() };
        judged(&rights, "a", &raw.parse().unwrap())
    };
    let units = |count, duration| path("s/sku", RawMode::Units(count), duration);
    assert_eq!(of(vec![units(5, 500)], 0), None);
    assert_eq!(of(vec![units(6, 500)], 0), by(ForbiddenBy::Units, "bounded"));
    assert_eq!(
        of(vec![units(3, 1), units(3, 1)], 0),
        by(ForbiddenBy::Units, "bounded"),
        "of one intent together"
    );
    assert_eq!(of(vec![units(1, 501)], 0), by(ForbiddenBy::Duration, "bounded"));
    assert_eq!(of(vec![units(1, 500)], 1_500), None);
    assert_eq!(of(vec![units(1, 500)], 1_501), by(ForbiddenBy::Horizon, "bounded"));
    assert_eq!(of(vec![exclusive("s")], 0), by(ForbiddenBy::Mode, "bounded"));
    assert_eq!(of(vec![path("s", RawMode::Shared, 500)], 0), None);
}

#[test]
fn units_above_something_take_nothing_of_what_is_there() {
    let rights = rights(vec![
        Rule { units: Some(1), ..rule("one", "*", on("stock/sku-1")) },
        rule("stock", "*", on("stock")),
    ]);
    let units = |at: &str| intent(vec![path(at, RawMode::Units(50), 1)]);
    assert_eq!(judged(&rights, "a", &units("stock")), None);
    assert_eq!(judged(&rights, "a", &units("stock/sku-1")), by(ForbiddenBy::Units, "one"));
}

#[test]
fn an_asap_intent_is_held_against_the_latest_end_that_it_may_take() {
    let rights = rights(vec![Rule { horizon: Some(Micros::from_ms(20)), ..Rule::named("soon") }]);
    let of = |duration: u64, slack: u64| {
        let claims = vec![path("a", RawMode::Shared, duration)];
        judged(&rights, "a", &RawIntent { id: 1, slack, claims, ..RawIntent::default() }.parse().unwrap())
    };
    assert_eq!(of(10_001, 0), None, "it may start just within the next slot");
    assert_eq!(of(10_002, 0), by(ForbiddenBy::Horizon, "soon"));
    assert_eq!(of(10_001, 10_000), by(ForbiddenBy::Horizon, "soon"));
}

#[test]
fn a_reading_that_an_intent_rests_on_is_a_shared_use() {
    let rights = rights(vec![deny("secret", on("db/secret")), rule("db", "*", on("db"))]);
    let resting = |at: &str| {
        let expects = vec![RawExpect { path: at.into(), as_of: 1 }];
        RawIntent { id: 1, claims: vec![exclusive("db/a")], expects, ..RawIntent::default() }.parse().unwrap()
    };
    assert_eq!(judged(&rights, "a", &resting("db/b")), None);
    let forbidden = rights.judge(&agent("a"), &resting("db/secret"), asked()).unwrap_err();
    assert_eq!(forbidden.field, "expects[0]");
}

#[test]
fn the_lowest_caps_of_all_rules_that_were_asked_count_and_name_their_rule() {
    let capped = |class: u64, urgency| Caps::new(Class::new(class), urgency, None, None);
    let rights = rights(vec![
        Rule { caps: capped(5, Some(0.5)), ..rule("low", "*", on("a/low")) },
        Rule { caps: capped(6, None), ..rule("rest", "*", What::Everything) },
    ]);
    let caps = |at: &str| rights.judge(&agent("x"), &intent(vec![exclusive(at)]), asked()).unwrap();
    let high = super::super::priority::Priority::highest();
    let lower = |at: &str| {
        let (lowered, rule) = caps(at).lower(high);
        (lowered.class.number(), lowered.urgency, rule.map(|rule| rule.to_string()))
    };
    assert_eq!(lower("b"), (6, 1.0, Some("rest".into())));
    assert_eq!(lower("a/low/x"), (5, 0.5, Some("low".into())));
    assert_eq!(lower("a"), (5, 0.5, Some("low".into())), "in part");
    let ordinary = super::super::priority::Priority::default();
    assert_eq!(caps("b").lower(ordinary), (ordinary, None), "what asks for less stays");
}

#[test]
fn a_renewal_is_held_against_the_whole_time_and_only_for_claims_that_end_last() {
    let rights = rights(vec![Rule { duration: Some(Micros::from_us(5_000)), ..Rule::named("short") }]);
    let claims = intent(vec![exclusive("a"), path("b", RawMode::Shared, 400)]).claims;
    let start = Time::from_us(NOW.as_us() - 3_000);
    let until = |us: u64| {
        let renewed = (start, Time::from_us(start.as_us() + us));
        rights.judge_renewal(&agent("x"), &claims, renewed, asked()).err().map(|why| (why.by, why.field))
    };
    assert_eq!(until(5_000), None);
    assert_eq!(until(5_001), Some((ForbiddenBy::Duration, "claims[0].duration".into())));
}

#[test]
fn reading_and_administering_need_a_rule_that_says_so_for_all_of_it() {
    let rights = rights(vec![
        rule("vault", "*", on("map/vault")),
        Rule { read: true, administer: true, ..rule("boss", "boss", What::Everything) },
        Rule { read: true, ..rule("map", "*", on("map")) },
    ]);
    let reads = |name: &str, under: Option<&str>| {
        let under = under.map(|text| Path::new(text).unwrap());
        rights.may_read(&agent(name), under.as_ref()).err().map(|why| why.rule.map(|rule| rule.to_string()))
    };
    assert_eq!(reads("a", Some("map/floor")), None);
    assert_eq!(reads("a", Some("map")), Some(Some("vault".into())), "it would show what is below");
    assert_eq!(reads("a", None), Some(Some("vault".into())));
    assert_eq!(reads("a", Some("dock")), Some(None));
    assert_eq!(reads("boss", Some("dock")), None);
    let ends =
        |name: &str, at: &str| rights.may_administer(&agent(name), &intent(vec![exclusive(at)]).claims);
    assert_eq!(ends("boss", "dock").err(), None);
    assert_eq!(ends("boss", "map/vault").unwrap_err().rule.as_deref(), Some("vault"));
    assert!(ends("a", "map/floor").is_err());
    assert!(
        rights.may_administer(&agent("boss"), &[]).is_ok()
            && rights.may_administer(&agent("a"), &[]).is_err()
    );
}

#[test]
fn an_explanation_names_every_rule_that_was_asked() {
    let rights = rights(vec![deny("vault", on("map/vault")), rule("map", "*", on("map"))]);
    let told = rights.explain(&agent("a"), &intent(vec![exclusive("map/floor"), exclusive("map")]), asked());
    let names =
        |judged: &Judged<'_>| judged.rules.iter().map(|rule| rule.name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&told[0]), told[0].forbidden.is_none()), (vec!["map".into()], true));
    assert_eq!((names(&told[1]), told[1].forbidden.is_none()), (vec!["vault".into()], false));
}

proptest! {
    /// What rules allow is exactly what asking each rule in turn, without the order of segments, would.
    #[test]
    fn a_pattern_lies_as_its_segments_do(
        pattern in "(a|b|\\*|a\\*)(/(a|b|\\*|a\\*)){0,3}",
        path in "(a|b|ab)(/(a|b|ab)){0,3}",
    ) {
        let compiled = PathPattern::new(&pattern).unwrap();
        let (globs, segments): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
        let fits = |glob: &str, segment: &str| match glob {
            "*" => true,
            "a*" => segment.starts_with('a'),
            exactly => exactly == segment,
        };
        let is_apart = globs.iter().zip(&segments).any(|(glob, segment)| !fits(glob, segment));
        let expected = match globs.len().cmp(&segments.len()) {
            _ if is_apart => Lies::Apart,
            std::cmp::Ordering::Equal => Lies::Same,
            std::cmp::Ordering::Less => Lies::Below,
            std::cmp::Ordering::Greater => Lies::Above,
        };
        prop_assert_eq!(compiled.lies(&Path::new(&path).unwrap()), expected);
    }
}
