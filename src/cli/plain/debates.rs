//! What the events of debates are called in plain lines: phase by phase, and nothing of a ballot while it is sealed.

use std::collections::{BTreeMap, BTreeSet};

use crate::projection::phrases;
use crate::projection::report::debate::{Talk, is_overruled};
use crate::projection::report::wording;
use crate::projection::wrapping::wrapped;
use crate::protocol::ballot::{self, names};
use crate::protocol::event::{
    ArenaEvent, Ask, BallotsRevealed, ConvergenceProbed, DissentRecorded, ModelReply, PromptGiven,
    PropositionsStated, Rating, RatingsCast, RoundOpened, VerdictReached,
};
use crate::protocol::expand::Lookup;
use crate::protocol::message::Part;
use crate::protocol::spec::Mode;
use crate::protocol::{EventRef, SparkId};

use super::{Line, Renderer, Tone, Who};

/// Columns of words below a line, beside their indent.
const COLUMNS: usize = 72;

/// What later lines of a debate refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct Debating {
    /// True from the question to the end of its turn.
    pub is_on: bool,
    /// True until the ballots are revealed.
    pub is_sealed: bool,
    /// The last `round_opened`.
    round: Option<EventRef>,
    /// True once anybody was asked after the seal was broken.
    talked: bool,
    /// How many were asked for a ballot, and who cast one.
    asked: usize,
    cast: BTreeSet<SparkId>,
    /// The last ratings of each debater.
    ratings: BTreeMap<SparkId, Vec<Rating>>,
    /// The probe that waits for the ballots to be revealed.
    held: Option<(EventRef, ConvergenceProbed)>,
    /// The plain majority of the sealed ratings, and where it was revealed.
    revealed: Option<(EventRef, Vec<i8>)>,
}

impl Debating {
    /// Folds one event.
    pub(super) fn fold(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(data) => {
                let is_on = matches!(data.mode, Mode::Debate(_));
                *self = Debating { is_on, is_sealed: is_on, ..Debating::default() };
            }
            E::RoundOpened(data) => {
                self.round = Some(at);
                self.talked |= data.ask == Ask::Statement;
                self.asked = self.asked.max(data.order.len());
            }
            E::BallotCast(data) => _ = self.cast.insert(data.spark),
            E::RatingsCast(data) => _ = self.ratings.insert(data.spark, data.ratings.clone()),
            E::ConvergenceProbed(data) if self.is_sealed => self.held = Some((at, data.clone())),
            E::BallotsRevealed(data) => {
                self.revealed = Some((at, data.majority.clone()));
                self.is_sealed = false;
                self.held = None;
            }
            E::DebateGated(_) | E::TurnClosed(_) => self.is_sealed = false,
            _ => {}
        }
    }
}

impl Renderer {
    /// The lines of a debate's event; none when it is no such event, or no debate is on.
    pub(super) fn say_debate(&self, event: &ArenaEvent, lookup: Lookup<'_>) -> Option<Vec<Line>> {
        use ArenaEvent as E;
        if let E::PromptGiven(data) = event {
            return matches!(data.mode, Mode::Debate(_)).then(|| vec![say_question(data)]);
        }
        let full = self.options.full;
        if !self.debating.is_on {
            return None;
        }
        let line = match event {
            E::SparkIgnited(data) => {
                Line::new(Who::Spark(data.spark), "joins", Tone::Quiet, format!("on {}", data.model))
            }
            E::PhaseShifted(data) => {
                Line::new(Who::Agon, "phase", Tone::Strong, wording::spaced(&data.to)).after_a_gap()
            }
            E::RoundOpened(data) => return Some(say_round(data).into_iter().collect()),
            // What is asked of each is the same every time.
            E::NoticeGiven(data) if data.notice == crate::protocol::event::Notice::Brief && !full => {
                return Some(Vec::new());
            }
            E::ModelAnswered(data) if !full => return self.say_typed(data.call, &data.body),
            E::BallotCast(data) if data.sealed => {
                Line::new(Who::Spark(data.spark), "ballot", Tone::Quiet, "cast, sealed")
            }
            E::BallotCast(_) => return Some(Vec::new()),
            E::PropositionsStated(data) => say_propositions(data, self.debating.is_sealed, lookup),
            E::RatingsCast(data) if data.sealed => {
                Line::new(Who::Spark(data.spark), "ratings", Tone::Quiet, "cast, sealed")
            }
            E::RatingsCast(data) => self.say_stand(data, lookup),
            E::BallotsRevealed(data) => return Some(self.say_revealed(data, lookup)),
            E::ConvergenceProbed(_) if self.debating.is_sealed => return Some(Vec::new()),
            E::ConvergenceProbed(data) => self.say_probe(data),
            E::DebateGated(data) => {
                Line::new(Who::Agon, "gate", Tone::Good, "not worth a debate").with(folded(&data.reason))
            }
            E::DebateShortened(data) => {
                Line::new(Who::Agon, "short", Tone::Good, "no further phase").with(folded(&data.reason))
            }
            E::VerdictReached(data) => self.say_verdict(data, lookup),
            E::DissentRecorded(data) => say_dissent(data),
            E::RoleFailed(data) => {
                Line::new(Who::Spark(data.spark), "absent", Tone::Bad, phrases::turn_cause(data.cause))
            }
            _ => return None,
        };
        Some(vec![line])
    }

