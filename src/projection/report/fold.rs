//! Folds a log's debates into their reports; reads ballots where the events point to them, invents no words.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::event::{
    Ask, BallotCast, BallotsRevealed, ConvergenceProbed, DissentRecorded, Flip, PropositionsStated,
    RatingsCast, RoleFailed, RoundOpened, SparkIgnited, VerdictReached,
};
use crate::protocol::spec::{DebatePlan, Mode, PersonaSpec, Setting};
use crate::protocol::{ArenaEvent, EventRef, SparkId};

use super::Log;
use super::debate::{
    Absence, DebateReport, DebateState, Debater, Dissent, Heard, Move, Phase, Probe, Proposition, Rated,
    ScorePart, Stand, Talk, Verdict, is_overruled,
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

/// A debate while it is folded.
struct Open {
    report: DebateReport,
    /// Persona ids by spark.
    names: BTreeMap<SparkId, String>,
    voices: Voices,
    /// Names of phases as the log has them, beside those of the report.
    heard: Vec<String>,
    /// What the moderator was last asked for, which belongs to no phase.
    step: Option<String>,
    /// Results of tools so far, which ballots and the verdict may cite.
    results: BTreeSet<EventRef>,
    is_sealed: bool,
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
            names: BTreeMap::new(),
            voices: Voices::default(),
            heard: Vec::new(),
            step: None,
            results: BTreeSet::new(),
            is_sealed: true,
        });
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.done.push(open.finished());
        }
    }
}

impl Open {
    fn apply(&mut self, at: EventRef, event: &ArenaEvent, log: &Log<'_>) {
        use ArenaEvent as E;
        self.voices.apply(at, event);
        match event {
            E::SparkIgnited(data) => self.ignited(data),
            E::RoundOpened(data) => self.round(data),
            E::ToolResolved(_) => _ = self.results.insert(at),
            E::BallotCast(data) => self.ballot(data, log),
            E::PropositionsStated(data) => self.stated(data, log),
            E::RatingsCast(data) => self.rated(data),
            E::BallotsRevealed(data) => self.revealed(data),
            E::ConvergenceProbed(data) => self.probed(data, log),
            E::RoleFailed(data) => self.failed(at, data, log),
            E::DebateGated(data) => {
                self.is_sealed = false;
                self.report.state = DebateState::Gated(data.reason.clone());
                self.report.gated = Some(data.reason.clone());
            }
            E::DebateShortened(data) => self.report.shortened = Some(data.reason.clone()),
            E::VerdictReached(data) => self.verdict(data, log),
            E::DissentRecorded(data) => self.dissented(data, log),
            E::TurnClosed(data) => {
                self.is_sealed = false;
                if self.report.state == DebateState::Open {
                    self.report.state = DebateState::Ended(data.cause);
                }
            }
            _ => {}
        }
    }

    fn ignited(&mut self, data: &SparkIgnited) {
        self.names.insert(data.spark, data.persona.clone());
        let debater = self.report.debaters.iter_mut().find(|debater| debater.persona == data.persona);
        if let Some(debater) = debater {
            debater.spark = Some(data.spark);
            debater.model.clone_from(&data.model);
        }
    }

    fn name(&self, spark: SparkId) -> String {
        self.names.get(&spark).cloned().unwrap_or_else(|| spark.to_string())
    }

    /// A round continues its phase until that was probed; the same name after a probe is a new phase. What the
    /// moderator is asked belongs to no phase.
    fn round(&mut self, round: &RoundOpened) {
        self.step = matches!(round.ask, Ask::Propositions | Ask::Verdict).then(|| round.phase.clone());
        if self.step.is_some() {
            return;
        }
        let name = &round.phase;
        let continues = self.heard.last().is_some_and(|last| last == name)
            && self.report.phases.last().is_some_and(|phase| phase.probe.is_none());
        if !continues {
            self.begin_phase(name);
        }
    }

    fn begin_phase(&mut self, name: &str) {
        let earlier = self.heard.iter().filter(|heard| *heard == name).count();
        let shown = if earlier == 0 { name.to_owned() } else { format!("{name} {}", earlier + 1) };
        self.heard.push(name.to_owned());
        self.report.phases.push(Phase { name: shown, ..Phase::default() });
    }

