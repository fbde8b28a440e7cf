//! How a debate ended, as plain lines: verdict, sealed majority, who changed sides and why, minority, risks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::projection::safe_text::safe_line;
use crate::protocol::ballot::{self, names};
use crate::protocol::event::{
    ArenaEvent, BallotsRevealed, ConvergenceProbed, DissentRecorded, Flip, PropositionsStated, RatingsCast,
    RoundOpened, VerdictReached,
};
use crate::protocol::spec::Mode;
use crate::protocol::{Entry, EventRef, SparkId};

/// The end of a debate in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All of it, with newlines.
    pub text: String,
    /// True once there is a verdict, or the sealed majority stands for it.
    pub is_decided: bool,
    /// The last score; none before the first probe.
    pub score_pm: Option<u32>,
    /// Phases that were begun.
    pub phases: u32,
}

/// Sums up the last debate of a session; none when there was none.
pub fn debate_summary(entries: &[Arc<Entry>]) -> Option<Summary> {
    let is_debate = |entry: &&Arc<Entry>| match entry.fact() {
        Some(ArenaEvent::PromptGiven(data)) => matches!(data.mode, Mode::Debate(_)) && !entry.is_void(),
        _ => false,
    };
    let start = entries.iter().rposition(|entry| is_debate(&entry))?;
    let mut told = Told { entries, names: BTreeMap::new(), ..Told::empty(entries) };
    for (at, event) in entries.iter().skip(start).flat_map(|entry| entry.effective()) {
        told.take(at, event);
    }
    Some(told.summary())
}

/// A text of several lines without what could steer a terminal.
pub fn safe_block(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", safe_line(line))).collect()
}

