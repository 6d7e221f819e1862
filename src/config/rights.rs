//! Who may claim, read and administer what, and what claiming urgency costs: `[[rule]]` and `[allowance]`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rules::duration;
use super::tree::{Fault, Field, Fields};
use crate::limits;
use crate::session::coordinator::{
    Allowance, Caps, Credits, Modes, NamePattern, PathPattern, Priority, Rights, Rule, What,
};
use crate::types::Class;

pub(super) const RULE: &[&str] = &[
    "name",
    "who",
    "path",
    "frame",
    "modes",
    "class",
    "urgency",
    "safety_margin",
    "social_value",
    "units",
    "duration",
    "horizon",
    "read",
    "administer",
];
pub(super) const ALLOWANCE: &[&str] = &[
    "size",
    "refill",
    "class",
    "urgency",
    "safety_margin",
    "social_value",
    "ordinary_class",
    "ordinary_urgency",
    "ordinary_safety_margin",
    "ordinary_social_value",
];
const NAME: &str = "1 to 64 bytes without control characters, which no [[rule]] before it has";
const SHARE: &str = "a number from 0 to 1";
const CLASS: &str = "a whole number from 0 to 7";

/// Both sections together.
pub(super) fn rights(sections: &Fields<'_>) -> Result<Rights, Fault> {
    let rules = sections.optional("rule", rules)?.unwrap_or_default();
    Ok(Rights::new(rules, sections.optional("allowance", allowance)?))
}

fn rules(field: Field<'_>) -> Result<Vec<Rule>, Fault> {
    let (mut seen, mut number) = (BTreeSet::new(), 0);
    let rules = field.list("a list of tables, each under [[rule]]", |item| {
        number += 1;
        if number > limits::RULES {
            return Err(item.wrong(format!("left out: up to {} rules", limits::RULES)));
        }
        rule(&item.table(RULE)?, number, &mut seen)
    })?;
    Ok(rules)
}

