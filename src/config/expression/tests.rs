//! The language: what it gives, what it refuses and where, and that it is CEL.

use std::sync::Arc;

use cel::common::types::{CelDouble, CelInt};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use proptest::prelude::*;

use super::term::Inputs;
use super::{Expression, ExpressionError, VARIABLES};
use crate::limits;
use crate::priority::{PriorityModel, conformance, rank};
use crate::types::{Agent, Claim, Class, Intent, IntentId, Micros, Mode, Path, Start, Target, TaskId, Time};

/// urgency 0.5, safety_margin 0.25, social_value 0.75, waited 1.5 s, class 3, slack 2 s, 4 claims,
/// held 0.5 s.
fn score(source: &str) -> f64 {
    let claim = Claim {
        target: Target::Path(Path::new("dock/3").unwrap()),
        mode: Mode::Shared,
        offset: Micros::ZERO,
        duration: Micros::from_ms(20),
    };
    let intent = Intent {
        id: IntentId::new(1),
        start: Start::Asap,
        slack: Micros::from_secs(2),
        wait: Micros::from_secs(60),
        hold: false,
        task: TaskId::new(0),
        class: Class::new(3).unwrap(),
        urgency: 0.5,
        safety_margin: 0.25,
        social_value: 0.75,
        claims: vec![claim; 4].into(),
        expects: Vec::new().into(),
    };
    let now = Time::from_us(9_000_000);
    let waited = Micros::from_ms(1500);
    let context = crate::priority::Context {
        agent: &Agent::new("car-7").unwrap(),
        arrival: now.before(waited),
        waited,
        now,
        earliest: now,
        held: Micros::from_ms(500),
    };
    Expression::parse(source).unwrap().score(&intent, &context)
}

fn refused(source: &str) -> ExpressionError {
    Expression::parse(source).expect_err(source)
}

/// The message, without the excerpt below it, and where it points.
fn told(source: &str) -> (usize, usize, String) {
    let error = refused(source);
    let message = error.to_string();
    let first = message.lines().next().unwrap_or_default();
    let place = format!("line {}, column {}: ", error.line(), error.column());
    (error.line(), error.column(), first.strip_prefix(&place).unwrap_or(first).to_owned())
}

#[test]
fn each_variable_stands_for_its_value_in_its_unit() {
    let values = [0.5, 0.25, 0.75, 1.5, 3.0, 2.0, 4.0, 0.5];
    for ((name, _, _), value) in VARIABLES.iter().zip(values) {
        assert_eq!(score(name), value, "{name}");
    }
}

#[test]
fn each_variable_has_the_type_that_its_table_says() {
    for (name, kind, _) in VARIABLES {
        // The remainder takes ints only.
        let is_int = Expression::parse(&format!("{name} % 2")).is_ok();
        assert_eq!(kind, if is_int { "int" } else { "double" }, "{name}");
    }
}

#[test]
fn arithmetic_and_conditions_are_worked_out() {
    let cases = [
        ("urgency + 0.1 * waited - 0.01 * held", 0.5 + 0.1 * 1.5 - 0.01 * 0.5),
        ("1.0 - safety_margin", 0.75),
        ("(urgency + social_value) * 2.0", 2.5),
        ("-urgency", -0.5),
        ("waited > 1.0 ? 10.0 : 20.0", 10.0),
        ("waited > 1.0 && class < 3 ? 10 : 20", 20.0),
        ("waited > 1.0 || class < 3 ? 10 : 20", 10.0),
        ("!(class == 3) ? 10 : 20", 20.0),
        ("class != 3 == false ? 10 : 20", 10.0),
        ("class >= 3 && class <= 3 ? 1 : 0", 1.0),
        ("claims % 3", 1.0),
        ("int(waited)", 1.0),
        ("int(-1.5)", -1.0),
        ("double(claims) / 3.0", 4.0 / 3.0),
        ("0x10", 16.0),
        ("1e-3", 0.001),
        ("(true ? true : false) != false ? 1 : 0", 1.0),
        ("urgency // how urgent it is, ñ\n  * 2.0 // twice", 1.0),
    ];
    for (source, value) in cases {
        assert_eq!(score(source), value, "{source}");
    }
}

