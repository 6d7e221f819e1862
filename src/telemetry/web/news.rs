//! What a page is told of a slot, as data. On the slot loop's thread it is only copied together, within named
//! bounds; it is put into words on the task of who asks.

use std::sync::Arc;

use crate::audit::{Record, StoredInput};
use crate::coordinator::{Decided, SlotReport};
use crate::limits;
use crate::resolver::{AgentOp, GrantView, Image, Input, Rank, Resolver, StandingView, UndecidedView};
use crate::types::{
    Blocker, Claim, Conflict, Decision, Intent, IntentKey, RenewDenial, Slot, Time, Verdict, Window,
};

/// One slot that was decided.
#[derive(Debug)]
pub(super) struct SlotNews {
    pub(super) slot: Slot,
    pub(super) at: Time,
    pub(super) inputs: usize,
    pub(super) decisions: usize,
    /// How it kept its time; no log says so.
    pub(super) report: Option<SlotReport>,
    pub(super) news: Vec<News>,
    /// Decisions beyond [`limits::PAGE_SLOT_NEWS`].
    pub(super) left_out: usize,
}

/// One decision about an intent, with what it was about.
#[derive(Debug)]
pub(super) struct News {
    pub(super) key: IntentKey,
    pub(super) at: Time,
    pub(super) verdict: Verdict,
    /// What ordered it; none where it was not placed in turn, or that is not known.
    pub(super) rank: Option<Rank>,
    pub(super) arrived: Option<Time>,
    pub(super) intent: Option<Arc<Intent>>,
    /// Of the claims of a grant.
    pub(super) windows: Vec<Window>,
    pub(super) waits_until: Option<Time>,
    /// What each that is in the way has there, as many as the verdict has blockers.
    pub(super) rivals: Vec<Option<Rival>>,
}

/// A claim that is in the way.
#[derive(Debug)]
pub(super) struct Rival {
    pub(super) claim: Claim,
    /// Of that claim; of a place that is only held, where its claim would begin is not known.
    pub(super) window: Option<Window>,
}

/// Where is looked up what an id stands for.
pub(super) trait Standings {
    fn look_up<'a>(&'a self, key: &'a IntentKey) -> Option<StandingView<'a>>;
}

impl Standings for Resolver {
    fn look_up<'a>(&'a self, key: &'a IntentKey) -> Option<StandingView<'a>> {
        Resolver::look_up(self, key)
    }
}

impl Standings for Image {
    fn look_up<'a>(&'a self, key: &'a IntentKey) -> Option<StandingView<'a>> {
        let standing = self.standing(key)?;
        let grant = standing.grant.as_ref().map(|it| GrantView {
            key,
            token: it.token,
            start: it.start,
            end: it.end,
            granted_at: it.granted_at,
            intent: &it.intent,
            windows: &it.windows,
        });
        let undecided = standing.undecided.as_ref().map(|it| UndecidedView {
            key,
            intent: &it.intent,
            arrival: it.arrival,
            waits_until: it.waits_from.after(it.intent.wait),
            offer: it.told.as_deref().and_then(offer),
        });
        let ended = standing.ended.as_ref().map(|it| &it.intent);
        Some(StandingView { grant, undecided, ended })
    }
}

/// The start that was told with a conflict, where one was.
fn offer(verdict: &Verdict) -> Option<Time> {
    match verdict {
        Verdict::Conflict(conflict) => conflict.offer,
        Verdict::Revoked { offer, .. } => *offer,
        _ => None,
    }
}

impl SlotNews {
    /// What was decided just now.
    pub(super) fn live(report: &SlotReport, decided: &Decided<'_>) -> Self {
        let inputs = decided.batch.inputs();
        let declared = |at: usize| match inputs.get(at) {
            Some(Input::Agent { op: AgentOp::Declare(intent) | AgentOp::Revise(intent), .. }) => Some(intent),
            _ => None,
        };
        let arrivals = decided.outcome.arrivals.iter().copied().chain(std::iter::repeat(None));
        let ranks = decided.outcome.ranks.iter().copied().chain(std::iter::repeat(None));
        let decisions = decided.outcome.decisions.iter().zip(arrivals.zip(ranks));
        let told = decisions.filter(|(decision, _)| is_news(decision));
        let mut all = SlotNews {
            slot: report.slot,
            at: report.at,
            inputs: report.inputs,
            decisions: report.decisions,
            report: Some(*report),
            news: Vec::new(),
            left_out: 0,
        };
        for (decision, (arrived, rank)) in told {
            all.push(|| {
                let declared = decision.answers.and_then(declared);
                let news = News::of(decision, report.at, declared, decided.resolver);
                News { arrived: arrived.or(news.arrived), rank, ..news }
            });
        }
        all
    }

    /// What a record says; `image` is the state after it.
    pub(super) fn recorded(record: &Record, image: &Image) -> Self {
        let declared = |at: usize| match record.inputs.get(at) {
            Some(StoredInput::Agent { op: AgentOp::Declare(intent) | AgentOp::Revise(intent), .. }) => {
                Some(intent)
            }
            _ => None,
        };
        let mut all = SlotNews {
            slot: record.slot,
            at: record.at,
            inputs: record.inputs.len(),
            decisions: record.decisions.len(),
            report: None,
            news: Vec::new(),
            left_out: 0,
        };
        for decision in record.decisions.iter().filter(|decision| is_news(decision)) {
            all.push(|| News::of(decision, record.at, decision.answers.and_then(declared), image));
        }
        all
    }

