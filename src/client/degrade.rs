//! What an agent does where it gets no grant: tries again, within limits, and then degrades as it was told
//! to beforehand.
//!
//! [`Client::pursue`](super::Client::pursue) declares until there is a grant. Conflicts, stale readings, a
//! coordinator without room and lost answers are tried again, with pauses that grow and are drawn at random.
//! Where that has come to nothing for as often or as long as the [`Degrade`] policy of the resource says, or
//! no coordinator answers, it ends as [`Degraded`]: there is **no grant**, the value says why
//! and what the policy has the agent do.
//!
//! | policy | what the agent does | what protects it |
//! |---|---|---|
//! | [`Degrade::stop`], the default | nothing beyond the end of what it still holds | its own grants, to their ends |
//! | [`Degrade::keep_last_plan`] | goes on with the last plan that it was granted there | **nothing** after that plan's end |
//! | [`Degrade::fall_back`] | what a function of the agent's does | **nothing**, but what the function sees to |
//!
//! Without a grant nothing keeps others from being granted the same. A guarded store refuses the fence of
//! the last grant as soon as it has seen a later one, and cannot know better before that; so a [`LastPlan`] has
//! no fence to hand on. Keep to a plan, or fall back, only where doing nothing is more dangerous than
//! that, such as for a vehicle in the middle of a crossing, and where something else than
//! this system sees to what is in the way.
//!
//! Every degradation is counted: [`Client::degradations`](super::Client::degradations) says how many there
//! were. When a connection stands again, [`Event::Resumed`](super::Event::Resumed) tells the agent, a
//! warning stands in its log, and the coordinator is told, which logs it with the agent's name. It decides
//! nothing.
//!
//! ```
//! use preclaim::client::{Attempt, Conduct, Degrade, Pursued};
//! use preclaim::coordinator::{Coordinator, CoordinatorConfig};
//! use preclaim::{Intent, millis, path, secs};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let coordinator = Coordinator::bind(CoordinatorConfig::in_memory(Default::default())?)?.spawn();
//! let client = coordinator
//!     .client("fork-lift-7")
//!     // In the crossing it goes on to the other side; everywhere else it stops.
//!     .degrade(path("crossing")?, Degrade::keep_last_plan().after(3).when_silent(millis(200)))
//!     .connect()
//!     .await?;
//! let crossing = path("crossing/north")?;
//! // Asked for the next intent before each try; what came of the last one is told.
//! let next = |attempt: Attempt| {
//!     let intent = match attempt.offer() {
//!         Some(offer) => Intent::at(offer).slack(secs(1)),
//!         None => Intent::asap().wait(millis(100)),
//!     };
//!     std::future::ready(intent.claim(crossing.clone().exclusive(), secs(1)))
//! };
//! match client.pursue(next).await? {
//!     Pursued::Granted(grant) => println!("cross until {:?}", grant.until()),
//!     Pursued::Degraded(degraded) => panic!("the crossing is free: {degraded}"),
//! }
//!
//! coordinator.stop().await?;
//! match client.pursue(next).await? {
//!     Pursued::Granted(grant) => panic!("by whom? {grant:?}"),
//!     Pursued::Degraded(degraded) => match degraded.conduct() {
//!         Conduct::KeepLastPlan(plan) => println!("{degraded}; the plan ended at {:?}", plan.until()),
//!         Conduct::Stop | Conduct::FellBack => panic!("it was told to keep to its plan: {degraded}"),
//!     },
//! }
//! assert_eq!(client.degradations().since_start.kept_last_plan, 1);
//! # Ok(())
//! # }
//! ```

mod course;
mod policies;
mod pursuit;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Conflict, DeclareError, Grant, Intent, Rejected, Stale};
use crate::types::{IntentId, Time};
use course::Bounds;
pub(super) use policies::{Candidate, Policies};

