//! What an event says to a person, said once for every view: plain output, the screen's story, reports and `agon why` lay
//! a telling out and have no words of their own for an event.
//!
//! A view makes a [`Scene`] of what it knows and asks an event for its tellings. Of each it shows the word or the mark of
//! its [`Kind`], then `head`, how it ended, and the body; it leaves out what its [`Weight`] says it need not show, and
//! bodies that are folded. One line of everything is [`line_of`]. Nothing in a telling is safe for a terminal or for
//! HTML yet: making it so is the view's.

mod debate;
mod kind;
mod model;
pub mod orders;
mod session;
mod team;
mod tool;

use std::borrow::Cow;

use super::calls::{OpenCalls, ToolFace, target};
use super::matrix::Matrix;
use super::phrases;
use crate::protocol::event::{ArenaEvent, ToolUse};
use crate::protocol::expand::Lookup;
use crate::protocol::message::Part;
use crate::protocol::{EventRef, SparkId};

pub use kind::{Kind, Spoken, Tone, Weight, Who};

/// Characters of one line of everything.
const LINE: usize = 300;

/// What stands under a telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Nothing.
    Nothing,
    /// What somebody said: part of the line where it is one, and never cut.
    Said(Cow<'a, str>),
    /// What a model answers: Markdown, or JSON that programs read; never cut.
    Answer(Cow<'a, str>),
    /// Sentences, each a line that a view wraps; never cut.
    Prose(String),
    /// Lines as they are, never cut.
    Rows(String),
    /// What a program wrote; it may be cut.
    Output(Cow<'a, str>),
    /// A unified diff; it may be cut.
    Diff(Cow<'a, str>),
}

impl Body<'_> {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Body::Nothing => "",
            Body::Said(text) | Body::Answer(text) | Body::Output(text) | Body::Diff(text) => text,
            Body::Prose(text) | Body::Rows(text) => text,
        }
    }
}

/// One thing that an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling<'a> {
    /// Whose it is.
    pub who: Who,
    /// What it is.
    pub kind: Kind,
    /// What a colour may say again.
    pub tone: Tone,
    /// Which views show it.
    pub weight: Weight,
    /// The line itself; empty where the body is the line.
    pub head: Cow<'a, str>,
    /// How it ended, which a view may set apart: `exit 0 · 12 ms`.
    pub end: String,
    /// Numbers by which other lines speak of it, for lists: `(call-6)`, `[e42]`.
    pub refs: String,
    /// What stands under it.
    pub body: Body<'a>,
    /// True when the body is shown only where everything is.
    pub is_folded: bool,
    /// The event it is about, where that is another one.
    pub of: Option<EventRef>,
}

impl<'a> Telling<'a> {
    /// What agon or a spark says or does.
    fn new(kind: Kind, head: impl Into<Cow<'a, str>>) -> Self {
        let (tone, weight) = kind.usual();
        let (head, end, refs) = (head.into(), String::new(), String::new());
        let (body, is_folded) = (Body::Nothing, false);
        Telling { who: Who::Its, kind, tone, weight, head, end, refs, body, is_folded, of: None }
    }

    /// What an agent or a person says, and nothing else.
    fn said(kind: Kind, text: impl Into<Cow<'a, str>>) -> Self {
        Telling::new(kind, "").with(Body::Said(text.into()))
    }

    /// That another model answered than the one that was asked, which no event says by itself.
    pub fn other_model(words: String) -> Self {
        Telling::new(Kind::OtherModel, words)
    }

    /// It is the person's.
    fn by_you(self) -> Self {
        Telling { who: Who::You, ..self }
    }

    fn of_spark(self, spark: SparkId) -> Self {
        Telling { who: Who::Spark(spark), ..self }
    }

    fn toned(self, tone: Tone) -> Self {
        Telling { tone, ..self }
    }

    fn weighing(self, weight: Weight) -> Self {
        Telling { weight, ..self }
    }

    fn ended(self, end: impl Into<String>) -> Self {
        Telling { end: end.into(), ..self }
    }

    fn refs(self, refs: impl Into<String>) -> Self {
        Telling { refs: refs.into(), ..self }
    }

    fn with(self, body: Body<'a>) -> Self {
        Telling { body, ..self }
    }

    /// With a body that is shown only where everything is.
    fn over(self, body: Body<'a>) -> Self {
        Telling { body, is_folded: true, ..self }
    }