    fn push(&mut self, news: impl FnOnce() -> News) {
        if self.news.len() < limits::PAGE_SLOT_NEWS {
            self.news.push(news());
        } else {
            self.left_out += 1;
        }
    }

    /// What it takes to keep, in claims.
    pub(super) fn weight(&self) -> usize {
        self.news.iter().map(News::weight).sum()
    }
}

/// Whether it changes anything that is shown: a repeat of what was told before does not.
fn is_news(decision: &Decision) -> bool {
    match &decision.verdict {
        Verdict::ReleasedUnknown | Verdict::RenewDenied(RenewDenial::Unknown) => false,
        Verdict::Rejected { .. }
        | Verdict::Released { .. }
        | Verdict::Renewed { .. }
        | Verdict::RenewDenied(_) => true,
        _ => decision.answers.is_none(),
    }
}

impl News {
    /// `declared` is what it answers, where that was refused on arrival and nothing stands for it.
    fn of(decision: &Decision, at: Time, declared: Option<&Intent>, all: &impl Standings) -> Self {
        let Decision { key, verdict, .. } = decision;
        let mut news = News {
            key: key.clone(),
            at,
            verdict: verdict.clone(),
            rank: None,
            arrived: None,
            intent: None,
            windows: Vec::new(),
            waits_until: None,
            rivals: rivals(blockers(verdict), all),
        };
        let Some(standing) = all.look_up(key) else {
            news.intent = declared.map(|intent| Arc::new(intent.clone()));
            return news;
        };
        match (verdict, &standing) {
            (Verdict::Rejected { .. }, _) => news.intent = declared.map(|intent| Arc::new(intent.clone())),
            (
                Verdict::Granted { .. } | Verdict::Moved { .. } | Verdict::Renewed { .. },
                StandingView { grant: Some(grant), .. },
            ) => news.holds(grant),
            (_, StandingView { undecided: Some(undecided), .. }) => news.waits(undecided),
            (_, StandingView { ended: Some(intent), .. }) => news.intent = Some(Arc::clone(intent)),
            (_, StandingView { grant: Some(grant), .. }) => news.intent = Some(Arc::clone(grant.intent)),
            _ => {}
        }
        news
    }

    /// A grant in force, as if it had just been given.
    pub(super) fn held(grant: &GrantView<'_>) -> Self {
        let GrantView { start, end, token, .. } = *grant;
        let mut news = News::plain(grant.key, grant.granted_at, Verdict::Granted { start, end, token });
        news.holds(grant);
        news
    }

    /// An intent that waits, as if it had just been told `told`.
    pub(super) fn waiting(undecided: &UndecidedView<'_>, told: Verdict, all: &impl Standings) -> Self {
        let mut news = News::plain(undecided.key, undecided.arrival, told);
        news.rivals = rivals(blockers(&news.verdict), all);
        news.waits(undecided);
        news
    }

    fn plain(key: &IntentKey, at: Time, verdict: Verdict) -> Self {
        let (key, windows, rivals) = (key.clone(), Vec::new(), Vec::new());
        News { key, at, verdict, rank: None, arrived: None, intent: None, windows, waits_until: None, rivals }
    }

    fn holds(&mut self, grant: &GrantView<'_>) {
        self.intent = Some(Arc::clone(grant.intent));
        self.windows = grant.windows.iter().take(limits::PAGE_CLAIMS).copied().collect();
    }

    fn waits(&mut self, undecided: &UndecidedView<'_>) {
        self.intent = Some(Arc::clone(undecided.intent));
        self.arrived = Some(undecided.arrival);
        self.waits_until = Some(undecided.waits_until);
    }

    pub(super) fn weight(&self) -> usize {
        1 + self.intent.as_ref().map_or(0, |intent| intent.claims.len()) + self.rivals.len()
    }
}

/// Who was in the way.
pub(super) fn blockers(verdict: &Verdict) -> &[Blocker] {
    match verdict {
        Verdict::Conflict(Conflict { blockers, .. })
        | Verdict::RenewDenied(RenewDenial::Kept { blockers, .. }) => blockers,
        _ => &[],
    }
}

/// What those in the way have there, as it stands after the slot.
fn rivals(blockers: &[Blocker], all: &impl Standings) -> Vec<Option<Rival>> {
    let rival = |blocker: &Blocker| {
        let standing = all.look_up(&blocker.key)?;
        match (blocker.token, standing.grant, standing.undecided) {
            (Some(token), Some(grant), _) if grant.token == token => Some(Rival {
                claim: grant.intent.claims.get(blocker.their_claim)?.clone(),
                window: grant.windows.get(blocker.their_claim).copied(),
            }),
            (None, _, Some(undecided)) => {
                Some(Rival { claim: undecided.intent.claims.get(blocker.their_claim)?.clone(), window: None })
            }
            _ => None,
        }
    };
    blockers.iter().map(rival).collect()
}
