//! What the events of debates say: phase by phase, and nothing of a ballot while it is sealed.

use super::model::SEALED;
use super::{Body, Kind, Scene, Telling, Tone, Weight};
use crate::projection::phrases;
use crate::projection::report::debate::{Talk, is_overruled};
use crate::projection::report::wording;
use crate::projection::wrapping::hanging;
use crate::protocol::ballot::{self, names};
use crate::protocol::event::{
    ArenaEvent, Ask, BallotCast, BallotsRevealed, ConvergenceProbed, DissentRecorded, PropositionsStated,
    Rating, RatingsCast, RoundOpened, VerdictReached,
};
use crate::protocol::{EventRef, SparkId};

/// Columns of a proposition beside its indent.
const COLUMNS: usize = 72;

/// Columns of a line that ratings may take beside a name.
const BESIDE: usize = 40;

/// What is asked in a set of calls.
pub(super) fn round(data: &RoundOpened) -> Telling<'static> {
    let (text, weight) = match data.ask {
        Ask::Ballot => ("everybody alone, ballots stay sealed", Weight::News),
        Ask::Propositions => ("the moderator what is in dispute", Weight::News),
        Ask::Ratings => ("everybody to rate it, still alone", Weight::News),
        Ask::Statement => ("everybody again, names hidden", Weight::News),
        Ask::Verdict => ("the moderator for the verdict", Weight::Routine),
        Ask::Unknown(_) => (phrases::NEWER, Weight::Routine),
    };
    Telling::new(Kind::Round, text).weighing(weight)
}