fn rule(fields: &Fields<'_>, number: usize, seen: &mut BTreeSet<Arc<str>>) -> Result<Rule, Fault> {
    let named = fields.optional("name", |field| {
        let name = field.text(NAME)?;
        let fits = (1..=limits::RULE_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
        let is_new = seen.insert(name.into());
        if fits && is_new { Ok(name.into()) } else { Err(field.wrong(NAME)) }
    })?;
    let default = Rule::named(&format!("rule {number}"));
    Ok(Rule {
        name: named.unwrap_or(default.name),
        who: fields.optional("who", who)?.unwrap_or(default.who),
        what: what(fields)?,
        modes: fields.optional("modes", modes)?.unwrap_or(default.modes),
        caps: Caps::new(
            fields.optional("class", class)?,
            fields.optional("urgency", share)?,
            fields.optional("safety_margin", share)?,
            fields.optional("social_value", share)?,
        ),
        units: fields.optional("units", |field| field.count("a whole number, 0 or more"))?,
        duration: fields.optional("duration", duration)?,
        horizon: fields.optional("horizon", duration)?,
        read: fields.optional("read", |field| field.flag())?.unwrap_or(default.read),
        administer: fields.optional("administer", |field| field.flag())?.unwrap_or(default.administer),
    })
}

fn who(field: Field<'_>) -> Result<NamePattern, Fault> {
    NamePattern::new(field.text(NamePattern::RULE)?).ok_or_else(|| field.wrong(NamePattern::RULE))
}

fn what(fields: &Fields<'_>) -> Result<What, Fault> {
    fields.has("path").then(|| fields.none_beside("path", &["frame"])).transpose()?;
    let path = fields.optional("path", pattern)?.map(What::Path);
    let frame = fields.optional("frame", pattern)?.map(What::Frame);
    Ok(path.or(frame).unwrap_or(What::Everything))
}

fn pattern(field: Field<'_>) -> Result<PathPattern, Fault> {
    PathPattern::new(field.text(PathPattern::RULE)?).ok_or_else(|| field.wrong(PathPattern::RULE))
}

fn modes(field: Field<'_>) -> Result<Modes, Fault> {
    let mut modes = Modes::NONE;
    field.list("a list of \"shared\", \"exclusive\" and \"units\"", |item| {
        match item.word(&["shared", "exclusive", "units"])? {
            0 => modes.shared = true,
            1 => modes.exclusive = true,
            _ => modes.units = true,
        }
        Ok(())
    })?;
    Ok(modes)
}

fn class(field: Field<'_>) -> Result<Class, Fault> {
    Class::new(field.count(CLASS)?).ok_or_else(|| field.wrong(CLASS))
}

fn share(field: Field<'_>) -> Result<f64, Fault> {
    let share = field.number(SHARE)?;
    // `+ 0.0` makes a negative zero positive, so that equal rights have equal bits.
    if (0.0..=1.0).contains(&share) { Ok(share + 0.0) } else { Err(field.wrong(SHARE)) }
}

fn allowance(field: Field<'_>) -> Result<Allowance, Fault> {
    let fields = field.table(ALLOWANCE)?;
    let default = Allowance::default();
    let credits = |name| fields.optional(name, credits);
    let ordinary = Priority {
        class: fields.optional("ordinary_class", class)?.unwrap_or(default.ordinary.class),
        urgency: fields.optional("ordinary_urgency", share)?.unwrap_or(default.ordinary.urgency),
        safety_margin: fields
            .optional("ordinary_safety_margin", share)?
            .unwrap_or(default.ordinary.safety_margin),
        social_value: fields
            .optional("ordinary_social_value", share)?
            .unwrap_or(default.ordinary.social_value),
    };
    Ok(Allowance {
        size: credits("size")?.unwrap_or(default.size),
        refill: credits("refill")?.unwrap_or(default.refill),
        ordinary,
        class: credits("class")?.unwrap_or(default.class),
        urgency: credits("urgency")?.unwrap_or(default.urgency),
        safety_margin: credits("safety_margin")?.unwrap_or(default.safety_margin),
        social_value: credits("social_value")?.unwrap_or(default.social_value),
    })
}

fn credits(field: Field<'_>) -> Result<Credits, Fault> {
    Credits::new(field.number(Credits::RULE)?).ok_or_else(|| field.wrong(Credits::RULE))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Rights {
        Config::parse("test.toml", text).unwrap().rights
    }

    fn refused(text: &str) -> String {
        Config::parse("test.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn rules_come_in_order_and_what_is_left_out_allows_all_but_looking_and_administering() {
        let rights =
            read("[[rule]]\n[[rule]]\nname = \"two\"\nwho = \"robot-*\"\nframe = \"map/*\"\nmodes = []\n");
        let [first, second] = rights.rules() else { panic!("two rules") };
        assert_eq!(*first, Rule::named("rule 1"));
        assert_eq!(
            (&*second.name, &second.what, second.modes),
            ("two", &What::Frame(PathPattern::new("map/*").unwrap()), Modes::NONE)
        );
        assert!(read("").is_open() && read("").allowance().is_none());
    }

    #[test]
    fn every_bound_of_a_rule_is_read() {
        let text = "[[rule]]\npath = \"a\"\nmodes = [\"shared\", \"units\"]\nclass = 3\nurgency = 0.5\nsafety_margin = 0.25\n\
                    social_value = 1\nunits = 4\nduration = \"30s\"\nhorizon = \"1h\"\nread = true\nadminister = true\n";
        let rights = read(text);
        let rule = &rights.rules()[0];
        assert_eq!((rule.modes.shared, rule.modes.exclusive, rule.modes.units), (true, false, true));
        let most = rule.caps.most();
        assert_eq!(
            (most.class.number(), most.urgency, most.safety_margin, most.social_value),
            (3, 0.5, 0.25, 1.0)
        );
        let spans = [rule.duration, rule.horizon].map(|span| span.map(|span| span.as_us()));
        assert_eq!((rule.units, spans), (Some(4), [Some(30_000_000), Some(3_600_000_000)]));
        assert!(rule.read && rule.administer);
    }

    #[test]
    fn an_allowance_is_read_over_its_defaults() {
        let rights = read("[allowance]\nsize = 5\nurgency = 2.5\nordinary_class = 2\n");
        let expected = Allowance {
            size: Credits::new(5.0).unwrap(),
            urgency: Credits::new(2.5).unwrap(),
            ordinary: Priority { class: Class::new(2).unwrap(), ..Priority::default() },
            ..Allowance::default()
        };
        assert_eq!(rights.allowance(), Some(&expected));
        assert_eq!(read("[allowance]\n").allowance(), Some(&Allowance::default()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_key() {
        for (text, says) in [
            ("[[rule]]\nwho = \"a*b*\"\n", "`rule[0].who`"),
            ("[[rule]]\nwho = \"\"\n", "`rule[0].who`"),
            ("[[rule]]\n[[rule]]\npath = \"a//b\"\n", "`rule[1].path`"),
            ("[[rule]]\npath = \"a/**\"\n", "`rule[0].path`"),
            ("[[rule]]\npath = \"a\"\nframe = \"b\"\n", "`path` beside `frame`"),
            ("[[rule]]\nmodes = [\"share\"]\n", "`rule[0].modes[0]`"),
            ("[[rule]]\nclass = 8\n", "`rule[0].class`"),
            ("[[rule]]\nurgency = 1.5\n", "`rule[0].urgency`"),
            ("[[rule]]\nname = \"a\"\n[[rule]]\nname = \"a\"\n", "`rule[1].name`"),
            ("[[rule]]\nwhom = \"a\"\n", "nearest who"),
            ("[allowance]\nsize = -1\n", "`allowance.size`"),
            ("[allowance]\nordinary_class = 9\n", "`allowance.ordinary_class`"),
        ] {
            assert!(refused(text).contains(says), "{text}: {}", refused(text));
        }
        let many = "[[rule]]\n".repeat(limits::RULES + 1);
        assert!(refused(&many).contains(&format!("`rule[{}]`", limits::RULES)));
    }

    #[test]
    fn rights_are_shown_as_they_were_written() {
        let text = "[[rule]]\nname = \"robots\"\nwho = \"robot-*\"\nmodes = [\"shared\"]\nduration = \"30s\"\n[allowance]\nsize = 5\n";
        let config = Config::parse("test.toml", text).unwrap();
        let again = Config::parse("shown.toml", &config.to_toml()).unwrap();
        assert_eq!(again.rights, config.rights);
    }
}