#[test]
fn where_an_int_and_a_double_meet_the_int_is_taken_as_a_double() {
    assert_eq!(score("1 - safety_margin"), 0.75);
    assert_eq!(score("claims * urgency"), 2.0);
    assert_eq!(score("class > 2.5 ? 1 : 0.5"), 1.0);
    assert_eq!(score("urgency == 1 ? 1 : claims / 8.0"), 0.5);
}

#[test]
fn ints_alone_stay_ints_and_divide_towards_zero_as_in_cel() {
    assert_eq!(score("claims / 3"), 1.0);
    assert_eq!(score("-7 / 2"), -3.0);
    assert_eq!(score("claims / 3 * 1.5"), 1.5);
}

#[test]
fn what_has_no_value_is_not_a_number_and_ranks_lowest() {
    let cases = [
        "10 / (class - 3)",
        "claims % (class - 3)",
        "class == 3 ? 9223372036854775807 + claims : 0",
        "class == 3 ? int(1e30 * waited) : 0",
        "class == 3 ? -(-9223372036854775807 - 1) : 0",
        "class == 3 ? (0.0 / (waited - 1.5) < 1.0 ? 1 : 0) : 0",
    ];
    for source in cases {
        let score = score(source);
        assert!(score.is_nan() && rank(score).1, "{source} gave {score}");
    }
    assert_eq!(score("1.0 / (urgency - 0.5)"), f64::INFINITY, "doubles divide as binary64 does");
}

#[test]
fn a_decided_and_or_or_passes_over_an_operand_without_a_value() {
    assert_eq!(score("class == 3 || 1 / (class - 3) > 0 ? 1 : 0"), 1.0);
    assert_eq!(score("1 / (class - 3) > 0 || class == 3 ? 1 : 0"), 1.0);
    assert_eq!(score("1 / (class - 3) > 0 && class != 3 ? 1 : 0"), 0.0);
    assert!(score("1 / (class - 3) > 0 && class == 3 ? 1 : 0").is_nan());
}

#[test]
fn a_score_that_is_finite_on_no_sample_is_refused() {
    for (source, why) in [
        ("1 / 0", "a division by zero"),
        ("9223372036854775807 + claims", "an int beyond 64 bits"),
        ("0.0 / 0.0 < 1.0 ? 1 : 2", "a comparison with what is not a number"),
        ("urgency / 0.0", "infinite, or not a number"),
        ("1e308 * 10", "infinite, or not a number"),
    ] {
        let error = refused(source);
        assert!(error.to_string().contains(why), "{source}: {error}");
    }
}

#[test]
fn bad_syntax_is_told_at_its_character() {
    let ends = "it ends where something must follow";
    let cases = [
        ("urgency +* waited", 1, 10, "`*` may not stand here"),
        ("urgency +", 1, 10, ends),
        ("urgency\n  + \n", 3, 1, ends),
        ("urgency waited", 1, 9, "`waited` may not stand here"),
        ("class > 3 ? 1", 1, 14, ends),
        ("1.5.2", 1, 4, "`.` may not stand here"),
        ("1 = 2", 1, 3, "`=` may not stand here"),
        ("urgency $ 2", 1, 9, "`$` may not stand here"),
        ("if", 1, 1, "reserved identifier: if"),
        ("99999999999999999999", 1, 1, "invalid int literal"),
        ("urgency\n+ waited\n+ * 2", 3, 3, "`*` may not stand here"),
        ("", 1, 1, "it is empty"),
        (" \n// nothing", 1, 1, "it is empty"),
    ];
    for (source, line, column, message) in cases {
        assert_eq!(told(source), (line, column, message.to_owned()), "{source:?}");
    }
}

#[test]
fn brackets_that_do_not_pair_are_told_before_the_parser_sees_them() {
    assert_eq!(told("2 * (urgency"), (1, 5, "this bracket is never closed".into()));
    assert_eq!(told("urgency)"), (1, 8, "`)` closes nothing".into()));
    assert_eq!(told("(urgency]"), (1, 9, "`]` does not close `(`".into()));
}

