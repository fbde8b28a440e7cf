//! What a turn did: each tool call with how it ended and who allowed it, and what changed; runs and judges nothing.

use schemars::JsonSchema;
use serde::Serialize;

use crate::projection::calls::{PATCH, target};
use crate::projection::changes::{by_file, is_diff};
use crate::projection::phrases;
use crate::projection::why::{Audit, AuditEnd, Reasons};
use crate::protocol::command::Choice;
use crate::protocol::event::{Plan, ToolStatus, ToolUse};
use crate::protocol::inside::{self, InsideCall};
use crate::protocol::message::Part;
use crate::protocol::spec::Action;
use crate::protocol::text::cut_middle;
use crate::protocol::{ArenaEvent, EventRef};

use super::Log;
use super::session::TurnReport;

/// Bytes of one call's output; the middle of longer ones is left out.
const CAP: usize = 4_000;

/// One tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallLine {
    /// The answer that asked for it.
    pub source: EventRef,
    /// Role of the spark that asked.
    pub who: Option<String>,
    /// The tool.
    pub tool: String,
    /// What it is about, on one line.
    pub target: String,
    /// How it ended, in words; empty while it is open.
    pub outcome: String,
    /// True when it did what was asked.
    pub is_done: bool,
    /// Milliseconds it ran.
    pub ms: u64,
    /// The command or the change as it was shown before it ran.
    pub preview: String,
    /// What came of it, the middle left out when it is long.
    pub output: String,
    /// The rule that decided, and what it said.
    pub rule: Option<(String, String)>,
    /// What was opened for it: `git`, hosts, ports, `unconfined`.
    pub needs: Vec<String>,
    /// What a person or a program was asked and answered.
    pub approval: Option<ApprovalLine>,
}

/// The answer to one approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApprovalLine {
    /// True for a yes.
    pub is_yes: bool,
    /// The answer in words; none while it is open.
    pub answer: Option<String>,
    /// Why it was denied, or the rule that was made.
    pub words: Option<String>,
    /// Who answered.
    pub by: Option<String>,
}

impl CallLine {
    /// True when a person was asked and allowed it.
    pub fn is_allowed(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.is_yes)
    }

    /// The change it made, as a unified diff.
    pub fn change(&self) -> Option<&str> {
        (self.is_done && is_diff(&self.preview)).then_some(self.preview.as_str())
    }
}

/// Gives each turn its tool calls. `starts` are the entries in which the turns were opened.
pub(super) fn fill(turns: &mut [TurnReport], starts: &[u64], log: &Log<'_>, reasons: &Reasons) {
    for (tool_use, audit) in reasons.audits() {
        let of = starts.partition_point(|start| *start <= tool_use.answer.seq);
        let Some(turn) = of.checked_sub(1).and_then(|of| turns.get_mut(of)) else { continue };
        turn.calls.extend(call(log, tool_use, audit));
        if let Some((_, AuditEnd::Answered)) = audit.end
            && let Some(InsideCall::Todo(list)) =
                inside::call_of(tool_use.answer, tool_use.part, &|at| log.event(at))
        {
            turn.steps = list.lines().collect();
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.diff.is_empty()) {
        let changes = turn.calls.iter().filter_map(CallLine::change);
        turn.diff = changes.map(|diff| format!("{}\n", diff.trim_end())).collect();
        if turn.changed.is_empty() {
            turn.changed = by_file(&turn.diff).into_iter().map(|(file, _)| file).collect();
            turn.changed.sort();
            turn.changed.dedup();
        }
    }
}

fn call(log: &Log<'_>, tool_use: ToolUse, audit: &Audit) -> Option<CallLine> {
    let asked = log.event(tool_use.answer)?;
    let (tool, target) = match asked {
        ArenaEvent::ModelAnswered(data) => match data.body.message.get(usize::from(tool_use.part))? {
            Part::Call { name, args, .. } => (name.clone(), target(args)),
            _ => return None,
        },
        _ => (PATCH.to_owned(), String::new()),
    };
    let plan =
        audit.prepared.and_then(|at| log.event(at)).and_then(ArenaEvent::plan).or_else(|| asked.plan());
    let mut line = CallLine {
        source: tool_use.answer,
        who: log.who(asked),
        tool,
        target,
        preview: plan.map(|plan| plan.preview.clone()).unwrap_or_default(),
        needs: plan.into_iter().flat_map(Plan::doors).map(|need| need.name().into_owned()).collect(),
        approval: audit.requested.map(|_| approval(log, audit)),
        rule: audit.judged.last().map(|(_, action, rule)| (rule.clone(), said(*action).to_owned())),
        outcome: String::new(),
        is_done: false,
        ms: 0,
        output: String::new(),
    };
    if let Some(end) = audit.end.as_ref().and_then(|(at, _)| log.event(*at)) {
        line.end(log, end);
    }
    Some(line)
}

fn said(action: Action) -> &'static str {
    match action {
        Action::Allow => "allowed",
        Action::Ask => "asked",
        Action::Deny => "denied",
        Action::Unknown(_) => phrases::NEWER,
    }
}

impl CallLine {
    fn end(&mut self, log: &Log<'_>, event: &ArenaEvent) {
        use ArenaEvent as E;
        let mut output = String::new();
        match event {
            E::ToolResolved(data) => {
                let body = &data.body;
                self.outcome = match body.exit {
                    Some(exit) => format!("exit {exit}"),
                    None => phrases::tool_status(body.status).to_owned(),
                };
                self.is_done = body.status == ToolStatus::Ok && body.exit.is_none_or(|exit| exit == 0);
                self.ms = body.ms;
                output = body.words().into_owned();
            }
            E::ToolRefused(data) => {
                self.outcome = phrases::refusal(data.reason).to_owned();
                output.clone_from(&data.text);
            }
            E::ToolAnswered(data) => {
                (self.outcome, self.is_done) = ("answered".to_owned(), true);
                output = inside::words(data, &|at| log.event(at)).unwrap_or_default();
            }
            E::CallLost(data) => {
                self.outcome = "outcome unknown".to_owned();
                output.clone_from(&data.text);
            }
            E::PatchApplied(_) => (self.outcome, self.is_done) = ("applied".to_owned(), true),
            E::PatchRefused(data) => {
                self.outcome = "refused".to_owned();
                output = format!("{}: {}", data.body.path, data.body.reason);
            }
            _ => self.outcome = "not used".to_owned(),
        }
        self.output = cut_middle(&output, CAP).0;
    }
}

fn approval(log: &Log<'_>, audit: &Audit) -> ApprovalLine {
    let answered = audit.answered.as_ref().and_then(|(at, _)| log.event(*at));
    let Some(ArenaEvent::ApprovalAnswered(data)) = answered else {
        return ApprovalLine { is_yes: false, answer: None, words: None, by: None };
    };
    let words = match &data.choice {
        Choice::Deny(why) => Some(why.clone()).filter(|why| !why.trim().is_empty()),
        Choice::Rule(rule) => Some(rule.name.clone()),
        Choice::Once | Choice::Session | Choice::Unknown(_) => None,
    };
    let is_yes = !matches!(data.choice, Choice::Deny(_) | Choice::Unknown(_));
    ApprovalLine {
        is_yes,
        answer: Some(phrases::choice(&data.choice).to_owned()),
        words,
        by: Some(data.by.clone()),
    }
}
