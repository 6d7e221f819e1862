//! Priority models in the resolver: what comes before the score and after it, what `fair` has summed
//! up, and what docs/PRIORITY.md says about all of it.

use std::sync::Arc;

use preclaim::priority::{Context, Fair, Fifo, PriorityModel};
use preclaim::resolver::{AgentOp, Input, Resolver, Rules, SlotBatch, SlotOutcome};
use preclaim::types::{
    Agent, Claim, Class, Intent, IntentId, Micros, Mode, Path, Slot, Start, Target, TaskId, Time, Verdict,
};

/// The score is the urgency, where it is below 1; then NaN, +infinity and -infinity by the margin.
#[derive(Debug)]
struct Odd;

impl PriorityModel for Odd {
    fn score(&self, intent: &Intent, _: &Context<'_>) -> f64 {
        match (intent.urgency < 1.0, intent.safety_margin) {
            (true, _) => -intent.urgency,
            (false, 0.0) => f64::NAN,
            (false, 1.0) => f64::INFINITY,
            (false, _) => f64::NEG_INFINITY,
        }
    }
}

fn rules(model: impl PriorityModel + 'static) -> Rules {
    Rules { model: Arc::new(model), ..Rules::default() }
}

/// Asks for `path` for 1 s, somewhere within the next minute.
fn ask(path: &str) -> Intent {
    let claim = Claim {
        target: Target::Path(Path::new(path).expect("the path is well formed")),
        mode: Mode::Exclusive,
        offset: Micros::ZERO,
        duration: Micros::from_secs(1),
    };
    Intent {
        id: IntentId::new(1),
        start: Start::Asap,
        slack: Micros::from_secs(60),
        wait: Micros::ZERO,
        hold: false,
        task: TaskId::new(0),
        class: Class::default(),
        urgency: 0.0,
        safety_margin: 0.0,
        social_value: 0.0,
        claims: [claim].into(),
        expects: [].into(),
    }
}

/// Decides the slot that begins at `opens`, with these declarations in their order.
fn decide(resolver: &mut Resolver, opens: Micros, asked: &[(&str, Intent)]) -> SlotOutcome {
    let length = resolver.rules().length;
    let at = Time::ZERO.after(opens);
    while let Some(due) = resolver.next_due()
        && due < Slot::of(at, length)
    {
        resolver.resolve(&SlotBatch::empty(due));
    }
    let input = |(agent, intent): &(&str, Intent)| Input::Agent {
        at,
        agent: Agent::new(agent).expect("the name is short"),
        op: AgentOp::Declare(intent.clone()),
    };
    let inputs = asked.iter().map(input).collect();
    let batch = SlotBatch::new(Slot::of(at, length), length, inputs).expect("all arrive as it opens");
    resolver.resolve(&batch)
}

/// Who was granted, in the order of their starts.
fn order(outcome: &SlotOutcome) -> Vec<String> {
    let granted = |decision: &preclaim::types::Decision| match decision.verdict {
        Verdict::Granted { start, .. } => Some((start, decision.key.agent.to_string())),
        _ => None,
    };
    let mut granted: Vec<_> = outcome.decisions.iter().filter_map(granted).collect();
    granted.sort();
    granted.into_iter().map(|(_, agent)| agent).collect()
}

#[test]
fn the_class_comes_before_the_score_and_arrival_after_it() {
    let mut resolver = Resolver::new(rules(Odd));
    let class = Class::new(1).unwrap();
    let asked = [
        ("late", Intent { urgency: 0.5, ..ask("p") }),
        ("first", Intent { urgency: 0.25, ..ask("p") }),
        ("second", Intent { urgency: 0.25, ..ask("p") }),
        ("high", Intent { urgency: 0.75, class, ..ask("p") }),
    ];
    let outcome = decide(&mut resolver, Micros::ZERO, &asked);
    assert_eq!(order(&outcome), ["high", "first", "second", "late"]);
    assert_eq!(outcome.scores_not_finite, 0);
}