    /// The same failure as the one before, with the same words.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.head = format!("{}, with the same words", self.head).into();
        Telling { body: Body::Nothing, ..self }
    }

    /// Head and end; of what is only said that, where it is one line.
    pub fn line(&self) -> Cow<'_, str> {
        let said = match &self.body {
            Body::Said(text) if !text.trim_matches('\n').contains('\n') => text.trim_matches('\n'),
            _ => "",
        };
        let parts = [self.head.as_ref(), &self.end, said];
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        match (parts.next(), parts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(next)) => {
                let rest = parts.map(|part| format!(": {part}")).collect::<String>();
                Cow::Owned(format!("{first}: {next}{rest}"))
            }
        }
    }

    /// The line with its numbers.
    pub fn line_with_refs(&self) -> String {
        let (line, refs) = (self.line(), self.refs.as_str());
        [line.as_ref(), refs].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// The body that is still to be shown under the line.
    pub fn rest(&self) -> &Body<'a> {
        match &self.body {
            Body::Said(text) if !text.trim_matches('\n').contains('\n') => &Body::Nothing,
            body => body,
        }
    }
}

/// What a view knows beside the event.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Microseconds since the Unix epoch when it happened; 0 where the view shows that itself.
    pub time: u64,
    /// Finds earlier events.
    pub lookup: Lookup<'a>,
    /// The calls that are open before it, where they are known.
    pub calls: Option<&'a OpenCalls>,
    /// Of a resume: what was under way before it, by its order, and how many calls more.
    pub left: Option<(EventRef, usize)>,
    /// The debate it is part of, as it was before it; none outside of one.
    pub debate: Option<&'a Matrix>,
    /// What a spark is called.
    pub name: &'a dyn Fn(SparkId) -> String,
}

fn number(spark: SparkId) -> String {
    spark.to_string()
}

impl<'a> Scene<'a> {
    /// A view that knows the log and nothing else.
    pub fn of(lookup: Lookup<'a>) -> Self {
        Scene { time: 0, lookup, calls: None, left: None, debate: None, name: &number }
    }

    /// A tool call as people speak of it.
    fn tool(&self, tool_use: ToolUse) -> String {
        let known = self.calls.and_then(|calls| calls.tool(tool_use)).map(ToolFace::words);
        let unnamed = || format!("tool call {} of {}", tool_use.part, tool_use.answer);
        known.or_else(|| Some(face(tool_use, self.lookup)?.words())).unwrap_or_else(unnamed)
    }

    /// The name of its tool.
    fn tool_name(&self, tool_use: ToolUse) -> String {
        let known = self.calls.and_then(|calls| calls.tool(tool_use)).map(|face| face.tool.clone());
        known.or_else(|| Some(face(tool_use, self.lookup)?.tool)).unwrap_or_else(|| "tool".to_owned())
    }

    /// True while what the debaters hold is sealed.
    fn is_sealed(&self) -> bool {
        self.debate.is_some_and(|debate| debate.is_sealed)
    }
}

/// A tool call as it was asked for.
pub fn face(tool_use: ToolUse, lookup: Lookup<'_>) -> Option<ToolFace> {
    let event = lookup(tool_use.answer)?;
    if let ArenaEvent::CacheHit(hit) = event {
        let tool = format!("recorded run of session {}", hit.body.session);
        return Some(ToolFace { spark: None, tool, target: String::new(), inside: None });
    }
    let ArenaEvent::ModelAnswered(answer) = event else { return None };
    asked(answer.body.message.get(usize::from(tool_use.part))?)
}

/// The tool call in a part of an answer; none in any other part.
fn asked(part: &Part) -> Option<ToolFace> {
    let Part::Call { name, args, .. } = part else { return None };
    Some(ToolFace { spark: None, tool: name.clone(), target: target(args), inside: None })
}

/// The first characters of a digest: enough to tell it from others.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// An event on one line, for lists and chains of events.
pub fn line_of(event: &ArenaEvent, scene: &Scene<'_>) -> String {
    let told = event.telling(scene);
    let lines = told.iter().filter(|one| !matches!(one.kind, Kind::Thought | Kind::Usage)).map(|one| {
        let said = match one.rest() {
            Body::Said(text) | Body::Answer(text) => phrases::start(text, LINE),
            _ => String::new(),
        };
        let mark = if one.kind == Kind::Wants { "→ " } else { "" };
        format!("{mark}{} {said}", one.line_with_refs())
    });
    phrases::start(&lines.collect::<Vec<_>>().join("  "), LINE)
}

