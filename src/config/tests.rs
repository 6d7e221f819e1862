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
    let default = format!("{:?}", (Rules::default(), Limits::default(), Auth::default()));
    for text in ["", TEMPLATE] {
        let config = parse(text);
        assert_eq!(format!("{:?}", (&config.rules, &config.limits, &config.auth)), default);
        assert_eq!((config.listen, config.tls, config.state), (daemon::LISTEN, None, None));
        assert_eq!(config.drain_within, bounds::DRAIN_WITHIN);
    }
}

#[test]
fn what_the_template_leaves_out_is_right_too() {
    let uncommented = TEMPLATE.replace("# [", "[").lines().map(uncomment).collect::<Vec<_>>().join("\n");
    let config = parse(&uncommented);
    assert_eq!(config.rules.patience, Some(Micros::from_secs(5)));
    assert_eq!(config.rules.resources.len(), 2);
    assert_eq!(config.rules.resources[1].max_hold, Some(Micros::from_secs(30)));
    assert_eq!(config.frames[0].1.max_speed_um_s, Some(20_000_000));
    assert!(config.tls.is_some() && config.state.is_some());
    assert_eq!((config.host.realtime, &config.host.cores[..]), (Some(10), &[1][..]));
}

#[test]
fn the_host_section_asks_for_nothing_that_it_does_not_say() {
    assert_eq!(parse("[host]\n").host, HostConfig::default());
    let text = "[host]\nrealtime = 98\nlock_memory = true\ncores = [1, 0]\nnetwork_cores = [3]\n";
    let config = parse(text);
    let asked =
        HostConfig { realtime: Some(98), lock_memory: true, cores: vec![1, 0], network_cores: vec![3] };
    assert_eq!(config.host, asked);
    assert_eq!(parse(&config.to_toml()).host, asked, "{}", config.to_toml());
    assert_eq!(parse("[host]\nrealtime = 2").host.realtime, Some(2));
    for (wrong, says) in [
        ("realtime = 1", "a whole number from 2 to 98"),
        ("realtime = 99", "a whole number from 2 to 98"),
        ("realtime = \"fifo\"", "a whole number from 2 to 98"),
        ("lock_memory = 1", "true or false"),
        ("cores = []", "left out for any core"),
        ("cores = 1", "such as [0, 1]"),
        ("cores = [1024]", "a whole number from 0 to 1023"),
        ("network_cores = [\"0\"]", "a whole number from 0 to 1023"),
        ("core = [1]", "nearest cores"),
    ] {
        let error = Config::parse("c.toml", &format!("[host]\n{wrong}")).unwrap_err().to_string();
        assert!(error.contains("c.toml, line 2") && error.contains(says), "{error}");
    }
}