#[test]
fn scores_that_are_not_finite_rank_lowest_by_arrival_and_are_counted() {
    let mut resolver = Resolver::new(rules(Odd));
    let odd = |safety_margin| Intent { urgency: 1.0, safety_margin, ..ask("p") };
    let asked = [
        ("infinite", odd(1.0)),
        ("nan", odd(0.0)),
        ("minus", odd(0.5)),
        ("finite", Intent { urgency: 0.9, ..ask("p") }),
    ];
    let outcome = decide(&mut resolver, Micros::ZERO, &asked);
    assert_eq!(order(&outcome), ["finite", "infinite", "nan", "minus"]);
    assert_eq!(outcome.scores_not_finite, 3);
}

#[test]
fn under_fair_who_held_less_lately_goes_first_and_what_is_long_past_counts_for_nothing() {
    let mut resolver = Resolver::new(rules(Fair));
    decide(&mut resolver, Micros::ZERO, &[("greedy", ask("elsewhere"))]);
    let again = |id| Intent { id: IntentId::new(id), ..ask("p") };
    let soon = Micros::from_secs(30);
    let outcome = decide(&mut resolver, soon, &[("greedy", again(2)), ("modest", again(2))]);
    assert_eq!(order(&outcome), ["modest", "greedy"]);

    // By then a minute has passed since both held, so arrival decides.
    let later = Micros::from_secs(120);
    let outcome = decide(&mut resolver, later, &[("greedy", again(3)), ("modest", again(3))]);
    assert_eq!(order(&outcome), ["greedy", "modest"]);
}

#[test]
fn under_fifo_arrival_decides() {
    let mut resolver = Resolver::new(rules(Fifo));
    let asked = [("a", ask("p")), ("b", Intent { urgency: 1.0, ..ask("p") })];
    assert_eq!(order(&decide(&mut resolver, Micros::ZERO, &asked)), ["a", "b"]);
}

#[cfg(feature = "daemon")]
mod page {
    use preclaim::config::{Config, VARIABLES};
    use preclaim::limits;

    const PAGE: &str = include_str!("../docs/PRIORITY.md");

    fn blocks(language: &str) -> Vec<&'static str> {
        let start = format!("```{language}\n");
        PAGE.split(&start).skip(1).filter_map(|rest| rest.split("```").next()).collect()
    }

    #[test]
    fn each_configuration_on_the_page_is_right() {
        assert_eq!(blocks("toml").len(), 4);
        for block in blocks("toml") {
            Config::parse("page", block).unwrap();
        }
    }

    #[test]
    fn the_error_on_the_page_is_what_is_told() {
        let text = "[priority]\nmodel = \"expression\"\nexpression = \"urgency + waitd\"\n";
        let error = Config::parse("preclaim.toml", text).unwrap_err();
        assert_eq!(blocks("text"), [format!("{error}\n")]);
    }

    #[test]
    fn the_variables_and_limits_on_the_page_are_those_of_the_code() {
        for (name, kind, meaning) in VARIABLES {
            let row = format!("| `{name}` | {kind} | {meaning} |\n");
            assert!(PAGE.contains(&row), "{row}");
        }
        let [bytes, nesting, operators] =
            [limits::EXPRESSION_BYTES, limits::EXPRESSION_NESTING, limits::EXPRESSION_OPERATORS];
        let said =
            format!("At most {bytes} bytes, {nesting} brackets in each other, and {operators} operators.");
        assert!(PAGE.contains(&said), "{said}");
    }

    #[test]
    fn the_changes_on_the_page_are_taken_in_a_trace() {
        let mut out = Vec::new();
        let trace = blocks("json").concat();
        preclaim::trace::resolve(Config::default(), None, trace.as_bytes(), &mut out).unwrap();
        assert!(out.is_empty(), "a change of the rules is answered with nothing");
    }
}