    /// A typed answer is told by the event it becomes; what is said beside tool calls is told here.
    fn say_typed(&self, call: crate::protocol::CallId, reply: &ModelReply) -> Option<Vec<Line>> {
        let asks = reply.message.iter().any(|part| matches!(part, Part::Call { .. }));
        if asks { (self.debating.is_sealed).then(Vec::new) } else { Some(self.say_odd_end(call, reply)) }
    }

    /// Where somebody stands now, and why it changed sides.
    fn say_stand(&self, data: &RatingsCast, lookup: Lookup<'_>) -> Line {
        let Some(said) = ballot::ballot_of(data.source, lookup) else {
            return Line::new(Who::Spark(data.spark), "holds", Tone::Plain, ratings(&data.ratings));
        };
        let mut detail = vec![folded(&self.named(&said.position, data.spark, lookup))];
        for (proposition, because) in ballot::changes_of(data.source, lookup) {
            let because = self.named(&because, data.spark, lookup);
            detail.push(folded(&format!("changed on {}: {because}", wording::name(proposition))));
        }
        holds(data.spark, said.confidence, &ratings(&data.ratings), &detail.join("\n"))
    }

    /// Words with names in the place of letters.
    fn named(&self, text: &str, writer: SparkId, lookup: Lookup<'_>) -> String {
        match self.debating.round.and_then(lookup) {
            Some(ArenaEvent::RoundOpened(round)) => names::named(text.trim(), round, writer),
            _ => text.trim().to_owned(),
        }
    }

    /// The probe that waited for the seal to be broken, which stands before it in the log, then the ballots.
    fn say_revealed(&self, data: &BallotsRevealed, lookup: Lookup<'_>) -> Vec<Line> {
        let sides = (0u32..).zip(&data.majority);
        let sides = sides.map(|(n, side)| format!("{} {}", wording::name(n), wording::majority(Some(*side))));
        let sides: Vec<_> = sides.collect();
        let vote = format!("a plain vote would say: {}", sides.join(", "));
        let text = phrases::counted(data.ballots.len() as u64, "ballot");
        let line = Line::new(Who::Agon, "reveal", Tone::Strong, text);
        let mut lines: Vec<Line> =
            self.debating.held.iter().map(|(at, probe)| self.say_probe(probe).from(*at)).collect();
        lines.push(if sides.is_empty() { line } else { line.with_whole(folded(&vote)) });
        for at in &data.ballots {
            let (Some(ArenaEvent::BallotCast(cast)), Some(said)) =
                (lookup(*at), ballot::ballot_of(*at, lookup))
            else {
                continue;
            };
            let rated = self.debating.ratings.get(&cast.spark).map(|all| ratings(all)).unwrap_or_default();
            lines.push(holds(cast.spark, said.confidence, &rated, &folded(&said.position)));
        }
        lines
    }