#[test]
fn what_has_no_place_in_a_score_is_told_at_its_character() {
    let no_place =
        "only numbers, true and false, variables, operators, int() and double() have a place in a score";
    for (source, column) in [
        ("[urgency]", 1),
        ("{1: 2}", 1),
        ("urgency in [1.0]", 9),
        ("[1][0]", 4),
        ("urgency.x", 8),
        ("null", 1),
        ("[1, 2].map(x, x)", 11),
        ("optional.of(1)", 12),
        ("Score{}", 6),
    ] {
        assert_eq!(told(source), (1, column, no_place.to_owned()), "{source}");
    }
    assert_eq!(told("size('abc')"), (1, 6, "a text has no place in a score".into()));
    assert_eq!(told("urgency + é"), (1, 11, "`é` may not stand here".into()));
    assert_eq!(told("urgency +\u{7}1"), (1, 10, "`\\u{7}` may not stand here".into()));
    assert_eq!(told("2u"), (1, 1, "unsigned numbers have no place in a score; leave the `u` away".into()));
}

#[test]
fn a_wrong_type_is_told_at_the_operand() {
    let not_number = "found a bool where a number must stand; `it ? 1 : 0` makes one";
    let not_bool = "found a number where a bool must stand, such as `class > 0`";
    let cases = [
        ("waited > 5.0", 8, not_number),
        ("urgency + (waited > 5.0)", 19, not_number),
        ("-true", 2, not_number),
        ("int(true)", 5, not_number),
        ("true < false ? 1 : 0", 1, not_number),
        ("urgency ? 1 : 0", 1, not_bool),
        ("!claims ? 1 : 0", 2, not_bool),
        ("class > 1 && claims ? 1 : 0", 14, not_bool),
        ("waited % 2", 1, "found a double where an int must stand; int() makes one"),
        ("true ? 1 : false", 12, "found a bool beside a number"),
        ("true ? true : claims", 15, "found a number beside a bool"),
    ];
    for (source, column, message) in cases {
        assert_eq!(told(source), (1, column, message.to_owned()), "{source}");
    }
}

#[test]
fn an_unknown_name_is_told_with_the_nearest_known_one() {
    let near = |source: &str| (told(source), refused(source).nearest().map(str::to_owned));
    assert_eq!(
        near("urgancy * 2.0"),
        ((1, 1, "there is no variable `urgancy`".into()), Some("urgency".into()))
    );
    assert_eq!(near("1.0 * safetymargin").1, Some("safety_margin".into()));
    assert_eq!(near("1.0 + zzz"), ((1, 7, "there is no variable `zzz`".into()), None));
    assert_eq!(
        near("1 + doubel (claims)"),
        ((1, 5, "there is no function `doubel`".into()), Some("double".into()))
    );
    for source in ["now()", "timestamp(1)", "random()", "size(1)", "max(1, 2)", "has(a.b)", "matches(1)"] {
        assert!(told(source).2.starts_with("there is no function"), "{source}");
    }
    assert_eq!(told("int(1, 2)"), (1, 4, "int() takes one number".into()));
}

#[test]
fn an_error_shows_its_line_with_a_mark_below_the_character() {
    let error = refused("urgency\n\t+ urgancy // ñ").to_string();
    let expected = "line 2, column 4: there is no variable `urgancy`\n     + urgancy // ñ\n       ^";
    assert_eq!(error, expected);
}

#[test]
fn of_a_long_line_an_error_shows_what_is_around_the_character() {
    let source = format!("urgency{} + wrong", " + 1".repeat(100));
    let error = refused(&source).to_string();
    let lines: Vec<&str> = error.lines().collect();
    let [_, shown, mark] = lines.as_slice() else { panic!("{error}") };
    let at = mark.find('^').unwrap();
    assert!(shown.len() < 80 && shown[at..].starts_with("wrong"), "{error}");
}

#[test]
fn an_expression_is_as_long_as_its_limit_and_no_longer() {
    let long = |bytes: usize| format!("urgency{}", " ".repeat(bytes - 7));
    assert!(Expression::parse(&long(limits::EXPRESSION_BYTES)).is_ok());
    let error = refused(&long(limits::EXPRESSION_BYTES + 1));
    assert_eq!(error.to_string(), "it has 1025 bytes; at most 1024 may be");
}