#[test]
fn what_the_log_keeps_of_texts_is_said_with_the_key_that_it_takes() {
    let state = |text: &str| Config::parse("c.toml", &format!("[state]\ndir = \"d\"\n{text}"));
    let text = |text: &str| state(text).unwrap().state.unwrap().text;
    assert_eq!(
        (text(""), text("text = \"keep\""), text("text = \"omit\"")),
        (TextConfig::Keep, TextConfig::Keep, TextConfig::Omit)
    );
    assert_eq!(text("text = \"hash\"\ntext_key = \"k\""), TextConfig::Hash { key: "k".into() });
    for (wrong, says) in [
        ("text = \"hash\"", "text_key"),
        ("text = \"sha\"", "hash"),
        ("text_key = \"k\"", "`text` is not \"hash\""),
        ("text = \"omit\"\ntext_key = \"k\"", "`text` is not \"hash\""),
        ("text = \"hash\"\ntext_key = \"\"", "text_key"),
    ] {
        let error = state(wrong).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_state_section_says_where_how_durable_and_for_how_long() {
    let state = |text: &str| parse(&format!("[state]\ndir = \"d\"\n{text}")).state.unwrap();
    let plain = state("");
    assert_eq!((plain.durability, plain.keep_for, plain.keep_bytes), (Durability::Slot, None, None));
    assert_eq!((plain.segment_bytes, plain.compress), (64 << 20, true));
    let interval = state("durability = \"interval\"");
    assert_eq!(interval.durability, Durability::Interval(Micros::from_ms(50)));
    let interval = state("durability = \"interval\"\ninterval = \"2ms\"");
    assert_eq!(interval.durability, Durability::Interval(Micros::from_ms(2)));
    let full =
        state("durability = \"none\"\nsegment_size = \"1MiB\"\nkeep_for = \"1h\"\nkeep_size = \"2GiB\"");
    assert_eq!((full.durability, full.segment_bytes), (Durability::None, 1 << 20));
    assert_eq!((full.keep_for, full.keep_bytes), (Some(Micros::from_secs(3600)), Some(2 << 30)));
    for (text, line) in
        [("", 1), ("dir = \"d\"\nsegment_size = \"1B\"", 3), ("dir = \"d\"\ndurability = \"off\"", 3)]
    {
        let error = Config::parse("c.toml", &format!("[state]\n{text}")).unwrap_err().to_string();
        assert!(error.contains(&format!("c.toml, line {line}")), "{error}");
    }
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

fn wrong(text: &str) -> String {
    Config::parse("test.toml", text).unwrap_err().to_string()
}

#[test]
fn the_room_of_a_slot_and_of_an_agent_in_it_is_set_within_its_bounds() {
    let limits = |text: &str| parse(&format!("[limits]\n{text}\n")).limits;
    let plain = limits("");
    assert_eq!((plain.slot_inputs, plain.slot_inputs_per_agent), (4096, 1024));
    let set = limits("slot_inputs = 1\nslot_inputs_per_agent = 1000000");
    assert_eq!((set.slot_inputs, set.slot_inputs_per_agent), (1, 1_000_000));
    for (text, says) in [
        ("slot_inputs = 0", "line 2: field `limits.slot_inputs`: found 0"),
        ("slot_inputs_per_agent = 0", "a whole number from 1 to 1000000"),
        ("slot_inputs_per_agent = 1000001", "found 1000001"),
        ("slot_inputs_per_agnet = 5", "nearest slot_inputs_per_agent"),
    ] {
        let error = wrong(&format!("[limits]\n{text}\n"));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_expression_model_is_read_and_scores() {
    let text = "[priority]\nmodel = \"expression\"\nexpression = \"urgency * 4.0 + waited\"\n";
    assert_eq!(score(&*parse(text).rules.model, &urgent(0.5)), 4.0);
    let lines = "[priority]\nmodel = \"expression\"\nexpression = '''\nurgency // how much\n  * 2\n'''\n";
    assert_eq!(score(&*parse(lines).rules.model, &urgent(0.5)), 1.0);
}

#[test]
fn a_wrong_expression_names_line_and_key_and_marks_the_character() {
    let text = "[priority]\nmodel = \"expression\"\nexpression = \"urgancy * 2.0\"\n";
    let expected =
        "test.toml, line 3: field `priority.expression`: line 1, column 1: there is no variable `urgancy`
    urgancy * 2.0
    ^
  may be  a number in CEL, such as \"urgency + 0.1 * waited\"; the variables are urgency, safety_margin, \
social_value, waited, class, slack, claims and held
  nearest urgency";
    assert_eq!(wrong(text), expected);
}

#[test]
fn the_expression_goes_with_its_model_and_with_no_other() {
    let missing = wrong("[priority]\nmodel = \"expression\"\n");
    assert!(missing.contains("line 1: field `priority.expression` is missing"), "{missing}");
    for model in ["", "model = \"fifo\"\n"] {
        let beside = wrong(&format!("[priority]\n{model}expression = \"urgency\"\n"));
        assert!(beside.contains("may be  left out: `model` is not \"expression\""), "{beside}");
    }
    let no_text = wrong("[priority]\nmodel = \"expression\"\nexpression = 3\n");
    assert!(no_text.contains("found 3") && no_text.contains("a number in CEL"), "{no_text}");
}

#[test]
fn a_change_sets_replaces_and_leaves_the_expression() {
    let mut config = Config::default();
    let of = |config: &Config| score(&*config.rules.model, &urgent(0.5));
    let first = vec![("model", text("expression")), ("expression", text("urgency"))];
    patch(&mut config, "priority", first).unwrap();
    assert_eq!(of(&config), 0.5);
    patch(&mut config, "priority", vec![("expression", text("urgency * 3.0"))]).unwrap();
    assert_eq!(of(&config), 1.5);
    patch(&mut config, "priority", vec![("patience", text("1s"))]).unwrap();
    assert_eq!(of(&config), 1.5, "another key leaves it");

    let fault = patch(&mut config, "priority", vec![("expression", text("urgency *"))]).unwrap_err();
    assert!(fault.explain("").contains("line 1, column 10: it ends where something must follow"));
    assert_eq!(of(&config), 1.5, "a wrong one changes nothing");

    patch(&mut config, "priority", vec![("model", text("fifo"))]).unwrap();
    assert_eq!(of(&config), 0.0);
    let fault = patch(&mut config, "priority", vec![("model", text("expression"))]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Missing, "the old one went with its model");
    let beside = vec![("model", text("fifo")), ("expression", text("urgency"))];
    assert!(patch(&mut config, "priority", beside).is_err());
}

#[test]
fn an_expression_that_is_shown_means_the_same() {
    let source = "[priority]\nmodel = \"expression\"\nexpression = '''\nurgency // \"much\"\n  * 2\n'''\n";
    let shown = parse(source).to_toml();
    assert_eq!(score(&*parse(&shown).rules.model, &urgent(0.5)), 1.0, "{shown}");
}

#[test]
fn frames_have_limits_of_motion_and_are_shown_again() {
    let text = "[[frame]]\npath = \"map/junction\"\nmax_speed = 13.9\nmax_acceleration = 4\n\
        [[frame]]\npath = \"map\"\ntolerance = 0.25\n";
    let frames = parse(text).frames;
    let limits = |speed, acceleration, tolerance| MotionLimits {
        max_speed_um_s: speed,
        max_acceleration_um_s2: acceleration,
        tolerance_um: tolerance,
    };
    let names: Vec<_> = frames.iter().map(|(path, limits)| (path.as_str(), *limits)).collect();
    let junction = limits(Some(13_900_000), Some(4_000_000), None);
    assert_eq!(names, [("map/junction", junction), ("map", limits(None, None, Some(250_000)))]);
    let shown = parse(text).to_toml();
    assert_eq!(parse(&shown).frames, frames, "{shown}");
    assert!(!parse(text).rules_document().contains("frame"), "the decision core is not told");
    assert!(parse("").frames.is_empty());
}

#[test]
fn who_is_let_in_is_by_certificate_unless_it_says_otherwise() {
    use crate::pki::NameRule;
    let none = Auth::Certificate { client_ca: None, crl: None, name: NameRule::default() };
    assert_eq!((parse("").auth, parse(TEMPLATE).auth), (none.clone(), none));
    let text = "[auth]\nclient_ca = \"ca.crt\"\ncrl = \"ca.crl\"\nname = \"dns\"\n";
    let (client_ca, crl) = (Some("ca.crt".into()), Some("ca.crl".into()));
    assert_eq!(parse(text).auth, Auth::Certificate { client_ca, crl, name: NameRule::Dns });
    assert_eq!(parse(&parse(text).to_toml()).auth, parse(text).auth);
    let token = "[auth]\nmode = \"token\"\ntokens = \"t\"\n";
    assert_eq!(parse(token).auth, Auth::Token { tokens: "t".into() });
    assert_eq!(parse(&parse(token).to_toml()).auth, parse(token).auth);
    assert_eq!(parse("[auth]\nmode = \"open\"\n").auth, Auth::Open);
    for (text, says) in [
        ("mode = \"token\"", "`auth.tokens` is missing"),
        ("mode = \"open\"\nclient_ca = \"c\"", "left out: `mode` is not \"certificate\""),
        ("tokens = \"t\"", "left out: `mode` is not \"token\""),
        ("name = \"cn\"", "\"dns\", or \"uri:\""),
        ("mode = \"mtls\"", "\"certificate\", \"token\" or \"open\""),
        ("client_cas = \"c\"", "nearest client_ca"),
    ] {
        let error = wrong(&format!("[auth]\n{text}\n"));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_page_is_there_where_it_is_asked_for_and_has_an_address() {
    let text = "[metrics]\naddr = \"127.0.0.1:0\"\npage = true\n";
    let addr = Some("127.0.0.1:0".parse().unwrap());
    let watched = |text: &str| (parse(text).metrics, parse(text).page);
    assert_eq!(watched(text), (addr, true));
    assert_eq!(watched(&parse(text).to_toml()), (addr, true));
    assert_eq!(watched("[metrics]\naddr = \"127.0.0.1:0\"\n"), (addr, false));
    assert_eq!([watched(""), watched("[metrics]\npage = false\n")], [(None, false); 2]);
    let error = wrong("[metrics]\npage = true\n");
    assert!(error.contains("line 2: field `metrics.page`") && error.contains("`addr` beside it"), "{error}");
    assert!(wrong("[metrics]\naddr = \"127.0.0.1:0\"\npage = 1\n").contains("true or false"));
}

#[test]
fn a_wrong_frame_names_line_and_key() {
    for (text, says) in [
        ("max_speed = 1", "line 1: field `frame[0].path` is missing"),
        ("path = \"a\"\nmax_speed = -1", "line 3: field `frame[0].max_speed`: found -1"),
        ("path = \"a\"\nmax_speed = nan", "metres per second, 0 to 1e9"),
        ("path = \"a\"\nmax_acceleration = 1.1e9", "metres per second squared, 0 to 1e9"),
        ("path = \"a\"\ntolerance = \"1mm\"", "metres, 0 to 1e9"),
        ("path = \"a\"\nmaxspeed = 1", "nearest max_speed"),
        ("path = \"a\"\n[[frame]]\npath = \"a\"", "a path that no [[frame]] before it has"),
    ] {
        let error = wrong(&format!("[[frame]]\n{text}\n"));
        assert!(error.contains(says), "{error}");
    }
    let edge = parse("[[frame]]\npath = \"a\"\nmax_speed = 1e9\ntolerance = 0\n").frames[0].1;
    assert_eq!((edge.max_speed_um_s, edge.tolerance_um), (Some(1_000_000_000_000_000), Some(0)));
}
