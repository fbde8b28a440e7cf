//! Folds a log's debates into their reports; reads ballots where the events point to them, invents no words.

use std::collections::{BTreeMap, BTreeSet};

use crate::projection::matrix::{self, Matrix};
use crate::protocol::event::{Ask, DissentRecorded, Flip, Rating, RoleFailed, SparkIgnited, VerdictReached};
use crate::protocol::spec::{DebatePlan, Mode, PersonaSpec, Setting};
use crate::protocol::{ArenaEvent, EventRef, SparkId};

use super::Log;
use super::debate::{
    Absence, DebateReport, DebateState, Debater, Dissent, Heard, Move, Phase, Proposition, Rated, Stand,
    Talk, Verdict, is_overruled,
};
use super::said;
use super::session::CostLine;
use super::voices::Voices;

/// The most propositions a report shows, whatever a log claims.
const MOST: u32 = 64;

/// The debates of a log, oldest first.
pub(super) fn debates(log: &Log<'_>, costs: &[CostLine]) -> Vec<DebateReport> {
    let mut fold = Fold { log, people: People::default(), prompt: None, open: None, done: Vec::new() };
    for entry in log.entries {
        entry.effective().for_each(|(at, event)| fold.apply(at, event));
    }
    fold.close();
    let People { personas, families } = &fold.people;
    for debate in &mut fold.done {
        for debater in &mut debate.debaters {
            let line = costs.iter().find(|line| line.spark == debater.spark && debater.spark.is_some());
            if let Some(line) = line {
                debater.model.clone_from(&line.model);
            }
            debater.family = families.get(&debater.model).cloned();
            debater.stance = personas.get(&debater.persona).cloned().flatten();
        }
    }
    fold.done
}

/// What the session knows of personas and models.
#[derive(Default)]
struct People {
    /// Stances by persona id.
    personas: BTreeMap<String, Option<String>>,
    /// Families by model.
    families: BTreeMap<String, String>,
}

impl People {
    fn persona(&mut self, spec: &PersonaSpec) {
        self.personas.insert(spec.id.clone(), spec.stance.clone());
    }

    fn change(&mut self, changed: &[Setting]) {
        for setting in changed {
            match setting {
                Setting::Persona { spec, .. } => self.persona(spec),
                Setting::Model { spec, .. } => {
                    self.families.extend(spec.family.clone().map(|family| (spec.name.clone(), family)));
                }
                _ => {}
            }
        }
    }
}

/// A debate while it is folded: its matrix, and what is said beside that.
struct Open {
    report: DebateReport,
    matrix: Matrix,
    voices: Voices,
    /// What the moderator was last asked for, which belongs to no phase.
    step: Option<String>,
    /// Results of tools, which ballots and the verdict may cite.
    results: BTreeSet<EventRef>,
    verdict: Option<VerdictReached>,
    dissents: Vec<DissentRecorded>,
}

struct Fold<'a> {
    log: &'a Log<'a>,
    people: People,
    prompt: Option<(EventRef, String, DebatePlan)>,
    open: Option<Open>,
    done: Vec<DebateReport>,
}

impl Fold<'_> {
    fn apply(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::SessionOpened(data) => {
                data.spec.personas.iter().for_each(|persona| self.people.persona(persona));
                let models = data.spec.models.iter();
                let rows = models.filter_map(|model| Some((model.name.clone(), model.family.clone()?)));
                self.people.families.extend(rows);
            }
            E::SettingsChanged(data) => self.people.change(&data.changed),
            E::SessionResumed(data) => self.people.change(&data.changed),
            E::SessionForked(data) => self.people.change(&data.changed),
            E::PromptGiven(data) => {
                self.people.change(&data.changed);
                self.prompt = match &data.mode {
                    Mode::Debate(plan) => Some((at, data.text.clone(), plan.clone())),
                    Mode::Solo | Mode::Squad | Mode::Unknown(_) => None,
                };
            }
            E::TurnOpened(data) => self.begin(data.turn),
            _ => {
                let log = self.log;
                if let Some(open) = &mut self.open {
                    open.apply(at, event, log);
                }
            }
        }
        if matches!(event, ArenaEvent::TurnClosed(_)) {
            self.close();
        }
    }

    fn begin(&mut self, turn: u32) {
        self.close();
        let Some((at, question, plan)) = self.prompt.take() else { return };
        let debater = |persona: &String| Debater {
            persona: persona.clone(),
            spark: None,
            stance: None,
            model: String::new(),
            family: None,
        };
        let report = DebateReport {
            turn,
            question,
            asked_in: Some(at),
            moderator: plan.moderator.clone(),
            scorer: plan.scorer.clone(),
            rounds: plan.rounds,
            debaters: plan.personas.iter().map(debater).collect(),
            ..DebateReport::default()
        };
        self.open = Some(Open {
            report,
            matrix: Matrix::sealed(),
            voices: Voices::default(),
            step: None,
            results: BTreeSet::new(),
            verdict: None,
            dissents: Vec::new(),
        });
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.done.push(open.finished(self.log));
        }
    }
}