struct Told<'a> {
    entries: &'a [Arc<Entry>],
    names: BTreeMap<SparkId, String>,
    rounds: Vec<(EventRef, &'a RoundOpened)>,
    stated: Option<&'a PropositionsStated>,
    revealed: Option<&'a BallotsRevealed>,
    ratings: Vec<(EventRef, &'a RatingsCast)>,
    probes: Vec<&'a ConvergenceProbed>,
    verdict: Option<(&'a VerdictReached, Option<&'a RoundOpened>)>,
    dissents: Vec<&'a DissentRecorded>,
    notes: Vec<String>,
    phases: u32,
}

impl<'a> Told<'a> {
    fn empty(entries: &'a [Arc<Entry>]) -> Self {
        Told {
            entries,
            names: BTreeMap::new(),
            rounds: Vec::new(),
            stated: None,
            revealed: None,
            ratings: Vec::new(),
            probes: Vec::new(),
            verdict: None,
            dissents: Vec::new(),
            notes: Vec::new(),
            phases: 0,
        }
    }

    fn take(&mut self, at: EventRef, event: &'a ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::SparkIgnited(data) => _ = self.names.insert(data.spark, data.role.clone()),
            E::PhaseShifted(data) => self.phases += u32::from(data.to != "verdict"),
            E::RoundOpened(data) => self.rounds.push((at, data)),
            E::PropositionsStated(data) => self.stated = Some(data),
            E::BallotsRevealed(data) => self.revealed = Some(data),
            E::RatingsCast(data) => self.ratings.push((at, data)),
            E::ConvergenceProbed(data) => self.probes.push(data),
            E::VerdictReached(data) => {
                self.verdict = Some((data, self.rounds.last().map(|(_, round)| *round)));
            }
            E::DissentRecorded(data) => self.dissents.push(data),
            E::DebateGated(data) => self.notes.push(format!("not worth a debate: {}", data.reason)),
            E::DebateShortened(data) => self.notes.push(format!("ended early: {}", data.reason)),
            E::RoleFailed(data) => {
                let cause = crate::projection::words::turn_cause(data.cause);
                self.notes.push(format!("{} was absent once: {cause}", data.role));
            }
            _ => {}
        }
    }

    fn event(&self, at: EventRef) -> Option<&'a ArenaEvent> {
        let entries: &'a [Arc<Entry>] = self.entries;
        entries.get(usize::try_from(at.seq).ok()?)?.events.get(usize::from(at.i))
    }

    fn name(&self, spark: SparkId) -> &str {
        self.names.get(&spark).map_or("somebody", String::as_str)
    }

    fn summary(&self) -> Summary {
        let mut text = String::new();
        self.verdict_lines(&mut text);
        self.proposition_lines(&mut text);
        self.flip_lines(&mut text);
        self.minority_lines(&mut text);
        self.convergence_lines(&mut text);
        if !self.notes.is_empty() {
            text.push_str("Notes\n");
            self.notes.iter().for_each(|note| _ = writeln!(text, "  {note}"));
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        Summary {
            text,
            is_decided: self.verdict.is_some(),
            score_pm: self.probes.last().map(|probe| probe.score_pm),
            phases: self.phases,
        }
    }

    /// The moderator's verdict and the risks it names, letters turned back into names.
    fn verdict_lines(&self, text: &mut String) {
        let Some((reached, round)) = self.verdict else {
            text.push_str("No verdict was reached. What there is so far:\n\n");
            return;
        };
        let Some(verdict) = ballot::verdict_of(reached.source, &|at| self.event(at)) else {
            text.push_str("The moderator gave no verdict; the sealed majority stands.\n\n");
            return;
        };
        let named = |words: &str| match round {
            Some(round) => match round.order.first() {
                Some(order) => names::named(words, round, order.spark),
                None => words.to_owned(),
            },
            None => words.to_owned(),
        };
        let _ = writeln!(text, "Verdict (confidence {} %)\n", reached.confidence_pm / 10);
        let _ = writeln!(text, "{}\n", named(verdict.answer.trim()));
        for ruling in &verdict.rulings {
            let _ = writeln!(text, "  on {}: {}", ruling.proposition, named(ruling.because.trim()));
        }
        text.push('\n');
        if !verdict.risks.is_empty() {
            text.push_str("Open risks\n");
            verdict.risks.iter().for_each(|risk| _ = writeln!(text, "  - {}", named(risk.trim())));
            text.push('\n');
        }
        if !verdict.minority.trim().is_empty() {
            let _ = writeln!(text, "The minority's case\n  {}\n", named(verdict.minority.trim()));
        }
    }

    fn proposition_lines(&self, text: &mut String) {
        let Some(stated) = self.stated else { return };
        text.push_str("Propositions: sealed vote, verdict\n");
        let propositions = ballot::propositions_of(stated, &|at| self.event(at));
        for (n, proposition) in propositions.iter().enumerate() {
            let vote = self.revealed.and_then(|revealed| revealed.majority.get(n));
            let ruled = self.verdict.and_then(|(reached, _)| reached.upheld.get(n));
            let differs = self
                .verdict
                .is_some_and(|(reached, _)| reached.differs.iter().any(|d| usize::try_from(*d) == Ok(n)));
            let mark = if differs { "  <- differs from the sealed vote" } else { "" };
            let vote = vote.map_or("not taken", |vote| ["against", "tied", "for"][side(*vote)]);
            let ruled = ruled.map_or("none", |ruled| ["rejected", "open", "upheld"][side(*ruled)]);
            let _ = writeln!(
                text,
                "  {}. {}\n     vote {vote}, verdict {ruled}{mark}",
                n + 1,
                proposition.trim()
            );
        }
        text.push('\n');
    }

    fn flip_lines(&self, text: &mut String) {
        let flips: Vec<(&str, &Flip)> = self
            .probes
            .iter()
            .flat_map(|probe| probe.flips.iter().map(|flip| (probe.phase.as_str(), flip)))
            .collect();
        text.push_str("Changed sides\n");
        if flips.is_empty() {
            text.push_str("  nobody\n");
        }
        for (phase, flip) in flips {
            let Flip { spark, proposition, from, to } = flip;
            let _ = writeln!(
                text,
                "  {} on {} in {phase}: {from:+} to {to:+}",
                self.name(*spark),
                proposition + 1
            );
            match self.reason(phase, flip) {
                Some(reason) => _ = writeln!(text, "     because {reason}"),
                None => text.push_str("     gave no reason\n"),
            }
            if let Some(condition) = self.condition(*spark) {
                let _ = writeln!(text, "     had asked for: {condition}");
            }
        }
        text.push('\n');
    }

    fn reason(&self, phase: &str, flip: &Flip) -> Option<String> {
        let mut casts = self.ratings.iter();
        let (at, _) = casts.rfind(|(_, cast)| cast.spark == flip.spark && cast.phase == phase)?;
        let changes = ballot::changes_of(*at, &|at| self.event(at));
        let (_, because) = changes.into_iter().find(|(proposition, _)| *proposition == flip.proposition)?;
        let (_, round) = self.rounds.iter().rfind(|(opened, _)| opened < at)?;
        Some(names::named(because.trim(), round, flip.spark))
    }

    /// What a debater's sealed ballot said would change its mind.
    fn condition(&self, spark: SparkId) -> Option<String> {
        let cast = self.revealed?.ballots.iter().find(|at| match self.event(**at) {
            Some(ArenaEvent::BallotCast(cast)) => cast.spark == spark,
            _ => false,
        })?;
        ballot::ballot_of(*cast, &|at| self.event(at)).map(|ballot| ballot.would_change.trim().to_owned())
    }

    fn minority_lines(&self, text: &mut String) {
        if self.verdict.is_none() {
            return;
        }
        text.push_str("Still against the verdict\n");
        if self.dissents.is_empty() {
            text.push_str("  nobody\n");
        }
        for dissent in &self.dissents {
            let on: Vec<String> = dissent.propositions.iter().map(|n| (n + 1).to_string()).collect();
            let ballot = ballot::ballot_of(dissent.source, &|at| self.event(at));
            let position = ballot.map(|ballot| ballot.position.trim().to_owned()).unwrap_or_default();
            let _ = writeln!(text, "  {} on {}: {position}", self.name(dissent.spark), on.join(", "));
        }
        text.push('\n');
    }

    fn convergence_lines(&self, text: &mut String) {
        let Some(last) = self.probes.last() else { return };
        text.push_str("Convergence, 0 opposed to 1000 agreed\n");
        for probe in &self.probes {
            let collapse = if probe.collapse { ", dissent vanished without a reason" } else { "" };
            let _ = writeln!(text, "  {:<20} {:>4}{collapse}", probe.phase, probe.score_pm);
        }
        let votes = last.effective_votes_pm;
        let _ = writeln!(
            text,
            "  independent votes by model family: at most {}.{}\n",
            votes / 1000,
            votes % 1000 / 100
        );
    }
}

fn side(sign: i8) -> usize {
    match sign.signum() {
        -1 => 0,
        0 => 1,
        _ => 2,
    }
}
