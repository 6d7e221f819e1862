use super::*;
use crate::priority::{Context, PriorityModel};
use crate::types::{Agent, Claim, Class, Intent, IntentId, Micros, Mode, Start, Target, TaskId, Time};

fn parse(text: &str) -> Config {
    Config::parse("test.toml", text).unwrap()
}

fn table(pairs: Vec<(&str, Value)>) -> Value {
    let node = |value| Node { value, span: 0..0 };
    let entry = |(name, value): (&str, Value)| (Key { name: name.to_owned(), span: 0..0 }, node(value));
    Value::Table(Table(pairs.into_iter().map(entry).collect()))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn patch(config: &mut Config, section: &str, keys: Vec<(&str, Value)>) -> Result<RulesChange, Fault> {
    match table(vec![(section, table(keys))]) {
        Value::Table(named) => config.patch(&named),
        _ => unreachable!("it was made a table"),
    }
}

fn urgent(urgency: f64) -> Intent {
    let target = Target::Path(crate::types::Path::new("p").unwrap());
    let claim = Claim { target, mode: Mode::Shared, offset: Micros::ZERO, duration: Micros::from_ms(1) };
    Intent {
        id: IntentId::new(1),
        start: Start::Asap,
        slack: Micros::ZERO,
        wait: Micros::ZERO,
        hold: false,
        task: TaskId::new(0),
        class: Class::default(),
        urgency,
        safety_margin: 1.0,
        social_value: 0.0,
        claims: [claim].into(),
        expects: [].into(),
    }
}

fn score(model: &dyn PriorityModel, intent: &Intent) -> f64 {
    let agent = Agent::new("a").unwrap();
    let (waited, held) = (Micros::from_secs(2), Micros::ZERO);
    let now = Time::ZERO;
    model.score(intent, &Context { agent: &agent, arrival: now, waited, now, earliest: now, held })
}

#[test]
fn an_empty_file_and_the_template_mean_the_defaults() {
    let default = format!("{:?}", (Rules::default(), Limits::default(), Auth::Open));
    for text in ["", TEMPLATE] {
        let config = parse(text);
        assert_eq!(format!("{:?}", (&config.rules, &config.limits, config.auth)), default);
        assert_eq!((config.listen, config.tls, config.state_dir), (daemon::LISTEN, None, None));
    }
}

#[test]
fn what_the_template_leaves_out_is_right_too() {
    let uncommented = TEMPLATE.replace("# [", "[").lines().map(uncomment).collect::<Vec<_>>().join("\n");
    let config = parse(&uncommented);
    assert_eq!(config.rules.patience, Some(Micros::from_secs(5)));
    assert_eq!(config.rules.resources.len(), 2);
    assert_eq!(config.rules.resources[1].max_hold, Some(Micros::from_secs(30)));
    assert!(config.tls.is_some() && config.state_dir.is_some());
}

/// A line of the template without the sign that leaves its key out.
fn uncomment(line: &str) -> &str {
    let key = line.strip_prefix("# ").filter(|rest| rest.split(' ').nth(1) == Some("="));
    key.unwrap_or(line)
}

#[test]
fn each_section_sets_what_it_says() {
    let config = parse(
        "[slot]\nlength = \"1ms\"\nmin_lead = \"2ms\"\nhorizon = \"3h\"\nhistory = \"4m\"\nretention = \"5s\"\n\
         [preemption]\nenabled = true\nfreeze = \"7ms\"\n\
         [priority]\nmodel = \"weighted\"\nurgency = 2\naging = 0.25\nfair_window = \"9s\"\n",
    );
    let rules = &config.rules;
    assert_eq!(rules.length, Micros::from_ms(1));
    assert_eq!(rules.min_lead, Micros::from_ms(2));
    assert_eq!(rules.horizon, Micros::from_secs(3 * 3600));
    assert_eq!(rules.history, Micros::from_secs(4 * 60));
    assert_eq!(rules.retention, Micros::from_secs(5));
    assert_eq!(rules.preemption, Some(Micros::from_ms(7)));
    assert_eq!(rules.fair_window, Micros::from_secs(9));
    assert_eq!(score(&*rules.model, &urgent(0.5)), 2.0 * 0.5 + 0.25 * 2.0);
}

#[test]
fn a_change_replaces_the_keys_it_names_and_builds_on_those_before_it() {
    let mut config = parse("[[resource]]\npath = \"p\"\ncapacity = 3\n[preemption]\nfreeze = \"7ms\"\n");
    let first = patch(&mut config, "slot", vec![("min_lead", text("2ms"))]).unwrap();
    assert_eq!(first.rules.min_lead, Micros::from_ms(2));
    assert!(first.resources.is_none(), "capacities set at run time must stay");
    let second = patch(&mut config, "preemption", vec![("enabled", Value::Flag(true))]).unwrap();
    assert_eq!(second.rules.min_lead, Micros::from_ms(2));
    assert_eq!(second.rules.preemption, Some(Micros::from_ms(7)));
}

#[test]
fn a_change_that_names_the_resources_replaces_them_whole() {
    let mut config = parse("[[resource]]\npath = \"p\"\ncapacity = 3\n");
    let one = Node { value: table(vec![("path", text("q"))]), span: 0..0 };
    let named = Table(vec![(
        Key { name: "resource".to_owned(), span: 0..0 },
        Node { value: Value::List(vec![one]), span: 0..0 },
    )]);
    let resources = config.patch(&named).unwrap().resources.unwrap();
    assert_eq!(resources.iter().map(|resource| resource.path.as_str()).collect::<Vec<_>>(), ["q"]);
    assert_eq!(resources[0].capacity, None);
}

#[test]
fn a_change_that_is_wrong_changes_nothing() {
    let mut config = parse("[slot]\nmin_lead = \"2ms\"\n");
    let before = format!("{config:?}");
    patch(&mut config, "slot", vec![("min_lead", text("3ms")), ("horizon", text("soon"))]).unwrap_err();
    patch(&mut config, "slot", vec![("length", text("11ms"))]).unwrap_err();
    assert_eq!(format!("{config:?}"), before);
    patch(&mut config, "slot", vec![("length", text("10ms"))]).expect("the length it has already");
}

#[test]
fn a_configuration_that_is_shown_means_the_same() {
    let text = "[slot]\nmin_lead = \"2ms\"\n[priority]\nurgency = 1e300\naging = 2\n[tls]\ncert = \"a\\\"\\u0001\"\nkey = \"k\"\n\
        [[resource]]\npath = \"p\"\ncapacity = 3\n[[resource]]\npath = \"q\"\noverlap_ratio = 0.1\n";
    let config = parse(text);
    let shown = config.to_toml();
    let again = parse(&shown);
    assert_eq!(format!("{:?}", (&again.rules, &again.tls)), format!("{:?}", (&config.rules, &config.tls)));
    assert_eq!(again.to_toml(), shown);
    for words in
        ["length = \"10ms\"", "min_lead = \"2ms\"", "connections = 4096", "[[resource]]\npath = \"q\""]
    {
        assert!(shown.contains(words), "{words:?} is not in:\n{shown}");
    }
}
