//! A priority model of one's own: who goes first where several want the same?
//!
//! Runs the decision core alone, on virtual time: no daemon, no network, no clock.
//!
//! ```text
//! cargo run --example custom_priority --no-default-features
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use preclaim::priority::{Context, PriorityModel, Weighted, conformance};
use preclaim::resolver::{AgentOp, Input, Resolver, Rules, SlotBatch};
use preclaim::types::{
    Agent, Claim, Class, Intent, IntentId, Micros, Mode, Path, Slot, Start, Target, TaskId, Time, Verdict,
};

/// Whoever is done soonest goes first: the least time passes in queues, summed over all.
#[derive(Debug)]
struct ShortestFirst;

impl PriorityModel for ShortestFirst {
    fn score(&self, intent: &Intent, _: &Context<'_>) -> f64 {
        let longest = intent.claims.iter().map(|claim| claim.offset.plus(claim.duration)).max();
        -(longest.unwrap_or_default().as_us() as f64 / 1e6)
    }
}

/// Who asks, how urgent it is, and for how long the dock is needed. All ask in the same slot.
const ROBOTS: [(&str, f64, Micros); 3] = [
    ("forklift", 0.9, Micros::from_secs(5)),
    ("cart", 0.4, Micros::from_secs(2)),
    ("scanner", 0.1, Micros::from_secs(1)),
];

fn main() -> Result<(), Box<dyn Error>> {
    show(&mut io::stdout().lock())
}

/// Decides the same slot under both models and prints who goes when.
pub(crate) fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "Three robots want dock/3 in one slot. Who goes first?\n")?;
    writeln!(out, "weighted, as configured by default: the most urgent")?;
    decide(out, Arc::new(Weighted::default()))?;
    writeln!(out, "ShortestFirst, the model in this file: whoever is done soonest")?;
    decide(out, Arc::new(ShortestFirst))?;

    conformance::check(|| ShortestFirst)?;
    writeln!(out, "ShortestFirst passes the conformance suite.")?;
    Ok(())
}

fn decide(out: &mut impl Write, model: Arc<dyn PriorityModel>) -> Result<(), Box<dyn Error>> {
    let rules = Rules { model, ..Rules::default() };
    let inputs =
        ROBOTS.iter().map(declare).collect::<Option<Vec<_>>>().ok_or("a robot's name is too long")?;
    let batch = SlotBatch::new(Slot::new(0), rules.length, inputs)?;
    for decision in Resolver::new(rules).resolve(&batch).decisions {
        if let Verdict::Granted { start, end, .. } = decision.verdict {
            let [start, end] = [start, end].map(|at| at.as_us() as f64 / 1e6);
            writeln!(out, "  {:<9} from {start:.2} s to {end:.2} s", decision.key.agent.as_str())?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// A declaration that may be placed anywhere in the next minute.
fn declare((robot, urgency, duration): &(&str, f64, Micros)) -> Option<Input> {
    let claim = Claim {
        target: Target::Path(Path::new("dock/3")?),
        mode: Mode::Exclusive,
        offset: Micros::ZERO,
        duration: *duration,
    };
    let intent = Intent {
        id: IntentId::new(1),
        start: Start::Asap,
        slack: Micros::from_secs(60),
        wait: Micros::ZERO,
        hold: false,
        task: TaskId::new(0),
        class: Class::default(),
        urgency: *urgency,
        safety_margin: 1.0,
        social_value: 0.0,
        claims: [claim].into(),
        expects: [].into(),
    };
    let agent = Agent::new(robot)?;
    Some(Input::Agent { at: Time::from_us(1200), agent, op: AgentOp::Declare(intent) })
}