/// After how many conflicts and stale answers in a row it degrades, unless the policy says otherwise: what is
/// contested for so long is not a matter of luck.
pub const AFTER: u32 = 5;
/// How long no coordinator may answer, unless the policy says otherwise: as long as an answer may take by
/// itself.
pub const SILENT: Duration = Duration::from_secs(10);
/// Tries in all, unless the policy says otherwise: with their pauses they take over a minute.
pub const TRIES: u32 = 20;
/// Time in all, unless the policy says otherwise.
pub const WITHIN: Duration = Duration::from_secs(60);
/// The longest first pause, unless the policy says otherwise: a few slots.
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause, unless the policy says otherwise.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What to do where there is no grant to be had, and when that is so. Given to
/// [`ClientBuilder::degrade`](super::ClientBuilder::degrade) for a resource.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Degrade {
    choice: Choice,
    bounds: Bounds,
}

#[derive(Clone, Default)]
enum Choice {
    #[default]
    Stop,
    Keep,
    FallBack(Arc<dyn Fn(&Why) + Send + Sync>),
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Stop => "Stop",
            Choice::Keep => "KeepLastPlan",
            Choice::FallBack(_) => "FallBack",
        })
    }
}

impl Choice {
    /// Of several that apply the most careful one does.
    fn care(&self) -> u8 {
        match self {
            Choice::FallBack(_) => 0,
            Choice::Keep => 1,
            Choice::Stop => 2,
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            after: AFTER,
            silent: SILENT,
            tries: TRIES,
            within: WITHIN,
            first: FIRST_PAUSE,
            most: LONGEST_PAUSE,
        }
    }
}

impl Degrade {
    /// It stops: what it still holds it may use to its end, and nothing beyond. The default.
    pub fn stop() -> Self {
        Degrade::default()
    }

    /// It goes on with the last plan: the intent that this client was granted last with a claim at or
    /// below the resource of the policy, past the end of its window. Nothing protects that; see the module's
    /// documentation. Where there is no such plan, or it was taken away (revoked, released by the operator,
    /// unknown to the coordinator), it stops.
    pub fn keep_last_plan() -> Self {
        Degrade { choice: Choice::Keep, ..Degrade::default() }
    }

    /// It falls back to `act`, which is called within [`super::Client::pursue`], once each time, and is told why.
    /// It must not block. Nothing protects what it does; see the module's documentation.
    pub fn fall_back(act: impl Fn(&Why) + Send + Sync + 'static) -> Self {
        Degrade { choice: Choice::FallBack(Arc::new(act)), ..Degrade::default() }
    }

    /// After how many conflicts and stale answers in a row, [`AFTER`] otherwise; 0 counts as 1. Only a grant
    /// breaks the row: a lost answer, or a coordinator without room, says nothing of who is in the way.
    pub fn after(mut self, in_a_row: u32) -> Self {
        self.bounds.after = in_a_row.max(1);
        self
    }

    /// How long no coordinator may answer, [`SILENT`] otherwise: since the connection was lost, be that before
    /// the pursuit began, or since an answer was due. While an intent waits ([`Intent::wait`]) and the
    /// connection stands, none is.
    pub fn when_silent(mut self, silent: Duration) -> Self {
        self.bounds.silent = silent;
        self
    }

    /// How often it declares in all, [`TRIES`] otherwise; 0 counts as 1.
    pub fn tries(mut self, tries: u32) -> Self {
        self.bounds.tries = tries.max(1);
        self
    }

    /// How long all of it may take, [`WITHIN`] otherwise. The waits of the intents that it declares come
    /// on top.
    pub fn within(mut self, within: Duration) -> Self {
        self.bounds.within = within;
        self
    }

    /// The longest pause before the second try, [`FIRST_PAUSE`] otherwise, which doubles with each try up to
    /// `longest`, [`LONGEST_PAUSE`] otherwise. Each pause is drawn at random from the upper half of that. Where the
    /// coordinator said when to come back, it begins then.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.bounds.first = first;
        self.bounds.most = longest;
        self
    }
}

