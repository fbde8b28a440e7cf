//! Typed answers of a squad: which schema holds for which task, and what a critique leads to.

use serde_json::Value;

use crate::protocol::event::{ArenaEvent, CritiqueIssued, Finding, FindingClosed, Judgement, Severity};
use crate::protocol::fit;
use crate::protocol::typed::{CRITIQUE, Critique, SQUAD_ANSWER, SquadAnswer, schema};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::state::{RoleKind, RoleState};

impl Session {
    /// The schema of a role's `task`th answer.
    pub(super) fn typed_schema(&self, role: &RoleState, task: u32) -> Option<Value> {
        match role.kind {
            RoleKind::Reviewer => Some(schema(CRITIQUE)),
            RoleKind::Lead if task > 1 => {
                let mut schema = schema(SQUAD_ANSWER);
                let wanted = self.turn.as_ref().and_then(|turn| turn.schema.clone());
                if let (Some(wanted), Some(place)) = (wanted, schema.pointer_mut("/properties/answer")) {
                    *place = wanted;
                }
                Some(schema)
            }
            _ => None,
        }
    }

    /// What a typed answer that fits its schema still gets wrong.
    pub(in crate::session) fn contradictions(&self, spark: SparkId, text: &str) -> Vec<String> {
        let Some((squad, i)) = self.role(spark) else { return Vec::new() };
        match squad.roles[i].kind {
            RoleKind::Reviewer => match fit::read::<Critique>(text) {
                Some(critique) => self.contradictions_of(i, &critique),
                None => vec![format!("the critique cannot be read: {}", fit::UNREAD)],
            },
            RoleKind::Lead if squad.roles[i].tasks > 1 => match fit::read::<SquadAnswer>(text) {
                Some(answer) if answer.answer.as_str().is_some_and(|text| text.trim().is_empty()) => {
                    vec!["`/answer`: it is empty".to_owned()]
                }
                Some(_) => Vec::new(),
                None => vec![format!("the answer cannot be read: {}", fit::UNREAD)],
            },
            _ => Vec::new(),
        }
    }

    fn contradictions_of(&self, by: usize, critique: &Critique) -> Vec<String> {
        let Some(squad) = &self.squad else { return Vec::new() };
        let open: Vec<&str> = squad.open_findings(Some(by)).map(|finding| finding.id.as_str()).collect();
        let unknown = critique.closed.iter().filter(|id| !open.contains(&id.as_str()));
        let mut errors: Vec<String> =
            unknown.map(|id| format!("`/closed`: `{id}` is no open finding of yours")).collect();
        let left = self.open_after(by, critique);
        let blocker = left.iter().find(|finding| finding.severity == Severity::Blocker);
        match (critique.verdict, blocker) {
            (Judgement::RequestChanges, _) if left.is_empty() => errors.push(
                "`/verdict`: it requests changes, but no finding says which; add one, or approve".to_owned(),
            ),
            (Judgement::Approve, Some(finding)) => errors.push(format!(
                "`/verdict`: it approves while the blocker {} is open; close it, or request changes",
                finding.id
            )),
            _ => {}
        }
        errors
    }

    /// A reviewer's findings once this critique is taken: earlier ones that stay, then new ones with ids.
    fn open_after(&self, by: usize, critique: &Critique) -> Vec<Finding> {
        let Some(squad) = &self.squad else { return Vec::new() };
        let stays = |finding: &&Finding| !critique.closed.contains(&finding.id);
        let mut open: Vec<Finding> = squad.open_findings(Some(by)).filter(stays).cloned().collect();
        let mut last = squad.findings.iter().filter_map(|one| number(&one.finding.id)).max().unwrap_or(0);
        for found in &critique.findings {
            let place = found.id.as_ref().and_then(|id| open.iter().position(|finding| finding.id == *id));
            let id = match place.and_then(|place| open.get(place)) {
                Some(known) => known.id.clone(),
                None => {
                    last += 1;
                    format!("F{last}")
                }
            };
            let finding = Finding {
                id,
                severity: found.severity,
                file: found.file.clone(),
                line: found.line,
                problem: found.problem.clone(),
                fix: found.fix.clone(),
            };
            match place.and_then(|place| open.get_mut(place)) {
                Some(known) => *known = finding,
                None => open.push(finding),
            }
        }
        open
    }

    /// Takes a critique: settles what it closes and issues what is open.
    pub(super) fn judge(&mut self, by: usize, spark: SparkId, source: EventRef) {
        let Some(ArenaEvent::ModelAnswered(answer)) = self.event(source) else { return };
        // It was read before, when it was held against its schema.
        let Some(critique) = fit::read::<Critique>(&answer.body.text()) else { return };
        let findings = self.open_after(by, &critique);
        for id in &critique.closed {
            self.emit(ArenaEvent::FindingClosed(FindingClosed { id: id.clone(), source }));
        }
        let verdict = critique.verdict;
        self.emit(ArenaEvent::CritiqueIssued(CritiqueIssued { spark, source, verdict, findings }));
    }
}

/// The number of a finding's id.
fn number(id: &str) -> Option<u32> {
    id.strip_prefix('F')?.parse().ok()
}