    /// The newest phase of this name; begun now when there is none.
    fn phase(&mut self, name: &str) -> &mut Phase {
        let at = self.heard.iter().rposition(|heard| heard == name).unwrap_or_else(|| {
            self.begin_phase(name);
            self.heard.len() - 1
        });
        &mut self.report.phases[at]
    }

    /// A ballot in words, with names where its writer knew only letters.
    fn said(&self, log: &Log<'_>, at: EventRef) -> said::Ballot {
        let source = said::answer_of(log, at);
        let name = |words: String| said::marked(log, self.voices.named(log, Some(source), &words));
        said::ballot(log, at, &self.results).unwrap_or_default().renamed(&name)
    }

    fn stand(&mut self, phase: &str, spark: SparkId) -> &mut Stand {
        let persona = self.name(spark);
        let stands = &mut self.phase(phase).stands;
        let at = stands.iter().position(|stand| stand.persona == persona).unwrap_or_else(|| {
            stands.push(Stand { persona, ..Stand::default() });
            stands.len() - 1
        });
        &mut stands[at]
    }

    fn ballot(&mut self, data: &BallotCast, log: &Log<'_>) {
        let said = self.said(log, data.source);
        self.phase(&data.phase).sealed |= data.sealed;
        let stand = self.stand(&data.phase, data.spark);
        stand.source = Some(data.source);
        stand.confidence_pm = Some(data.confidence_pm.min(1_000));
        (stand.position, stand.would_change) = (said.position, said.would_change);
        (stand.claims, stand.evidence) = (said.claims, said.evidence);
    }

    fn stated(&mut self, data: &PropositionsStated, log: &Log<'_>) {
        let texts = said::propositions(log, &data.source);
        let proposition = |number: u32| {
            let (text, source) = texts.get(number as usize).cloned().unzip();
            Proposition {
                number,
                text: text.unwrap_or_default(),
                source: source.or_else(|| data.source.first().copied()),
                ..Proposition::default()
            }
        };
        self.report.propositions = (0..data.count.min(MOST)).map(proposition).collect();
    }

    fn rated(&mut self, data: &RatingsCast) {
        self.phase(&data.phase).sealed |= data.sealed;
        let rows = data.ratings.iter().map(|rating| Rated {
            proposition: rating.proposition,
            rating: rating.rating.clamp(-2, 2),
            confidence_pm: rating.confidence_pm.min(1_000),
        });
        let rows = rows.collect();
        let stand = self.stand(&data.phase, data.spark);
        stand.source = stand.source.or(Some(data.source));
        stand.ratings = rows;
    }

    fn revealed(&mut self, data: &BallotsRevealed) {
        self.is_sealed = false;
        let mut stands = self.report.phases.iter().flat_map(|phase| &phase.stands);
        if stands.all(|stand| stand.ratings.is_empty()) {
            return;
        }
        for (proposition, majority) in self.report.propositions.iter_mut().zip(&data.majority) {
            proposition.sealed_majority = Some(*majority);
        }
    }

    fn probed(&mut self, data: &ConvergenceProbed, log: &Log<'_>) {
        self.phase(&data.phase).probe = Some(Probe {
            scorer: data.scorer.clone(),
            score_pm: data.score_pm,
            parts: data.parts.iter().map(part).collect(),
            agreement_pm: data.agreement_pm.clone(),
            polarisation_pm: data.polarisation_pm,
            movement_pm: data.movement_pm,
            effective_votes_pm: data.effective_votes_pm,
            collapse: data.collapse,
        });
        data.flips.iter().for_each(|flip| self.flipped(*flip, &data.phase, log));
    }