#[test]
fn brackets_are_as_deep_as_their_limit_and_no_deeper() {
    let deep = |open: &str, levels: usize| format!("{}claims{}", open.repeat(levels), ")".repeat(levels));
    for open in ["(", "int(", "-(", "1+("] {
        assert!(Expression::parse(&deep(open, limits::EXPRESSION_NESTING)).is_ok(), "{open}");
        let error = refused(&deep(open, limits::EXPRESSION_NESTING + 1));
        assert!(error.to_string().contains("nested too deeply: at most 16"), "{error}");
        assert_eq!(error.column(), open.len() * (limits::EXPRESSION_NESTING + 1), "at the first too many");
    }
}

#[test]
fn operators_are_as_many_as_their_limit_and_no_more() {
    let most = limits::EXPRESSION_OPERATORS;
    let many: [&dyn Fn(usize) -> String; 6] = [
        &|count| format!("1{}", "+1".repeat(count)),
        &|count| format!("{}claims", "-".repeat(count)),
        &|count| format!("{}true?1:0", "!".repeat(count - 1)),
        &|count| format!("{}1", "true?1:".repeat(count)),
        &|count| format!("true{}?1:0", "&&true".repeat(count - 1)),
        &|count| format!("1.5{}", "*1.5".repeat(count)),
    ];
    for source in many {
        assert!(Expression::parse(&source(most)).is_ok(), "{}", source(most));
        let error = refused(&source(most + 1));
        assert!(error.to_string().contains("too many operators: at most 128"), "{error}");
    }
}

#[test]
fn the_deepest_and_longest_that_the_limits_let_through_overflows_no_stack() {
    // Brackets and operators at once, conditionals in conditionals in each of their places, and the
    // chains that are no operators; small stacks belong to the callers, not to the parser.
    let (open, close) = ("(".repeat(limits::EXPRESSION_NESTING), ")".repeat(limits::EXPRESSION_NESTING));
    let nested = |before: &str, after: &str| {
        let levels = limits::EXPRESSION_NESTING;
        format!("{}1{}", before.repeat(levels), after.repeat(levels))
    };
    let sources = [
        format!("1{}*{open}{}claims{close}", "+1".repeat(60), "-".repeat(60)),
        nested("(true?", ":0)"),
        nested("((claims>0?1:2)<", ")?1:0").replace("((claims>0?1:2)<", "("),
        nested("a[", "]"),
        nested("f(", ")"),
        nested("[{1:", "}]").chars().take(1024).collect(),
        format!("a{}", ".a".repeat(500)),
        format!("1{}", " in 1".repeat(200)),
        format!("a{}", "{}".repeat(500)),
        format!("a{}", "()".repeat(500)),
        format!("a{}", "[1]".repeat(300)),
        format!("[{}]", "1,".repeat(500)),
        "1 ".repeat(512),
        "((((".repeat(4),
        "$".repeat(1024),
        "?:".repeat(64),
    ];
    let work = move || sources.iter().filter(|source| Expression::parse(source).is_ok()).count();
    let caller = std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap();
    assert_eq!(caller.join().unwrap(), 2);
}

#[test]
fn expressions_conform() {
    for source in ["urgency", "1", "urgency + 0.1 * waited - 0.01 * held", "class > 3 ? claims : -claims"] {
        conformance::check(|| Expression::parse(source).unwrap()).unwrap();
    }
}

#[test]
fn an_expression_of_the_default_weights_gives_the_bits_of_weighted() {
    let source = "((0.5 * urgency + 0.3 * (1.0 - safety_margin)) + 0.2 * social_value) + 0.1 * waited";
    let weighted = (0.5 * 0.5 + 0.3 * (1.0 - 0.25) + 0.2 * 0.75) + 0.1 * 1.5;
    assert_eq!(score(source).to_bits(), f64::to_bits(weighted));
}

impl VariableResolver for Inputs {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let double = |value: f64| Some(CowVal::owned(CelDouble::from(value)));
        let int = |value: i64| Some(CowVal::owned(CelInt::from(value)));
        match name {
            "urgency" => double(self.urgency),
            "safety_margin" => double(self.safety_margin),
            "social_value" => double(self.social_value),
            "waited" => double(self.waited),
            "class" => int(self.class),
            "slack" => double(self.slack),
            "claims" => int(self.claims),
            "held" => double(self.held),
            _ => None,
        }
    }
}