/// What came of a pursuit.
#[derive(Debug)]
#[must_use = "a grant that is dropped is released, and where it is degraded there is none"]
pub enum Pursued {
    /// It may go ahead.
    Granted(Grant),
    /// It may not: there is no grant. What to do instead is for the policy to say.
    Degraded(Degraded),
}

/// There is no grant, and what the agent was told to do in that case. Nothing in here is a permission.
#[derive(Clone, Debug)]
#[must_use = "there is no grant; look at what to do instead"]
pub struct Degraded {
    why: Why,
    conduct: Conduct,
}

impl Degraded {
    /// Why there is no grant.
    pub fn why(&self) -> &Why {
        &self.why
    }

    /// What to do.
    pub fn conduct(&self) -> &Conduct {
        &self.conduct
    }
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no grant: {}; {}", self.why, self.conduct)
    }
}

/// What an agent without a grant does.
#[derive(Clone, Debug)]
pub enum Conduct {
    /// It stops: a grant that it still holds is good to its end, and nothing beyond.
    Stop,
    /// It goes on with this plan, unprotected.
    KeepLastPlan(Box<LastPlan>),
    /// The policy's function was called.
    FellBack,
}

impl fmt::Display for Conduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conduct::Stop => f.write_str("the agent stops"),
            Conduct::KeepLastPlan(plan) => {
                write!(f, "the agent keeps to the plan of intent {}, unprotected", plan.id)
            }
            Conduct::FellBack => f.write_str("it falls back"),
        }
    }
}

/// What was granted last on a resource, to be kept to without protection. It has no fence: that of its grant is
/// good for nothing once the window is over, since a guarded store refuses it as soon as it has seen a later
/// one, and lets it through until then.
#[derive(Clone, Debug, PartialEq)]
pub struct LastPlan {
    intent: Intent,
    id: IntentId,
    start: Time,
    end: Time,
    until: Instant,
}

impl LastPlan {
    /// What was granted, as it was declared or last revised.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The id of the intent.
    pub fn id(&self) -> IntentId {
        self.id
    }

    /// Its start, before its claims' offsets, by the coordinator's clock.
    pub fn start(&self) -> Time {
        self.start
    }

    /// The end of its window, renewals included, by the coordinator's clock. From here on others may have
    /// been granted the same.
    pub fn end(&self) -> Time {
        self.end
    }

    /// The same by the agent's own clock, less its uncertainty.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// Why there is no grant.
#[derive(Clone, Debug)]
pub struct Why {
    cause: Cause,
    tries: u32,
    took: Duration,
    last: Option<Setback>,
}

impl Why {
    /// Which limit of the policy was reached.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// How often it was declared.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long the pursuit took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// What the last try came to; `None` where no try came to anything.
    pub fn last(&self) -> Option<&Setback> {
        self.last.as_ref()
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tries = if self.tries == 1 { "1 try".to_owned() } else { format!("{} tries", self.tries) };
        write!(f, "{} ({tries} in {:.1?})", self.cause, self.took)?;
        self.last.as_ref().map_or(Ok(()), |last| write!(f, ", last {last}"))
    }
}

/// Which limit of a policy was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No coordinator answered for as long as [`Degrade::when_silent`] says.
    Silence,
    /// As many conflicts and stale answers in a row as [`Degrade::after`] says, the last of them a conflict.
    Conflicts,
    /// The same, the last of them stale.
    Stale,
    /// As many tries as [`Degrade::tries`] says.
    Tries,
    /// As much time as [`Degrade::within`] says, or no try would have come to an end within it.
    Time,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Silence => "no coordinator answers",
            Cause::Conflicts => "too many conflicts in a row",
            Cause::Stale => "too many stale answers in a row",
            Cause::Tries => "too many tries",
            Cause::Time => "no time left",
        })
    }
}

