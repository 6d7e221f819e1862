//! The sections of the decision core: slot, preemption, priority, resource.

use std::sync::Arc;

use super::duration::{DURATION_RULE, parse_duration, show_duration};
use super::expression::Expression;
use super::tree::{Fault, Field, Fields, Table, Value};
use crate::limits;
use crate::priority::{Deadline, Fair, Fifo, PriorityModel, Weighted};
use crate::resolver::{Resource, Rules};
use crate::types::{Micros, PATH_RULE, Path};

pub(super) const SLOT: &[&str] = &["length", "min_lead", "horizon", "history", "retention"];
pub(super) const PREEMPTION: &[&str] = &["enabled", "freeze"];
pub(super) const PRIORITY: &[&str] =
    &["model", "expression", "urgency", "safety_margin", "social_value", "aging", "fair_window", "patience"];
pub(super) const RESOURCE: &[&str] = &["path", "capacity", "time_tolerance", "overlap_ratio", "max_hold"];
const MODELS: [&str; 5] = ["weighted", "fifo", "deadline", "fair", "expression"];

/// How near to its start a grant is safe from preemption, where nothing is configured.
const FREEZE: Micros = Micros::from_ms(50);

/// The core's sections together.
pub(super) fn rules(sections: &Fields<'_>) -> Result<Rules, Fault> {
    let mut rules = Rules::default();
    sections.optional("slot", |field| slot(field, &mut rules))?;
    sections.optional("preemption", |field| preemption(field, &mut rules))?;
    sections.optional("priority", |field| priority(field, &mut rules))?;
    if let Some(table) = sections.optional("resource", resources)? {
        rules.resources = table;
    }
    Ok(rules)
}

fn slot(field: Field<'_>, rules: &mut Rules) -> Result<(), Fault> {
    let slot = field.table(SLOT)?;
    let length = |field: Field<'_>| duration_within(field, limits::SLOT_MIN, limits::SLOT_MAX);
    set(&mut rules.length, slot.optional("length", length)?);
    set(&mut rules.min_lead, slot.optional("min_lead", duration)?);
    set(&mut rules.horizon, slot.optional("horizon", duration)?);
    set(&mut rules.history, slot.optional("history", duration)?);
    set(&mut rules.retention, slot.optional("retention", duration)?);
    Ok(())
}

fn preemption(field: Field<'_>, rules: &mut Rules) -> Result<(), Fault> {
    let preemption = field.table(PREEMPTION)?;
    let enabled = preemption.optional("enabled", |field| field.flag())?.unwrap_or(false);
    let freeze = preemption.optional("freeze", duration)?.unwrap_or(FREEZE);
    rules.preemption = enabled.then_some(freeze);
    Ok(())
}

fn priority(field: Field<'_>, rules: &mut Rules) -> Result<(), Fault> {
    let priority = field.table(PRIORITY)?;
    let mut weighted = Weighted::default();
    set(&mut weighted.urgency, priority.optional("urgency", weight)?);
    set(&mut weighted.safety_margin, priority.optional("safety_margin", weight)?);
    set(&mut weighted.social_value, priority.optional("social_value", weight)?);
    set(&mut weighted.aging, priority.optional("aging", weight)?);
    set(&mut rules.fair_window, priority.optional("fair_window", duration)?);
    rules.patience = priority.optional("patience", duration)?;
    rules.model = model(&priority, weighted)?;
    Ok(())
}

fn model(priority: &Fields<'_>, weighted: Weighted) -> Result<Arc<dyn PriorityModel>, Fault> {
    let name = priority.optional("model", |field| field.word(&MODELS))?.map(|index| MODELS[index]);
    if name == Some("expression") {
        return Ok(Arc::new(priority.required("expression", EXPRESSION, expression)?));
    }
    // Checked last, so that a misspelt model is told of first.
    let misplaced = |field: Field<'_>| Err(field.wrong("left out: `model` is not \"expression\""));
    priority.optional("expression", misplaced)?.unwrap_or(());
    Ok(match name {
        Some("fifo") => Arc::new(Fifo),
        Some("deadline") => Arc::new(Deadline),
        Some("fair") => Arc::new(Fair),
        _ => Arc::new(weighted),
    })
}

