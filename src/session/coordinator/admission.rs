//! The hook before the core: who may ask for what, and whether it can be carried out at all.

use std::fmt::Debug;
use std::sync::Arc;

use crate::resolver::AgentOp;
use crate::types::{Agent, Micros};
use crate::wire::Refusal;

/// Why a message was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// One of the reasons that are not the core's, such as [`Refusal::Forbidden`].
    pub reason: Refusal,
    /// The field at fault; may be empty.
    pub field: String,
    /// What to do, for people; may be empty.
    pub hint: String,
    /// When to come back, where that helps.
    pub retry_after: Option<Micros>,
}

/// Looks at each valid message before it reaches the core. What it refuses is answered at once and
/// is no input of the core, so a trace decides the same without it.
///
/// Called with the sessions' lock held: an implementation returns within microseconds and never
/// blocks.
///
/// One of your own, before the ready check of [motion](super::Feasibility):
///
/// ```
/// use std::sync::Arc;
///
/// use preclaim::resolver::AgentOp;
/// use preclaim::session::coordinator::{Admission, Denial, Feasibility};
/// use preclaim::space::motion::MotionLimits;
/// use preclaim::types::{Agent, Path};
/// use preclaim::wire::Refusal;
///
/// /// The vault is for guards alone.
/// #[derive(Debug)]
/// struct Guards;
///
/// impl Admission for Guards {
///     fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial> {
///         let (AgentOp::Declare(intent) | AgentOp::Revise(intent)) = op else { return Ok(()) };
///         let vault = intent.claims.iter().position(|claim| claim.target.path().as_str().starts_with("vault"));
///         match vault.filter(|_| !agent.as_str().starts_with("guard-")) {
///             None => Ok(()),
///             Some(at) => Err(Denial {
///                 reason: Refusal::Forbidden,
///                 field: format!("claims[{at}].path"),
///                 hint: "ask a guard".into(),
///                 retry_after: None,
///             }),
///         }
///     }
/// }
///
/// let limits = MotionLimits { max_speed_um_s: Some(20_000_000), ..MotionLimits::default() };
/// let floor = Path::new("map/floor").expect("it is a path");
/// let admission: Arc<dyn Admission> = Arc::new(Guards.then(Feasibility::new([(floor, limits)])));
/// // CoordinatorConfig { admission, .. }
/// # let release = AgentOp::Release { id: preclaim::types::IntentId::new(1) };
/// # assert!(admission.admit(&Agent::new("a").expect("it is a name"), &release).is_ok());
/// ```
pub trait Admission: Debug + Send + Sync {
    /// Whether `agent` may ask for this.
    ///
    /// # Errors
    /// What the agent is told instead.
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial>;

    /// This, and `next` for what it lets in: the first that refuses is what the agent is told.
    fn then<N: Admission>(self, next: N) -> Then<Self, N>
    where
        Self: Sized,
    {
        Then { first: self, next }
    }
}

/// One check after the other; made by [`Admission::then`].
#[derive(Clone, Copy, Debug)]
pub struct Then<F, N> {
    first: F,
    next: N,
}

impl<F: Admission, N: Admission> Admission for Then<F, N> {
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial> {
        self.first.admit(agent, op)?;
        self.next.admit(agent, op)
    }
}

impl<A: Admission + ?Sized> Admission for Arc<A> {
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial> {
        (**self).admit(agent, op)
    }
}

/// Lets everything in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Admission for Open {
    fn admit(&self, _: &Agent, _: &AgentOp) -> Result<(), Denial> {
        Ok(())
    }
}