/// Once the seal is broken a view that looks back shows how sure they were.
pub(super) fn ballot(data: &BallotCast, scene: &Scene<'_>) -> Telling<'static> {
    if data.sealed && scene.debate.is_none_or(|debate| debate.is_sealed) {
        return Telling::new(Kind::Ballot, "cast, sealed");
    }
    let head = format!("cast, {} sure", wording::per_cent(data.confidence_pm));
    Telling::new(Kind::Ballot, head).weighing(Weight::Aside)
}

/// The moderator's list is neutral and shown at once; ballots that stand in for it are positions, still sealed.
pub(super) fn stated(data: &PropositionsStated, scene: &Scene<'_>) -> Telling<'static> {
    let told = Telling::new(Kind::Dispute, phrases::counted(data.count.into(), "proposition"));
    let answers = |at: &EventRef| matches!((scene.lookup)(*at), Some(ArenaEvent::ModelAnswered(_)));
    if scene.is_sealed() && !data.source.iter().all(answers) {
        return told;
    }
    let texts = ballot::propositions_of(data, scene.lookup);
    let rows = (0u32..).zip(&texts);
    let rows = rows.map(|(n, text)| hanging(&format!("{}  ", wording::name(n)), text.trim(), COLUMNS));
    told.with(Body::Rows(rows.collect()))
}

/// Where somebody stands now, and why it changed sides.
pub(super) fn rated(data: &RatingsCast, scene: &Scene<'_>) -> Telling<'static> {
    if data.sealed {
        return Telling::new(Kind::Ratings, "cast, sealed");
    }
    let rated = ratings(&data.ratings);
    let Some(said) = ballot::ballot_of(data.source, scene.lookup).filter(|_| scene.debate.is_some()) else {
        return Telling::new(Kind::Holds, rated);
    };
    let mut words = vec![named(scene, &said.position, data.spark)];
    for (proposition, because) in ballot::changes_of(data.source, scene.lookup) {
        let because = named(scene, &because, data.spark);
        words.push(format!("changed on {}: {because}", wording::name(proposition)));
    }
    holds(data.spark, said.confidence, &rated, &words.join("\n"))
}

/// The probe that waited for the seal to be broken, which stands before it in the log, then the ballots.
pub(super) fn revealed(data: &BallotsRevealed, scene: &Scene<'_>) -> Vec<Telling<'static>> {
    let sides = (0u32..).zip(&data.majority);
    let sides = sides.map(|(n, side)| format!("{} {}", wording::name(n), wording::majority(Some(*side))));
    let sides: Vec<_> = sides.collect();
    let mut told = Vec::new();
    let held = scene.debate.and_then(|debate| debate.held);
    if let (Some(at), Some(ArenaEvent::ConvergenceProbed(probe))) = (held, held.and_then(scene.lookup)) {
        told.push(Telling { of: Some(at), ..measured(probe, scene) });
    }
    let line = Telling::new(Kind::Reveal, phrases::counted(data.ballots.len() as u64, "ballot"));
    told.push(match sides.is_empty() {
        true => line,
        false => line.with(Body::Prose(format!("a plain vote would say: {}", sides.join(", ")))),
    });
    for at in &data.ballots {
        let (Some(ArenaEvent::BallotCast(cast)), Some(said)) =
            ((scene.lookup)(*at), ballot::ballot_of(*at, scene.lookup))
        else {
            continue;
        };
        let rated = scene.debate.and_then(|debate| debate.rated_last(cast.spark)).map(ratings);
        told.push(holds(cast.spark, said.confidence, &rated.unwrap_or_default(), said.position.trim()));
    }
    told
}

pub(super) fn probed(data: &ConvergenceProbed, scene: &Scene<'_>) -> Telling<'static> {
    match scene.is_sealed() {
        true => Telling::new(Kind::Score, SEALED).weighing(Weight::Routine),
        false => measured(data, scene),
    }
}

fn measured(data: &ConvergenceProbed, scene: &Scene<'_>) -> Telling<'static> {
    let flips = data.flips.iter().map(|flip| {
        let (from, to) = (wording::rating(flip.from), wording::rating(flip.to));
        let (who, on) = ((scene.name)(flip.spark), wording::name(flip.proposition));
        format!("{who} changed sides on {on}, {from} \u{2192} {to}")
    });
    let mut words: Vec<String> = flips.collect();
    if data.collapse {
        words.push("dissent vanished without a stated reason".to_owned());
    }
    let parts = data.parts.iter().map(|(name, value)| format!("{name} {}", wording::per_cent(*value)));
    let parts: Vec<_> = parts.collect();
    if !parts.is_empty() {
        words.push(parts.join(", "));
    }
    let head = match data.score_pm {
        Some(score) => format!("{} agreed", wording::per_cent(score)),
        None => wording::NOT_MEASURED.to_owned(),
    };
    Telling::new(Kind::Score, head).with(Body::Prose(words.join("\n")))
}

/// It ends, for a reason of its own.
pub(super) fn over(kind: Kind, head: &'static str, reason: &str) -> Telling<'static> {
    Telling::new(kind, head).with(Body::Prose(reason.to_owned()))
}

/// The ruling, and how it stands to a plain vote; then the answer, which some views have elsewhere.
pub(super) fn verdict(data: &VerdictReached, scene: &Scene<'_>) -> Vec<Telling<'static>> {
    // A vote says for and against; only a moderator rules.
    let is_vote = matches!((scene.lookup)(data.source), Some(ArenaEvent::BallotsRevealed(_)));
    let said = if is_vote { wording::majority } else { wording::upheld };
    let rulings = (0u32..).zip(&data.upheld);
    let rulings: Vec<_> =
        rulings.map(|(n, side)| format!("{} {}", wording::name(n), said(Some(*side)))).collect();
    let head = match is_vote {
        true => "none by the moderator; the sealed majority is used instead".to_owned(),
        false => format!("{} sure", wording::per_cent(data.confidence_pm)),
    };
    let mut words = format!("{}.", rulings.join(", "));
    let mut heard = String::new();
    if let Some(debate) = scene.debate {
        if debate.asked > 0 {
            heard = format!(", {} of {} heard", debate.cast(), debate.asked);
        }
        let tied = (0u32..).zip(&debate.majority).filter(|(_, side)| **side == 0).map(|(n, _)| n);
        let tied: Vec<u32> = tied.collect();
        let talk = Some(Talk::of(&debate.majority, &data.differs, is_vote)).filter(|_| debate.has_talked);
        words.extend(talk.and_then(|talk| wording::talk_of(&talk, &tied)).map(|talk| format!(" {talk}")));
        let against = |(n, side): &(u32, &i8)| is_overruled(**side, &debate.last_ratings(*n));
        let overruled: Vec<u32> = (0u32..).zip(&data.upheld).filter(against).map(|(n, _)| n).collect();
        if !is_vote && !overruled.is_empty() {
            words += &format!("\nThe moderator overruled the panel on {}.", wording::names(&overruled));
        }
    }
    let refs = format!("[{}]", data.source);
    let mut told = vec![Telling::new(Kind::Verdict, head + &heard).refs(refs).with(Body::Prose(words))];
    if let Some(said) = ballot::verdict_of(data.source, scene.lookup) {
        let moderator = round_of(scene).and_then(|round| round.order.first()).map(|order| order.spark);
        let answer = moderator.map_or(said.answer.clone(), |spark| named(scene, &said.answer, spark));
        told.push(Telling::new(Kind::Ruling, "").with(Body::Prose(answer.trim().to_owned())));
    }
    told
}

pub(super) fn dissent(data: &DissentRecorded) -> Telling<'static> {
    let head = format!("against the verdict on {}", wording::names(&data.propositions));
    Telling::new(Kind::Dissent, head).refs(format!("[{}]", data.source))
}

fn round_of<'a>(scene: &Scene<'a>) -> Option<&'a RoundOpened> {
    let ArenaEvent::RoundOpened(round) = (scene.lookup)(scene.debate?.round?)? else { return None };
    Some(round)
}

/// Words with names in the place of letters.
fn named(scene: &Scene<'_>, text: &str, writer: SparkId) -> String {
    match round_of(scene) {
        Some(round) => names::named(text.trim(), round, writer),
        None => text.trim().to_owned(),
    }
}

/// Where somebody stands: how sure beside the name, and the ratings too where they are few.
fn holds(spark: SparkId, confidence: u32, ratings: &str, words: &str) -> Telling<'static> {
    let sure = format!("{} sure", wording::per_cent(confidence.saturating_mul(10)));
    let fits = sure.chars().count() + 2 + ratings.chars().count() <= BESIDE;
    let (head, words) = match fits {
        true => (format!("{ratings}  {sure}"), words.to_owned()),
        false => (sure, format!("{ratings}\n{words}")),
    };
    let told = Telling::new(Kind::Holds, head.trim_start().to_owned()).of_spark(spark);
    told.with(Body::Prose(words)).toned(Tone::Plain)
}

fn ratings(all: &[Rating]) -> String {
    let one = |rating: &Rating| {
        format!("{} {:>2}", wording::name(rating.proposition), wording::rating(rating.rating))
    };
    all.iter().map(one).collect::<Vec<_>>().join("  ")
}
