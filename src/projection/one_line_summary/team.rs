//! What the events of squads and debates are about, on one line; says nothing of a ballot that is sealed.

use crate::projection::phrases;
use crate::projection::report::wording;
use crate::protocol::event::{ArenaEvent, Ask, CacheStep, CodeProposed, CritiqueIssued, WorkJudged};
use crate::protocol::{EventRef, text::names_shown};

/// What an event of a squad or a debate is about; none for any other.
pub(super) fn about(event: &ArenaEvent) -> Option<String> {
    use ArenaEvent as E;
    let per_cent = wording::per_cent;
    Some(match event {
        E::PlanStated(data) => format!("in {}", data.source),
        E::CodeProposed(data) => proposed(data),
        E::WorkJudged(data) => judged(data),
        E::CritiqueIssued(data) => critique(data),
        E::FindingClosed(data) => format!("{} settled by {}", data.id, data.source),
        E::InsightSurfaced(data) => format!("{} of {} sent to {}", data.source, data.from, data.to),
        E::RoleFailed(data) => format!("{}: {}", data.role, phrases::turn_cause(data.cause)),
        E::ClaimFlagged(data) => {
            let is = if data.contradicted { " is not so" } else { "" };
            format!("{}{is}: {}", phrases::claim_named(data), data.reason)
        }
        E::CacheHit(data) => format!("the run of session {}", data.body.session),
        E::CacheMissed(data) => {
            phrases::cache_miss(&data.body.reason).unwrap_or_else(|| "no recorded run yet".to_owned())
        }
        E::CacheStored(data) => phrases::counted(data.body.bytes, "byte"),
        E::CacheSkipped(data) => format!("{}: {}", skipped(data.step), data.reason),
        E::PatchApplied(data) => names_shown(&data.body.paths),
        E::PatchRefused(data) => format!("{}: {}", data.body.path, data.body.reason),
        E::RoundOpened(data) => format!("{} · {} of {}", data.phase, asked(data.ask), data.order.len()),
        E::BallotCast(data) if data.sealed => "sealed".to_owned(),
        E::BallotCast(data) => format!("{} · {} sure", data.phase, per_cent(data.confidence_pm)),
        E::PropositionsStated(data) => phrases::counted(data.count.into(), "proposition"),
        E::RatingsCast(data) if data.sealed => "sealed".to_owned(),
        E::RatingsCast(data) => {
            let rated = |one: &crate::protocol::event::Rating| {
                format!("{} {}", wording::name(one.proposition), wording::rating(one.rating))
            };
            data.ratings.iter().map(rated).collect::<Vec<_>>().join(", ")
        }
        E::BallotsRevealed(data) => phrases::counted(data.ballots.len() as u64, "ballot"),
        E::ConvergenceProbed(data) => {
            format!("{} · agreement {} by {}", data.phase, wording::measured(data.score_pm), data.scorer)
        }
        E::DebateGated(data) => data.reason.clone(),
        E::DebateShortened(data) => data.reason.clone(),
        E::VerdictReached(data) => format!("in {} · {} sure", data.source, per_cent(data.confidence_pm)),
        E::DissentRecorded(data) => {
            format!("{} against {}, by {}", data.spark, wording::names(&data.propositions), data.source)
        }
        _ => return None,
    })
}

fn proposed(data: &CodeProposed) -> String {
    let refs: Vec<_> = data.diff.iter().chain(&data.checks).map(EventRef::to_string).collect();
    if refs.is_empty() { "no change".to_owned() } else { format!("see {}", refs.join(", ")) }
}

fn judged(data: &WorkJudged) -> String {
    let parts = [
        ("", &data.own),
        ("by another process: ", &data.foreign),
        ("by a check or another process: ", &data.unknown),
        ("as before again: ", &data.restored),
        ("undone: ", &data.undone),
    ];
    let parts = parts.iter().filter(|(_, files)| !files.is_empty());
    let words: Vec<_> = parts.map(|(label, files)| format!("{label}{}", names_shown(*files))).collect();
    if words.is_empty() { "no change".to_owned() } else { words.join("; ") }
}

fn critique(data: &CritiqueIssued) -> String {
    let findings: Vec<&str> = data.findings.iter().map(|finding| finding.id.as_str()).collect();
    let findings = if findings.is_empty() { String::new() } else { format!(": {}", findings.join(", ")) };
    format!("{}{findings}", wording::judgement(data.verdict))
}

/// What the team cache was not asked for, given or used for.
pub fn skipped(step: CacheStep) -> &'static str {
    match step {
        CacheStep::Lookup => "not asked",
        CacheStep::Use => "the recorded run is not used",
        CacheStep::Store => "not stored",
        CacheStep::Unknown(_) => phrases::NEWER,
    }
}

fn asked(ask: Ask) -> &'static str {
    match ask {
        Ask::Ballot => "first ballots",
        Ask::Propositions => "the propositions",
        Ask::Ratings => "sealed ratings",
        Ask::Statement => "new ballots",
        Ask::Verdict => "the verdict",
        Ask::Unknown(_) => phrases::NEWER,
    }
}