impl Open {
    fn apply(&mut self, at: EventRef, event: &ArenaEvent, log: &Log<'_>) {
        use ArenaEvent as E;
        self.voices.apply(log, at, event);
        self.matrix.apply_event(at, event);
        match event {
            E::SparkIgnited(data) => self.ignited(data),
            // What the moderator is asked belongs to no phase.
            E::RoundOpened(data) => {
                let is_step = matches!(data.ask, Ask::Propositions | Ask::Verdict);
                self.step = is_step.then(|| data.phase.clone());
            }
            E::ToolResolved(_) => _ = self.results.insert(at),
            E::RoleFailed(data) => self.failed(at, data, log),
            E::DebateGated(data) => {
                self.report.state = DebateState::Gated(data.reason.clone());
                self.report.gated = Some(data.reason.clone());
            }
            E::DebateShortened(data) => self.report.shortened = Some(data.reason.clone()),
            E::VerdictReached(data) => {
                self.report.state = DebateState::Decided;
                self.verdict = Some(data.clone());
            }
            E::DissentRecorded(data) => self.dissents.push(data.clone()),
            E::TurnClosed(data) if self.report.state == DebateState::Open => {
                self.report.state = DebateState::Ended(data.cause);
            }
            _ => {}
        }
    }

    fn ignited(&mut self, data: &SparkIgnited) {
        let debater = self.report.debaters.iter_mut().find(|debater| debater.persona == data.persona);
        if let Some(debater) = debater {
            debater.spark = Some(data.spark);
            debater.model.clone_from(&data.model);
        }
    }

    fn failed(&mut self, at: EventRef, data: &RoleFailed, log: &Log<'_>) {
        let phase = self.step.clone().or_else(|| self.matrix.phases.last().map(name_of));
        let (persona, why) = (data.role.clone(), self.voices.why(log, data));
        self.report.absences.push(Absence { persona, phase, cause: data.cause, why, source: at });
    }

    /// A ballot in words, with names where its writer knew only letters.
    fn said(&self, log: &Log<'_>, at: EventRef) -> said::Ballot {
        let source = said::answer_of(log, at);
        let name = |words: String| said::marked(log, self.voices.named(log, Some(source), &words));
        said::ballot(log, at, &self.results).unwrap_or_default().renamed(&name)
    }

    /// The report once all is known.
    fn finished(mut self, log: &Log<'_>) -> DebateReport {
        self.report.phases = self.matrix.phases.iter().map(|phase| self.phase(log, phase)).collect();
        self.report.propositions = self.propositions(log);
        self.report.moves = self.moves(log);
        self.report.minority = self.dissents.iter().map(|data| self.dissent(log, data)).collect();
        if let Some(verdict) = self.verdict.take() {
            self.decided(log, &verdict);
        }
        self.report.heard = heard(&self.report);
        self.report.overruled = overruled(&self.report);
        // Of sealed ballots only that they were cast.
        for phase in self.report.phases.iter_mut().filter(|_| self.matrix.is_sealed) {
            phase.probe = None;
            for stand in &mut phase.stands {
                *stand = Stand { persona: stand.persona.clone(), ..Stand::default() };
            }
        }
        self.report
    }

    /// A phase in the debaters' order.
    fn phase(&self, log: &Log<'_>, phase: &matrix::Phase) -> Phase {
        let place = |spark: SparkId| {
            self.report.debaters.iter().position(|one| one.spark == Some(spark)).unwrap_or(usize::MAX)
        };
        let mut stands: Vec<_> = phase.stands.iter().collect();
        stands.sort_by_key(|(spark, _)| place(**spark));
        let stands = stands.into_iter().map(|(spark, stand)| self.stand(log, *spark, stand));
        Phase {
            name: name_of(phase),
            sealed: phase.sealed,
            stands: stands.collect(),
            probe: phase.probe.clone(),
        }
    }

    fn stand(&self, log: &Log<'_>, spark: SparkId, stand: &matrix::Stand) -> Stand {
        let ballot = stand.source.filter(|_| stand.confidence_pm.is_some());
        let said = ballot.map(|source| self.said(log, source)).unwrap_or_default();
        let rated = |rating: &Rating| Rated {
            proposition: rating.proposition,
            rating: rating.rating.clamp(-2, 2),
            confidence_pm: rating.confidence_pm.min(1_000),
        };
        Stand {
            persona: log.role(spark),
            source: stand.source,
            position: said.position,
            confidence_pm: stand.confidence_pm.map(|sure| sure.min(1_000)),
            claims: said.claims,
            evidence: said.evidence,
            would_change: said.would_change,
            ratings: stand.ratings.iter().map(rated).collect(),
        }
    }

    fn propositions(&self, log: &Log<'_>) -> Vec<Proposition> {
        let texts = said::propositions(log, &self.matrix.stated);
        let proposition = |number: u32| {
            let nth = usize::try_from(number).unwrap_or(usize::MAX);
            let (text, source) = texts.get(nth).cloned().unzip();
            Proposition {
                number,
                text: text.unwrap_or_default(),
                source: source.or_else(|| self.matrix.stated.first().copied()),
                sealed_majority: self.matrix.majority.get(nth).copied(),
                ..Proposition::default()
            }
        };
        (0..self.matrix.propositions.min(MOST)).map(proposition).collect()
    }

