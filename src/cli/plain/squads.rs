//! What the events of squads are called in plain lines; knows no debate.

use crate::projection::one_line_summary::about;
use crate::projection::phrases;
use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, CritiqueIssued, Finding, Judgement};
use crate::protocol::text::names_shown;

use super::{Line, Renderer, Tone, Who};

impl Renderer {
    /// The lines of a squad's event; none when it is no such event.
    pub(super) fn say_team(&self, event: &ArenaEvent) -> Option<Vec<Line>> {
        use ArenaEvent as E;
        let line = match event {
            E::CacheHit(_) | E::CacheSkipped(_) | E::PatchApplied(_) | E::PatchRefused(_) => say_cache(event),
            E::SparkIgnited(data) if !self.solo || self.options.full => {
                let text = format!("{} as {} on {}", data.role, data.persona, data.model);
                Line::new(Who::Spark(data.spark), "spark", Tone::Quiet, text)
            }
            E::PhaseShifted(data) => Line::new(Who::Agon, "phase", Tone::Strong, &data.to),
            E::PlanStated(data) => {
                Line::new(Who::Spark(data.spark), "plan", Tone::Plain, format!("see {}", data.source))
            }
            E::CodeProposed(data) => {
                let refs: Vec<_> = data.diff.iter().chain(&data.checks).map(EventRef::to_string).collect();
                let text =
                    if refs.is_empty() { "no change".to_owned() } else { format!("see {}", refs.join(", ")) };
                Line::new(Who::Spark(data.spark), "propose", Tone::Plain, text)
            }
            E::CritiqueIssued(data) => say_critique(data),
            E::FindingClosed(data) => {
                let text = format!("{} settled by {}", data.id, data.source);
                Line::new(Who::Agon, "finding", Tone::Good, text)
            }
            E::RoleFailed(data) => {
                let text = format!("{}: {}", data.role, phrases::turn_cause(data.cause));
                Line::new(Who::Spark(data.spark), "absent", Tone::Bad, text)
            }
            E::ClaimFlagged(data) => {
                let (is, tone) = if data.contradicted { (" is not so", Tone::Bad) } else { ("", Tone::Warn) };
                let text = format!("{}{is}: {}", phrases::claim_named(data), data.reason);
                Line::new(Who::Agon, "flag", tone, text)
            }
            _ => return None,
        };
        Some(vec![line])
    }
}

/// What the team cache had, and why it is not used.
fn say_cache(event: &ArenaEvent) -> Line {
    use ArenaEvent as E;
    let (tone, text) = match event {
        E::CacheHit(data) => {
            let (hit, at) = (&data.body, data.body.stored_at);
            let when = format!("{} {} UTC", phrases::day(at), phrases::time_of_day(at));
            (Tone::Good, format!("found the run of session {} of {when}", hit.session))
        }
        E::CacheSkipped(_) => (Tone::Plain, about(event)),
        E::PatchRefused(data) => {
            let refused = &data.body;
            (Tone::Warn, format!("the recorded run does not fit: {}: {}", refused.path, refused.reason))
        }
        E::PatchApplied(data) => (Tone::Good, format!("applied: {}", names_shown(&data.body.paths))),
        other => (Tone::Plain, other.kind().to_owned()),
    };
    Line::new(Who::Agon, "cache", tone, text)
}

fn say_critique(data: &CritiqueIssued) -> Line {
    let (word, tone) = match data.verdict {
        Judgement::Approve => ("approved", Tone::Good),
        Judgement::RequestChanges => ("changes requested", Tone::Warn),
        Judgement::Unknown(_) => (phrases::NEWER, Tone::Warn),
    };
    let finding = |found: &Finding| {
        format!("{} {}{}: {}", found.id, found.severity.word(), found.place(), found.problem)
    };
    let findings: Vec<_> = data.findings.iter().map(finding).collect();
    Line::new(Who::Spark(data.spark), "review", tone, word).with_whole(findings.join("\n"))
}