const EXPRESSION: &str = "a number in CEL, such as \"urgency + 0.1 * waited\"; the variables are urgency, \
    safety_margin, social_value, waited, class, slack, claims and held";

fn expression(field: Field<'_>) -> Result<Expression, Fault> {
    Expression::parse(field.text(EXPRESSION)?).map_err(|error| {
        let nearest = error.nearest().map(str::to_owned);
        field.wrong_inside(error.to_string(), nearest, EXPRESSION)
    })
}

/// A change of the model leaves the old model's expression behind: it goes, since nobody could take
/// it out, and beside another model it would be a fault.
pub(super) fn forget_expression(document: &mut Table, change: &Table) {
    fn section(table: &Table) -> Option<&Table> {
        match table.get("priority").map(|node| &node.value) {
            Some(Value::Table(section)) => Some(section),
            _ => None,
        }
    }
    let Some(change) = section(change) else { return };
    let names_other = matches!(change.get("model").map(|node| &node.value), Some(Value::Text(name)) if name != "expression");
    if names_other && change.get("expression").is_none() {
        document.remove("priority", "expression");
    }
}

fn resources(field: Field<'_>) -> Result<Vec<Resource>, Fault> {
    let mut seen = std::collections::BTreeSet::new();
    field.list("a list of tables, each under [[resource]]", |item| {
        let resource = item.table(RESOURCE)?;
        resource
            .required("path", PATH_RULE, |field| {
                let path = path(field)?;
                let first = seen.insert(path.clone());
                if first { Ok(path) } else { Err(field.wrong("a path that no [[resource]] before it has")) }
            })
            .and_then(|path| read_resource(path, &resource))
    })
}

fn read_resource(path: Path, fields: &Fields<'_>) -> Result<Resource, Fault> {
    let count = |field: Field<'_>| field.count("a whole number, 0 or more");
    let hold = |field: Field<'_>| duration_within(field, Micros::from_us(1), Micros::MAX);
    Ok(Resource {
        path,
        capacity: fields.optional("capacity", count)?,
        time_tolerance: fields.optional("time_tolerance", duration)?,
        overlap_ratio: fields.optional("overlap_ratio", ratio)?,
        max_hold: fields.optional("max_hold", hold)?,
    })
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// Any duration.
pub(super) fn duration(field: Field<'_>) -> Result<Micros, Fault> {
    parse_duration(field.text(DURATION_RULE)?).ok_or_else(|| field.wrong(DURATION_RULE))
}

/// A duration from `least` to `most`.
pub(super) fn duration_within(field: Field<'_>, least: Micros, most: Micros) -> Result<Micros, Fault> {
    let within = Some(duration(field)?).filter(|span| (least..=most).contains(span));
    within.ok_or_else(|| match most {
        Micros::MAX => field.wrong(format!("{} or more", show_duration(least))),
        _ => field.wrong(format!("{} to {}", show_duration(least), show_duration(most))),
    })
}

fn weight(field: Field<'_>) -> Result<f64, Fault> {
    let weight = field.number("a finite number")?;
    if weight.is_finite() { Ok(weight) } else { Err(field.wrong("a finite number")) }
}

fn ratio(field: Field<'_>) -> Result<f64, Fault> {
    const RULE: &str = "a number from 0 to below 1";
    let ratio = field.number(RULE)?;
    // `+ 0.0` makes a negative zero positive, so that equal rules have equal bits.
    if (0.0..1.0).contains(&ratio) { Ok(ratio + 0.0) } else { Err(field.wrong(RULE)) }
}

pub(super) fn path(field: Field<'_>) -> Result<Path, Fault> {
    Path::new(field.text(PATH_RULE)?).ok_or_else(|| field.wrong(PATH_RULE))
}