    /// A flip with the condition that was named before it and the words that were said after it.
    fn flipped(&mut self, flip: Flip, phase: &str, log: &Log<'_>) {
        let persona = self.name(flip.spark);
        let Some(now) = self.heard.iter().rposition(|heard| heard == phase) else { return };
        let (before, after) = self.report.phases.split_at(now);
        let named = before.iter().rev().filter_map(|phase| phase.stand(&persona));
        let named = named.clone().find(|stand| stand.would_change.is_some());
        let stand = after.first().and_then(|phase| phase.stand(&persona));
        let source = stand.and_then(|stand| stand.source);
        let changes = source.map(|at| self.said(log, at)).unwrap_or_default().changes;
        let because = changes.into_iter().find(|(proposition, _)| *proposition == flip.proposition);
        let step = Move {
            proposition: flip.proposition,
            phase: after.first().map(|phase| phase.name.clone()).unwrap_or_default(),
            from: flip.from,
            to: flip.to,
            condition: named.and_then(|stand| stand.would_change.clone()),
            named_in: named.and_then(|stand| stand.source),
            because: because.map(|(_, because)| because),
            source,
            persona,
        };
        self.report.moves.push(step);
    }

    fn failed(&mut self, at: EventRef, data: &RoleFailed, log: &Log<'_>) {
        let phase = self.step.clone().or_else(|| self.report.phases.last().map(|phase| phase.name.clone()));
        let persona = self.names.get(&data.spark).cloned().unwrap_or_else(|| data.role.clone());
        let why = self.voices.why(log, data);
        self.report.absences.push(Absence { persona, phase, cause: data.cause, why, source: at });
    }

    fn dissented(&mut self, data: &DissentRecorded, log: &Log<'_>) {
        let said = self.said(log, data.source);
        self.report.minority.push(Dissent {
            persona: self.name(data.spark),
            propositions: data.propositions.clone(),
            position: said.position,
            claims: said.claims,
            would_change: said.would_change,
            source: said::answer_of(log, data.source),
        });
    }

    fn verdict(&mut self, data: &VerdictReached, log: &Log<'_>) {
        let name = |words: String| said::marked(log, self.voices.named(log, Some(data.source), &words));
        let said = said::verdict(log, data.source, &self.results).map(|said| said.renamed(&name));
        let is_majority = matches!(log.event(data.source), Some(ArenaEvent::BallotsRevealed(_)));
        self.report.state = DebateState::Decided;
        for (proposition, upheld) in self.report.propositions.iter_mut().zip(&data.upheld) {
            proposition.verdict = (!is_majority).then_some(*upheld);
            proposition.differs = data.differs.contains(&proposition.number);
            let rulings = said.as_ref().map(|said| said.rulings.as_slice()).unwrap_or_default();
            let ruling = rulings.iter().find(|ruling| ruling.proposition == proposition.number);
            proposition.because = ruling.map(|ruling| ruling.because.clone());
            proposition.evidence = ruling.map(|ruling| ruling.evidence.clone()).unwrap_or_default();
        }
        let said = said.unwrap_or_default();
        self.report.verdict = Some(Verdict {
            source: data.source,
            is_majority,
            answer: said.answer,
            confidence_pm: (!is_majority).then_some(data.confidence_pm.min(1_000)),
            minority: said.minority,
            open_risks: said.risks,
        });
        let majority: Vec<i8> =
            self.report.propositions.iter().filter_map(|each| each.sealed_majority).collect();
        self.report.talk = Talk::of(&majority, &data.differs, is_majority);
    }

    /// Stands in the debaters' order; of sealed ballots only that they were cast.
    fn finished(mut self) -> DebateReport {
        self.report.heard = heard(&self.report);
        self.report.overruled = overruled(&self.report);
        let compared = matches!(self.report.talk, Talk::VoteTied | Talk::SameAsVote | Talk::DiffersOn(_));
        let talked = self.report.phases.iter().any(|phase| !phase.sealed && !phase.stands.is_empty());
        if compared && !talked {
            self.report.talk = Talk::NoTalk;
        }
        let order: Vec<_> = self.report.debaters.iter().map(|debater| debater.persona.clone()).collect();
        for phase in &mut self.report.phases {
            let place = |stand: &Stand| order.iter().position(|name| *name == stand.persona);
            phase.stands.sort_by_key(|stand| place(stand).unwrap_or(usize::MAX));
            if self.is_sealed {
                phase.probe = None;
                for stand in &mut phase.stands {
                    *stand = Stand { persona: stand.persona.clone(), ..Stand::default() };
                }
            }
        }
        self.report
    }
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

fn part(part: &(String, u32)) -> ScorePart {
    ScorePart { name: part.0.clone(), value_pm: part.1 }
}