/// What a try came to that may be made again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Setback {
    /// Somebody is in the way.
    Conflict(Conflict),
    /// It must be read again, at or after [`Stale::as_of`].
    Stale(Stale),
    /// The coordinator has no room, or takes nothing new.
    Refused(Rejected),
    /// It came to no outcome.
    NoOutcome(DeclareError),
}

impl fmt::Display for Setback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setback::Conflict(conflict) => conflict.fmt(f),
            Setback::Stale(stale) => write!(f, "stale: {}", stale.path()),
            Setback::Refused(why) => why.fmt(f),
            Setback::NoOutcome(error) => error.fmt(f),
        }
    }
}

/// A try that is about to be made, and what came of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    number: u32,
    last: Option<Setback>,
}

impl Attempt {
    /// Which try it is, from 1 on. One whose answer was lost is made again without asking for another
    /// intent, and counts.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What came of the last one; `None` before the first.
    pub fn last(&self) -> Option<&Setback> {
        self.last.as_ref()
    }

    /// After a conflict: the earliest start that would be free, by the coordinator's clock. It reserves nothing.
    pub fn offer(&self) -> Option<Time> {
        match &self.last {
            Some(Setback::Conflict(conflict)) => conflict.offer(),
            _ => None,
        }
    }

    /// After a stale answer: read again at or after this time, by the coordinator's clock, and take
    /// [`super::Client::reading`] before it for [`Intent::expect`].
    pub fn read_after(&self) -> Option<Time> {
        match &self.last {
            Some(Setback::Stale(stale)) => Some(stale.as_of()),
            _ => None,
        }
    }
}

/// Why a pursuit ended where no policy applies: trying again does not help, nor does waiting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PursueError {
    /// The intent was refused for what it is.
    #[error("{0}")]
    Rejected(Rejected),
    /// It could not be declared: [`DeclareError::Disconnected`] means here that the client is closed.
    #[error(transparent)]
    Declare(#[from] DeclareError),
}

/// How often this client has degraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degradations {
    /// Since it was made.
    pub since_start: Tally,
    /// Since that was last reported, on a connection.
    pub unreported: Tally,
}

/// Degradations by what the agent did, and by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// It stopped.
    pub stopped: u64,
    /// It kept to its last plan.
    pub kept_last_plan: u64,
    /// It fell back to a function.
    pub fell_back: u64,
    /// [`Cause::Silence`].
    pub silence: u64,
    /// [`Cause::Conflicts`].
    pub conflicts: u64,
    /// [`Cause::Stale`].
    pub stale: u64,
    /// [`Cause::Tries`] and [`Cause::Time`].
    pub limits: u64,
}

impl Tally {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.stopped + self.kept_last_plan + self.fell_back
    }

    /// One more.
    pub(super) fn count(&mut self, degraded: &Degraded) {
        let by_conduct = match degraded.conduct {
            Conduct::Stop => &mut self.stopped,
            Conduct::KeepLastPlan(_) => &mut self.kept_last_plan,
            Conduct::FellBack => &mut self.fell_back,
        };
        *by_conduct += 1;
        let by_cause = match degraded.why.cause {
            Cause::Silence => &mut self.silence,
            Cause::Conflicts => &mut self.conflicts,
            Cause::Stale => &mut self.stale,
            Cause::Tries | Cause::Time => &mut self.limits,
        };
        *by_cause += 1;
    }

    /// What came on top of `earlier`, a former state of the same tally.
    pub(super) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            stopped: self.stopped - earlier.stopped,
            kept_last_plan: self.kept_last_plan - earlier.kept_last_plan,
            fell_back: self.fell_back - earlier.fell_back,
            silence: self.silence - earlier.silence,
            conflicts: self.conflicts - earlier.conflicts,
            stale: self.stale - earlier.stale,
            limits: self.limits - earlier.limits,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { stopped, kept_last_plan, fell_back, .. } = self;
        write!(
            f,
            "stopped {stopped} times, kept to its last plan {kept_last_plan} times, fell back {fell_back} times"
        )
    }
}