impl ArenaEvent {
    /// What it says to a person.
    pub fn telling<'a>(&'a self, scene: &Scene<'_>) -> Vec<Telling<'a>> {
        use ArenaEvent as E;
        match self {
            E::SessionOpened(data) => vec![session::opened(data, scene)],
            E::SessionResumed(data) => session::resumed(data, scene),
            E::SessionForked(data) => session::forked(data),
            E::SessionPaused(data) => vec![Telling::new(Kind::Paused, phrases::pause_cause(data.cause))],
            E::StopRequested(data) => vec![session::stopped(data)],
            E::FaultRecovered(data) => vec![session::recovered(data)],
            E::PromptGiven(data) => session::prompt(data),
            E::SteeringGiven(data) => vec![Telling::said(Kind::Steer, &data.text).by_you()],
            E::InterruptRequested(_) => vec![Telling::new(Kind::Stop, "interrupted").by_you()],
            E::SettingsChanged(data) => session::settings(&data.changed),
            E::TurnRewound(data) => vec![Telling::new(Kind::Undo, phrases::rewound(data)).by_you()],
            E::ApprovalAnswered(data) => vec![tool::approved(data)],
            E::QuestionAnswered(data) => vec![Telling::said(Kind::Answer, &data.text).by_you()],
            E::ModelAnswered(data) => model::answered(data.call, &data.body, scene),
            E::ModelFailed(data) => model::failed(&data.body, scene),
            E::ToolPrepared(data) => vec![tool::prepared(&data.body, scene)],
            E::HostAsked(data) => vec![tool::connects(data, scene)],
            E::GateAnswered(data) => vec![tool::gated(&data.body, scene)],
            E::ToolResolved(data) => vec![tool::resolved(&data.body, scene)],
            E::CheckRan(data) => vec![tool::checked(&data.body)],
            E::BackgroundEnded(data) => vec![tool::ended(data, scene)],
            E::TimerFired(data) => vec![tool::fired(data)],
            E::EffectFailed(data) => vec![tool::failed(data, scene)],
            E::CacheHit(data) => vec![team::hit(&data.body)],
            E::CacheMissed(data) => vec![team::missed(&data.body)],
            E::CacheStored(data) => vec![team::stored(&data.body)],
            E::WorkspaceFingerprinted(data) => vec![tool::fingerprinted(&data.body)],
            E::WorkspaceCheckpointed(data) => vec![tool::recorded(&data.body)],
            E::DiffTaken(data) => vec![tool::compared(&data.body)],
            E::PatchApplied(data) => vec![team::applied(&data.body)],
            E::PatchRefused(data) => vec![team::unfit(&data.body)],
            E::ToolsListed(data) => vec![Telling::new(Kind::Tools, phrases::listed(&data.body))],
            E::MentionExpanded(data) => vec![tool::read(&data.body)],
            E::Unknown { kind, raw } => vec![session::unknown(kind, raw)],
            E::TurnOpened(_) | E::TurnClosed(_) | E::SessionSealed(_) => self.decision(scene),
            E::SparkIgnited(_) | E::SparkCompleted(_) | E::ModelCalled(_) => self.decision(scene),
            E::RetryScheduled(_) | E::ParamsDropped(_) | E::FallbackTaken(_) => self.decision(scene),
            E::EffectOrdered(_) | E::ToolInvoked(_) | E::ToolRefused(_) => self.decision(scene),
            E::ToolAnswered(_) | E::PolicyDecided(_) | E::ApprovalRequested(_) => self.decision(scene),
            E::HostJudged(_) | E::CallCancelled(_) | E::CallLost(_) => self.decision(scene),
            E::OutcomeIgnored(_) | E::InputRefused(_) | E::NoticeGiven(_) => self.decision(scene),
            E::AnswerRejected(_) | E::BudgetReserved(_) | E::BudgetSettled(_) => self.decision(scene),
            E::LimitReached(_) | E::ContextCompacted(_) | E::PhaseShifted(_) => self.decision(scene),
            E::RoundOpened(_) | E::PlanStated(_) | E::CodeProposed(_) => self.decision(scene),
            E::CritiqueIssued(_) | E::FindingClosed(_) | E::InsightSurfaced(_) => self.decision(scene),
            E::RoleFailed(_) | E::ClaimFlagged(_) | E::CacheSkipped(_) => self.decision(scene),
            E::BallotCast(_) | E::PropositionsStated(_) | E::RatingsCast(_) => self.decision(scene),
            E::BallotsRevealed(_) | E::ConvergenceProbed(_) | E::DebateGated(_) => self.decision(scene),
            E::DebateShortened(_) | E::VerdictReached(_) | E::DissentRecorded(_) => self.decision(scene),
            E::WorkJudged(_) => self.decision(scene),
        }
    }