/// The value by the crate's own evaluator; `None` where it has none.
fn by_the_crate(source: &str, inputs: &Inputs) -> Option<f64> {
    let env = Arc::new(cel::Env::default().with_optional_support(false).with_stdlib());
    let program = env.compile(source).expect(source);
    let mut context = cel::Context::with_env(env);
    context.set_variable_resolver(inputs);
    match program.execute(&context) {
        Ok(cel::Value::Float(value)) => Some(value),
        Ok(cel::Value::Int(value)) => Some(value as f64),
        Ok(other) => panic!("{source} gave {other:?}"),
        Err(_) => None,
    }
}

fn ints() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        (-3i64..4).prop_map(|value| value.to_string()),
        Just("class".to_owned()),
        Just("claims".to_owned()),
        Just("9223372036854775807".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
        prop_oneof![
            4 => (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => inner.clone().prop_map(|a| format!("(-({a}))")),
            1 => (comparison(inner.clone()), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
            1 => inner.prop_map(|a| format!("int(double({a}) * 1.5)")),
        ]
    })
    .boxed()
}

fn doubles() -> BoxedStrategy<String> {
    let names = VARIABLES.iter().filter(|(_, kind, _)| *kind == "double").map(|(name, _, _)| *name);
    let leaf = prop_oneof![
        (-2i32..3).prop_map(|value| format!("{:?}", f64::from(value) / 2.0)),
        prop::sample::select(names.collect::<Vec<_>>()).prop_map(str::to_owned),
        ints().prop_map(|term| format!("double({term})")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/"]);
        prop_oneof![
            4 => (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => inner.clone().prop_map(|a| format!("(-({a}))")),
            1 => (comparison(inner.clone()), inner.clone(), inner)
                .prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        ]
    })
    .boxed()
}

fn comparison(numbers: impl Strategy<Value = String> + Clone + 'static) -> BoxedStrategy<String> {
    let operator = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = (numbers.clone(), operator, numbers).prop_map(|(a, op, b)| format!("({a} {op} {b})"));
    leaf.prop_recursive(2, 4, 2, |inner| {
        let logic = prop::sample::select(vec!["&&", "||", "==", "!="]);
        prop_oneof![
            3 => (inner.clone(), logic, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => inner.prop_map(|a| format!("(!{a})")),
        ]
    })
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_score_has_the_bits_that_the_crate_gives_where_the_crate_takes_the_types(
        source in prop_oneof![ints(), doubles()],
        at in 0..Inputs::SAMPLES.len(),
    ) {
        let inputs = &Inputs::SAMPLES[at];
        let Ok(text) = super::scan::scan(&source) else { return Ok(()) };
        let both = super::on_own_stack(|| {
            let ours = super::lower::lower(&text, &super::parse(&text)?)?.value(inputs).ok();
            Ok((ours, by_the_crate(&text, inputs)))
        });
        let (ours, theirs) = both.expect("what is generated is well typed CEL");
        let bits = |value: Option<f64>| value.map(|value| if value.is_nan() { 0x7ff8 << 48 } else { value.to_bits() });
        prop_assert_eq!(bits(ours), bits(theirs), "{}: {:?}, and the crate {:?}", source, ours, theirs);
    }

    #[test]
    fn no_text_makes_it_panic_or_hang(
        source in prop_oneof![
            "\\PC{0,60}",
            "[-+*/%?:!<>=&|.()0-9a-z \\n]{0,60}",
            prop::collection::vec(prop::sample::select(vec![
                "urgency", "claims", "1", "2.5", "true", "+", "-", "*", "/", "%", "(", ")", "?", ":", "&&",
                "||", "!", "<", "==", " in ", "[", "]", "{", "}", ".", ",", "int(", "//", "\n", "'", "u",
            ]), 0..40).prop_map(|words| words.concat()),
        ],
    ) {
        if let Err(error) = Expression::parse(&source) {
            prop_assert!(error.line() >= 1 && error.column() >= 1 && !error.to_string().is_empty());
        }
    }
}
