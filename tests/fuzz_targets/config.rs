//! Configurations, and the expressions in them.

use preclaim::config::{Config, Expression, parse_duration, parse_size, show_duration, show_size};
use preclaim::limits;
use preclaim::priority::{Context, PriorityModel};
use preclaim::types::{Agent, Micros, RawClaim, RawIntent, RawMode, RawTarget, Time};

/// A configuration that is read is shown as one that means the same; one that is not is complained of in
/// words that can be shown.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(span) = parse_duration(text) {
        assert_eq!(parse_duration(&show_duration(span)), Some(span));
    }
    if let Some(bytes) = parse_size(text) {
        assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
    }
    let config = match Config::parse("config", text) {
        Ok(config) => config,
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
            assert!(shown.len() < 2000, "{shown}");
            return;
        }
    };
    let whole = config.to_toml();
    let again = Config::parse("shown", &whole).unwrap_or_else(|error| panic!("{error}\n{whole}"));
    assert_eq!(again.to_toml(), whole);
    assert_eq!(values(&again), values(&config));
    let rules = config.rules_document();
    let again = Config::parse("rules", &rules).unwrap_or_else(|error| panic!("{error}\n{rules}"));
    assert_eq!(format!("{:?}", again.rules), format!("{:?}", config.rules));
    assert_eq!(again.rules_document(), rules);
}

/// What a configuration says, whatever it was read from.
fn values(config: &Config) -> String {
    let Config { rules, frames, listen, metrics, tls, auth, state, limits, host, .. } = config;
    format!("{rules:?} {frames:?} {listen:?} {metrics:?} {tls:?} {auth:?} {state:?} {limits:?} {host:?}")
}

/// An expression gives one score, a bracket around it changes nothing, and what is wrong with one that is
/// refused stands where it is said to stand.
pub(crate) fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let model = match Expression::parse(text) {
        Ok(model) => model,
        Err(error) => {
            assert!(error.line() >= 1 && error.line() <= text.lines().count().max(1) + 1, "{error}");
            let shown = error.to_string();
            assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
            return;
        }
    };
    assert_eq!(model.source(), text);
    // A line of its own for the second bracket: a comment may stand at the end.
    let within = format!("({text}\n)");
    let (bytes, depth) = (within.len(), nesting(&within));
    let bracketed = match Expression::parse(&within) {
        Ok(bracketed) => bracketed,
        Err(_) if bytes > limits::EXPRESSION_BYTES || depth > limits::EXPRESSION_NESTING => return,
        Err(error) => panic!("{within}: {error}"),
    };
    let agent = Agent::new("a").unwrap();
    let context = Context {
        agent: &agent,
        arrival: Time::ZERO,
        waited: Micros::ZERO,
        now: Time::ZERO,
        earliest: Time::ZERO,
        held: Micros::ZERO,
    };
    for intent in intents() {
        let intent = intent.parse().unwrap();
        for span in [0, 1, 1_500_000, u64::MAX] {
            let span = Micros::from_us(span);
            let context = Context { waited: span, held: span, ..context };
            let score = model.score(&intent, &context);
            assert_eq!(score.to_bits(), model.score(&intent, &context).to_bits());
            assert_eq!(score.is_nan(), bracketed.score(&intent, &context).is_nan());
            assert!(score.is_nan() || score == bracketed.score(&intent, &context));
        }
    }
}

fn nesting(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn intents() -> [RawIntent; 2] {
    let claim = |duration| RawClaim {
        target: RawTarget::Path("a".into()),
        mode: RawMode::Exclusive,
        offset: 0,
        duration,
    };
    let plain = RawIntent { id: 1, claims: vec![claim(1000)], ..RawIntent::default() };
    let most = RawIntent {
        id: 2,
        slack: u64::MAX,
        class: 7,
        urgency: 1.0,
        safety_margin: 1.0,
        social_value: 1.0,
        claims: vec![claim(7); limits::CLAIMS],
        ..RawIntent::default()
    };
    [plain, most]
}
