//! What the events of squads and debates are called in plain lines; shows no position while ballots are sealed.

use crate::projection::words;
use crate::protocol::EventRef;
use crate::protocol::event::{
    ArenaEvent, BallotsRevealed, CacheStep, ConvergenceProbed, CritiqueIssued, Judgement, PropositionsStated,
    VerdictReached,
};
use crate::protocol::expand::Lookup;

use super::{Line, Renderer, Tone, Who};

impl Renderer {
    /// The lines of a squad's or debate's event; none when it is no such event.
    pub(super) fn say_team(&self, event: &ArenaEvent, lookup: Lookup<'_>) -> Option<Vec<Line>> {
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
                let text = format!("{}: {}", data.role, words::turn_cause(data.cause));
                Line::new(Who::Spark(data.spark), "absent", Tone::Bad, text)
            }
            E::ClaimFlagged(data) => {
                let text = format!("claim {} of {}: {}", data.claim + 1, data.source, data.reason);
                Line::new(Who::Agon, "flag", Tone::Warn, text)
            }
            E::BallotCast(data) => {
                let seal = if data.sealed { "sealed, " } else { "" };
                let text = format!("{seal}{}, confidence {}", data.phase, per_cent(data.confidence_pm));
                Line::new(Who::Spark(data.spark), "ballot", Tone::Plain, text)
            }
            E::PropositionsStated(data) => say_propositions(data, lookup),
            E::RatingsCast(data) => {
                let shown: Vec<_> =
                    data.ratings.iter().map(|rating| format!("{:+}", rating.rating)).collect();
                let text = if data.sealed { "sealed".to_owned() } else { shown.join(" ") };
                Line::new(Who::Spark(data.spark), "rates", Tone::Plain, format!("{}: {text}", data.phase))
            }
            E::BallotsRevealed(data) => return Some(self.say_revealed(data, lookup)),
            E::ConvergenceProbed(data) => say_convergence(data),
            E::DebateGated(data) => Line::new(Who::Agon, "gate", Tone::Good, &data.reason),
            E::VerdictReached(data) => say_verdict(data),
            E::DissentRecorded(data) => {
                let on: Vec<_> = data.propositions.iter().map(|n| (n + 1).to_string()).collect();
                let text = format!("on {}, see {}", on.join(", "), data.source);
                Line::new(Who::Spark(data.spark), "dissent", Tone::Warn, text)
            }
            _ => return None,
        };
        Some(vec![line])
    }

    /// The sealed ballots, now that all are in.
    fn say_revealed(&self, data: &BallotsRevealed, lookup: Lookup<'_>) -> Vec<Line> {
        let text = words::counted(data.ballots.len() as u64, "ballot");
        let mut lines = vec![Line::new(Who::Agon, "reveal", Tone::Strong, text)];
        for ballot in &data.ballots {
            let Some(ArenaEvent::BallotCast(cast)) = lookup(*ballot) else { continue };
            if let Some(ArenaEvent::ModelAnswered(answer)) = lookup(cast.source) {
                lines.push(Line::said(Who::Spark(cast.spark), "ballot", Tone::Plain, &answer.body.text()));
            }
        }
        lines
    }
}

/// The moderator's list is neutral and shown at once; ballots that stand in for it are positions, still sealed.
fn say_propositions(data: &PropositionsStated, lookup: Lookup<'_>) -> Line {
    let text = format!("{} in dispute", words::counted(u64::from(data.count), "proposition"));
    let line = Line::new(Who::Agon, "dispute", Tone::Strong, text);
    match data.source.as_slice() {
        // One source of several propositions can only be the moderator's list.
        [only] if data.count > 1 => match lookup(*only) {
            Some(ArenaEvent::ModelAnswered(answer)) => line.with_whole(answer.body.text()),
            _ => line,
        },
        _ => line,
    }
}

/// What the team cache had, and why it is not used.
fn say_cache(event: &ArenaEvent) -> Line {
    use ArenaEvent as E;
    let (tone, text) = match event {
        E::CacheHit(data) => {
            let (hit, at) = (&data.body, data.body.stored_at);
            let when = format!("{} {} UTC", words::day(at), words::time_of_day(at));
            (Tone::Good, format!("found the run of session {} of {when}", hit.session))
        }
        E::CacheSkipped(data) => {
            let what = match data.step {
                CacheStep::Lookup => "not asked",
                CacheStep::Use => "the recorded run is not used",
                CacheStep::Store => "not stored",
            };
            (Tone::Plain, format!("{what}: {}", data.reason))
        }
        E::PatchRefused(data) => {
            let refused = &data.body;
            (Tone::Warn, format!("the recorded run does not fit: {}: {}", refused.path, refused.reason))
        }
        E::PatchApplied(data) => (Tone::Good, format!("applied: {}", data.body.paths.join(", "))),
        other => (Tone::Plain, other.kind().to_owned()),
    };
    Line::new(Who::Agon, "cache", tone, text)
}

fn say_critique(data: &CritiqueIssued) -> Line {
    let (word, tone) = match data.verdict {
        Judgement::Approve => ("approved", Tone::Good),
        Judgement::RequestChanges => ("changes requested", Tone::Warn),
    };
    let findings: Vec<_> = data
        .findings
        .iter()
        .map(|finding| {
            let place = match (&finding.file, finding.line) {
                (Some(file), Some(line)) => format!(" {file}:{line}"),
                (Some(file), None) => format!(" {file}"),
                (None, _) => String::new(),
            };
            format!("{} {}{place}: {}", finding.id, words::severity(finding.severity), finding.problem)
        })
        .collect();
    Line::new(Who::Spark(data.spark), "review", tone, word).with_whole(findings.join("\n"))
}

fn say_convergence(data: &ConvergenceProbed) -> Line {
    let flips = if data.flips.is_empty() {
        String::new()
    } else {
        format!(", {}", words::counted(data.flips.len() as u64, "flip"))
    };
    let collapse = if data.collapse { ", dissent vanished without a reason" } else { "" };
    let text = format!("{}: agreement {}{flips}{collapse}", data.phase, per_cent(data.score_pm));
    Line::new(Who::Agon, "converge", Tone::Plain, text)
}

fn say_verdict(data: &VerdictReached) -> Line {
    let count = |what: i8| data.upheld.iter().filter(|side| **side == what).count();
    let text = format!(
        "{} upheld, {} rejected, {} left open, confidence {}, see {}",
        count(1),
        count(-1),
        count(0),
        per_cent(data.confidence_pm),
        data.source
    );
    let differs: Vec<_> = data.differs.iter().map(|n| (n + 1).to_string()).collect();
    let detail = if differs.is_empty() {
        "same as the sealed majority".to_owned()
    } else {
        format!("differs from the sealed majority on {}", differs.join(", "))
    };
    Line::new(Who::Agon, "verdict", Tone::Strong, text).with(detail)
}

fn per_cent(per_mille: u32) -> String {
    match per_mille % 10 {
        0 => format!("{} %", per_mille / 10),
        tenth => format!("{}.{tenth} %", per_mille / 10),
    }
}