    /// The same of a decision; nothing for a fact.
    fn decision<'a>(&'a self, scene: &Scene<'_>) -> Vec<Telling<'a>> {
        use ArenaEvent as E;
        let one = match self {
            E::TurnOpened(data) => Telling::new(Kind::Turn, data.turn.to_string()),
            E::TurnClosed(data) => session::closed(data),
            E::SessionSealed(data) => session::sealed(data),
            E::SparkIgnited(data) => return session::ignited(data, scene),
            E::SparkCompleted(data) => session::completed(data),
            E::ModelCalled(data) => model::called(data),
            E::RetryScheduled(data) => model::retried(data),
            E::ParamsDropped(data) => Telling::new(Kind::Dropped, phrases::dropped(data)),
            E::FallbackTaken(data) => model::fell_back(data),
            E::EffectOrdered(data) => tool::ordered(data, scene),
            E::ToolInvoked(data) => tool::invoked(data, scene),
            E::ToolRefused(data) => tool::refused(data, scene),
            E::ToolAnswered(data) => tool::answered(data, scene),
            E::PolicyDecided(data) => tool::judged(data, scene),
            E::ApprovalRequested(data) => tool::asked(data, scene),
            E::HostJudged(data) => tool::connection(data, scene),
            E::CallCancelled(data) => {
                Telling::new(Kind::Cancel, data.call.to_string()).ended(data.reason.as_str())
            }
            E::CallLost(data) => tool::lost(data, scene),
            E::OutcomeIgnored(data) => Telling::new(Kind::Ignored, &data.reason),
            E::InputRefused(data) => Telling::new(Kind::Refused, &data.reason).toned(Tone::Warn),
            E::NoticeGiven(data) => session::notice(data, scene),
            E::AnswerRejected(data) => model::rejected(data),
            E::BudgetReserved(data) => model::reserved(data),
            E::BudgetSettled(data) => model::settled(data),
            E::LimitReached(data) => model::limited(data),
            E::ContextCompacted(data) => model::compacted(data, scene),
            E::PhaseShifted(data) => Telling::new(Kind::Phase, phrases::spaced(&data.to)),
            E::PlanStated(data) => Telling::new(Kind::Plan, format!("stated in {}", data.source)),
            E::CodeProposed(data) => team::proposed(data),
            E::WorkJudged(data) => team::work(data),
            E::CritiqueIssued(data) => team::judged(data),
            E::FindingClosed(data) => {
                Telling::new(Kind::Finding, format!("{} settled", data.id)).refs(format!("[{}]", data.source))
            }
            E::InsightSurfaced(data) => team::sent(data, scene),
            E::RoleFailed(data) => Telling::new(Kind::Absent, phrases::turn_cause(data.cause)),
            E::ClaimFlagged(data) => team::flagged(data),
            E::CacheSkipped(data) => team::skipped(data),
            E::RoundOpened(data) => debate::round(data),
            E::BallotCast(data) => debate::ballot(data, scene),
            E::PropositionsStated(data) => debate::stated(data, scene),
            E::RatingsCast(data) => debate::rated(data, scene),
            E::BallotsRevealed(data) => return debate::revealed(data, scene),
            E::ConvergenceProbed(data) => debate::probed(data, scene),
            E::DebateGated(data) => debate::over(Kind::Gated, "not worth a debate", &data.reason),
            E::DebateShortened(data) => debate::over(Kind::Shortened, "no further phase", &data.reason),
            E::VerdictReached(data) => return debate::verdict(data, scene),
            E::DissentRecorded(data) => debate::dissent(data),
            E::SessionOpened(_) | E::SessionResumed(_) | E::SessionForked(_) => return Vec::new(),
            E::SessionPaused(_) | E::StopRequested(_) | E::FaultRecovered(_) => return Vec::new(),
            E::PromptGiven(_) | E::SteeringGiven(_) | E::InterruptRequested(_) => return Vec::new(),
            E::SettingsChanged(_) | E::TurnRewound(_) | E::ApprovalAnswered(_) => return Vec::new(),
            E::QuestionAnswered(_) | E::ModelAnswered(_) | E::ModelFailed(_) => return Vec::new(),
            E::ToolPrepared(_) | E::GateAnswered(_) | E::ToolResolved(_) => return Vec::new(),
            E::CheckRan(_) | E::BackgroundEnded(_) => return Vec::new(),
            E::TimerFired(_) | E::EffectFailed(_) => return Vec::new(),
            E::CacheHit(_) | E::CacheMissed(_) | E::CacheStored(_) => return Vec::new(),
            E::WorkspaceFingerprinted(_) | E::WorkspaceCheckpointed(_) | E::DiffTaken(_) => {
                return Vec::new();
            }
            E::PatchApplied(_) | E::PatchRefused(_) | E::ToolsListed(_) => return Vec::new(),
            E::MentionExpanded(_) | E::HostAsked(_) | E::Unknown { .. } => return Vec::new(),
        };
        vec![one]
    }
}
