//! What the events of squads and of the team cache say.

use super::{Body, Kind, Scene, Telling, Tone, Weight};
use crate::projection::phrases;
use crate::protocol::EventRef;
use crate::protocol::event::{
    CacheHit, CacheMissed, CacheSkipped, CacheStep, CacheStored, ClaimFlagged, CodeProposed, CritiqueIssued,
    Finding, InsightSurfaced, Judgement, PatchApplied, PatchRefused, WorkJudged,
};
use crate::protocol::text::names_shown;

fn cache(tone: Tone, head: String) -> Telling<'static> {
    Telling::new(Kind::Cache, head).toned(tone)
}

pub(super) fn hit(data: &CacheHit) -> Telling<'_> {
    let (day, time) = (phrases::day(data.stored_at), phrases::time_of_day(data.stored_at));
    let head = format!("found the run of session {} of {day} {time} UTC", data.session);
    cache(Tone::Good, head).over(Body::Answer((&data.answer).into()))
}

pub(super) fn missed(data: &CacheMissed) -> Telling<'static> {
    let words = phrases::cache_miss(&data.reason).unwrap_or_else(|| "no recorded run yet".to_owned());
    cache(Tone::Quiet, words).weighing(Weight::Routine)
}

pub(super) fn stored(data: &CacheStored) -> Telling<'static> {
    cache(Tone::Quiet, format!("stored, {}", phrases::counted(data.bytes, "byte"))).weighing(Weight::Routine)
}

pub(super) fn applied(data: &PatchApplied) -> Telling<'static> {
    cache(Tone::Good, format!("applied: {}", names_shown(&data.paths)))
}

pub(super) fn unfit(data: &PatchRefused) -> Telling<'static> {
    cache(Tone::Warn, format!("the recorded run does not fit: {}: {}", data.path, data.reason))
}

pub(super) fn skipped(data: &CacheSkipped) -> Telling<'static> {
    let step = match data.step {
        CacheStep::Lookup => "not asked",
        CacheStep::Use => "the recorded run is not used",
        CacheStep::Store => "not stored",
        CacheStep::Unknown(_) => phrases::NEWER,
    };
    cache(Tone::Plain, format!("{step}: {}", data.reason))
}

pub(super) fn proposed(data: &CodeProposed) -> Telling<'static> {
    let refs: Vec<_> = data.diff.iter().chain(&data.checks).map(EventRef::to_string).collect();
    if refs.is_empty() {
        return Telling::new(Kind::Proposes, "no change");
    }
    let checks = phrases::counted(data.checks.len() as u64, "check");
    Telling::new(Kind::Proposes, format!("a change, {checks}")).refs(format!("(see {})", refs.join(", ")))
}

/// Whose the changes are: news where they are not the squad's, or undone.
pub(super) fn work(data: &WorkJudged) -> Telling<'static> {
    let parts = [
        ("", &data.own),
        ("by another process: ", &data.foreign),
        ("by a check or another process: ", &data.unknown),
        ("as before again: ", &data.restored),
        ("undone: ", &data.undone),
    ];
    let parts = parts.iter().filter(|(_, files)| !files.is_empty());
    let words: Vec<_> = parts.map(|(label, files)| format!("{label}{}", names_shown(*files))).collect();
    let words = if words.is_empty() { "no change".to_owned() } else { words.join("; ") };
    let telling = Telling::new(Kind::Work, words).refs(format!("[{}]", data.diff));
    let others = [&data.foreign, &data.unknown, &data.undone];
    match others.iter().all(|files| files.is_empty()) {
        true => telling,
        false => telling.toned(Tone::Warn).weighing(Weight::News),
    }
}

pub(super) fn judged(data: &CritiqueIssued) -> Telling<'static> {
    let (word, tone) = match data.verdict {
        Judgement::Approve => ("approved", Tone::Good),
        Judgement::RequestChanges => ("changes requested", Tone::Warn),
        Judgement::Unknown(_) => (phrases::NEWER, Tone::Warn),
    };
    let finding = |found: &Finding| {
        format!("{} {}{}: {}", found.id, found.severity.word(), found.place(), found.problem)
    };
    let findings: Vec<_> = data.findings.iter().map(finding).collect();
    Telling::new(Kind::Review, word).toned(tone).with(Body::Rows(findings.join("\n")))
}

pub(super) fn sent(data: &InsightSurfaced, scene: &Scene<'_>) -> Telling<'static> {
    Telling::new(Kind::Sent, format!("to {}", (scene.name)(data.to))).refs(format!("[{}]", data.source))
}

pub(super) fn flagged(data: &ClaimFlagged) -> Telling<'static> {
    let (is, tone) = if data.contradicted { (" is not so", Tone::Bad) } else { ("", Tone::Warn) };
    Telling::new(Kind::Flag, format!("{}{is}: {}", phrases::claim_named(data), data.reason)).toned(tone)
}