    /// Each flip with the condition that was named before it and the words that were said after it.
    fn moves(&self, log: &Log<'_>) -> Vec<Move> {
        let phases = self.report.phases.iter().enumerate();
        let flips = phases.flat_map(|(nth, phase)| {
            phase.probe.iter().flat_map(move |probe| probe.flips.iter().map(move |flip| (nth, flip)))
        });
        let step = |(nth, flip): (usize, &Flip)| {
            let persona = log.role(flip.spark);
            let (before, now) = (&self.report.phases[..nth], &self.report.phases[nth]);
            let mut named = before.iter().rev().filter_map(|phase| phase.stand(&persona));
            let named = named.find(|stand| stand.would_change.is_some());
            let source = now.stand(&persona).and_then(|stand| stand.source);
            let changes = source.map(|at| self.said(log, at)).unwrap_or_default().changes;
            let because = changes.into_iter().find(|(proposition, _)| *proposition == flip.proposition);
            Move {
                proposition: flip.proposition,
                phase: now.name.clone(),
                from: flip.from,
                to: flip.to,
                condition: named.and_then(|stand| stand.would_change.clone()),
                named_in: named.and_then(|stand| stand.source),
                because: because.map(|(_, because)| because),
                source,
                persona,
            }
        };
        flips.map(step).collect()
    }

    fn dissent(&self, log: &Log<'_>, data: &DissentRecorded) -> Dissent {
        let said = self.said(log, data.source);
        Dissent {
            persona: log.role(data.spark),
            propositions: data.propositions.clone(),
            position: said.position,
            claims: said.claims,
            would_change: said.would_change,
            source: said::answer_of(log, data.source),
        }
    }

    fn decided(&mut self, log: &Log<'_>, data: &VerdictReached) {
        let name = |words: String| said::marked(log, self.voices.named(log, Some(data.source), &words));
        let said = said::verdict(log, data.source, &self.results).map(|said| said.renamed(&name));
        let said = said.unwrap_or_default();
        // Where the sealed majority replaces it, the verdict has no confidence.
        let is_majority = self.matrix.verdict_pm.is_none();
        for (proposition, upheld) in self.report.propositions.iter_mut().zip(&data.upheld) {
            proposition.verdict = (!is_majority).then_some(*upheld);
            proposition.differs = data.differs.contains(&proposition.number);
            let ruling = said.rulings.iter().find(|ruling| ruling.proposition == proposition.number);
            proposition.because = ruling.map(|ruling| ruling.because.clone());
            proposition.evidence = ruling.map(|ruling| ruling.evidence.clone()).unwrap_or_default();
        }
        self.report.verdict = Some(Verdict {
            source: data.source,
            is_majority,
            answer: said.answer,
            confidence_pm: self.matrix.verdict_pm.map(|sure| sure.min(1_000)),
            minority: said.minority,
            open_risks: said.risks,
        });
        let majority: Vec<i8> =
            self.report.propositions.iter().filter_map(|each| each.sealed_majority).collect();
        let talk = Talk::of(&majority, &data.differs, is_majority);
        let compared = matches!(talk, Talk::VoteTied | Talk::SameAsVote | Talk::DiffersOn(_));
        let talked = self.report.phases.iter().any(|phase| !phase.sealed && !phase.stands.is_empty());
        self.report.talk = if compared && !talked { Talk::NoTalk } else { talk };
    }
}

/// A phase's name; a number follows from the second of a name on.
fn name_of(phase: &matrix::Phase) -> String {
    if phase.nth > 1 { format!("{} {}", phase.name, phase.nth) } else { phase.name.clone() }
}

/// Who cast a ballot, and who still did in the last phase.
fn heard(report: &DebateReport) -> Heard {
    let spoke =
        |phase: &Phase, persona: &str| phase.stand(persona).is_some_and(|stand| stand.source.is_some());
    let count = |phases: &[Phase]| {
        let names = report.debaters.iter().map(|debater| debater.persona.as_str());
        let all = names.filter(|name| phases.iter().any(|phase| spoke(phase, name))).count();
        u32::try_from(all).unwrap_or(u32::MAX)
    };
    let last = report.phases.len().saturating_sub(1);
    Heard {
        of: u32::try_from(report.debaters.len()).unwrap_or(u32::MAX),
        ever: count(&report.phases),
        to_the_end: count(&report.phases[last..]),
    }
}

/// Only a moderator can overrule a panel; a vote cannot.
fn overruled(report: &DebateReport) -> Vec<u32> {
    let ruled = report.propositions.iter().filter_map(|each| Some((each.number, each.verdict?)));
    ruled
        .filter(|(number, ruling)| is_overruled(*ruling, &report.last_ratings(*number)))
        .map(|(number, _)| number)
        .collect()
}