    fn say_probe(&self, data: &ConvergenceProbed) -> Line {
        let label = |spark: SparkId| self.labels.get(&spark).cloned().unwrap_or_else(|| spark.to_string());
        let flips = data.flips.iter().map(|flip| {
            let (from, to) = (wording::rating(flip.from), wording::rating(flip.to));
            format!(
                "{} changed sides on {}, {from} \u{2192} {to}",
                label(flip.spark),
                wording::name(flip.proposition)
            )
        });
        let mut detail: Vec<String> = flips.collect();
        if data.collapse {
            detail.push("dissent vanished without a stated reason".to_owned());
        }
        let parts = data.parts.iter().map(|(name, value)| format!("{name} {}", wording::per_cent(*value)));
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            detail.push(folded(&parts.join(", ")));
        }
        let text = match data.score_pm {
            Some(score) => format!("{} agreed", wording::per_cent(score)),
            None => wording::NOT_MEASURED.to_owned(),
        };
        Line::new(Who::Agon, "score", Tone::Strong, text).with_whole(detail.join("\n"))
    }

    /// Propositions on which most voices end on the other side of the ruling.
    fn overruled(&self, upheld: &[i8]) -> Vec<u32> {
        let last = |n: u32| -> Vec<i8> {
            let all = self.debating.ratings.values().flatten();
            all.filter(|rating| rating.proposition == n).map(|rating| rating.rating).collect()
        };
        (0u32..).zip(upheld).filter(|(n, side)| is_overruled(**side, &last(*n))).map(|(n, _)| n).collect()
    }

    fn say_verdict(&self, data: &VerdictReached, lookup: Lookup<'_>) -> Line {
        let heard = format!("{} of {} heard", self.debating.cast.len(), self.debating.asked);
        let (revealed, majority) = self.debating.revealed.clone().unzip();
        let majority = majority.unwrap_or_default();
        let is_vote = revealed == Some(data.source);
        // A vote says for and against; only a moderator rules.
        let said = if is_vote { wording::majority } else { wording::upheld };
        let rulings = (0u32..).zip(&data.upheld);
        let rulings = rulings.map(|(n, side)| format!("{} {}", wording::name(n), said(Some(*side))));
        let sure = match is_vote {
            true => "none by the moderator; the sealed majority is used instead".to_owned(),
            false => format!("{} sure", wording::per_cent(data.confidence_pm)),
        };
        let text = format!("{sure}, {heard} [{}]", data.source);
        let tied: Vec<u32> =
            (0u32..).zip(&majority).filter(|(_, side)| **side == 0).map(|(n, _)| n).collect();
        let talk = Some(Talk::of(&majority, &data.differs, is_vote)).filter(|_| self.debating.talked);
        let talk = talk.and_then(|talk| wording::talk_of(&talk, &tied)).unwrap_or_default();
        let mut detail = vec![folded(&format!("{}. {talk}", rulings.collect::<Vec<_>>().join(", ")))];
        let overruled = self.overruled(&data.upheld);
        if !is_vote && !overruled.is_empty() {
            let on = wording::names(&overruled);
            detail.push(folded(&format!("The moderator overruled the panel on {on}.")));
        }
        let told = ballot::verdict_of(data.source, lookup);
        if let (Some(told), false) = (told, self.options.summed_up) {
            let moderator = match self.debating.round.and_then(lookup) {
                Some(ArenaEvent::RoundOpened(round)) => round.order.first().map(|order| order.spark),
                _ => None,
            };
            let answer =
                moderator.map_or(told.answer.clone(), |spark| self.named(&told.answer, spark, lookup));
            detail.push(folded(&answer));
        }
        Line::new(Who::Agon, "verdict", Tone::Good, text).with_whole(detail.join("\n"))
    }
}

/// Where somebody stands: how sure beside the name, and the ratings too where they are few.
fn holds(spark: SparkId, confidence: u32, ratings: &str, words: &str) -> Line {
    let sure = format!("{} sure", wording::per_cent(confidence.saturating_mul(10)));
    let fits = sure.chars().count() + 2 + ratings.chars().count() <= COLUMNS - 32;
    let (text, detail) = match fits {
        true => (format!("{ratings}  {sure}"), words.to_owned()),
        false => (sure, format!("{ratings}\n{words}")),
    };
    Line::new(Who::Spark(spark), "holds", Tone::Plain, text.trim_start()).with_whole(detail)
}

fn folded(text: &str) -> String {
    wrapped(text.trim(), COLUMNS).join("\n")
}

fn say_question(data: &PromptGiven) -> Line {
    let text = data.text.trim();
    // It was typed or is in a file: of a long one the ends are enough to know it by.
    Line::new(Who::You, "question", Tone::Strong, "").with(folded(text))
}

/// What is asked in a set of calls.
fn say_round(data: &RoundOpened) -> Option<Line> {
    let text = match data.ask {
        Ask::Ballot => "everybody alone, ballots stay sealed",
        Ask::Propositions => "the moderator what is in dispute",
        Ask::Ratings => "everybody to rate it, still alone",
        Ask::Statement => "everybody again, names hidden",
        Ask::Verdict | Ask::Unknown(_) => return None,
    };
    Some(Line::new(Who::Agon, "asks", Tone::Quiet, text))
}

fn ratings(all: &[Rating]) -> String {
    let one = |rating: &Rating| {
        format!("{} {:>2}", wording::name(rating.proposition), wording::rating(rating.rating))
    };
    all.iter().map(one).collect::<Vec<_>>().join("  ")
}

/// The moderator's list is neutral and shown at once; ballots that stand in for it are positions, still sealed.
fn say_propositions(data: &PropositionsStated, is_sealed: bool, lookup: Lookup<'_>) -> Line {
    let text = phrases::counted(u64::from(data.count), "proposition");
    let line = Line::new(Who::Agon, "dispute", Tone::Strong, text);
    let is_list = data.source.iter().all(|at| matches!(lookup(*at), Some(ArenaEvent::ModelAnswered(_))));
    if is_sealed && !is_list {
        return line;
    }
    let stated = ballot::propositions_of(data, lookup);
    let stated = (0u32..).zip(&stated).map(|(n, text)| {
        let rows = wrapped(text.trim(), COLUMNS - 4);
        format!("{}  {}", wording::name(n), rows.join("\n    "))
    });
    line.with_whole(stated.collect::<Vec<_>>().join("\n"))
}

fn say_dissent(data: &DissentRecorded) -> Line {
    let text = format!("against the verdict on {} [{}]", wording::names(&data.propositions), data.source);
    Line::new(Who::Spark(data.spark), "dissent", Tone::Warn, text)
}
