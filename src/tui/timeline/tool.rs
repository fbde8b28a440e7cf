//! Tool calls and the steps of squads and debates as lines: asked, allowed, running, ended; runs nothing.

use ratatui::text::Line;

use crate::projection::calls::target;
use crate::projection::changes::is_diff;
use crate::projection::phrases;
use crate::projection::transcript::Item;
use crate::protocol::effect::Order;
use crate::protocol::event::{ArenaEvent, Judgement, PrepareResult, ToolResolved, ToolStatus, ToolUse};
use crate::protocol::inside::{self, InsideCall};
use crate::protocol::message::Part;
use crate::protocol::{EventRef, Lane, SparkId};

use super::block::Page;
use crate::tui::text::{bare_line, clean, clean_line};
use crate::tui::theme::Tone;
use crate::tui::view_model::spinner;

/// Lines of live output that are shown.
const LIVE_LINES: usize = 8;

impl Page<'_> {
    pub(super) fn tool_call(&self, item: &Item, part: u16, end: Option<EventRef>) -> Vec<Line<'static>> {
        let tool_use = ToolUse { answer: item.source, part };
        let Some(ArenaEvent::ModelAnswered(answer)) = self.scene.event(item.source) else {
            return Vec::new();
        };
        let Some(Part::Call { name, args, .. }) = answer.body.message.get(usize::from(part)) else {
            return Vec::new();
        };
        let (name, what) = (bare_line(name), bare_line(&target(args)));
        match end.and_then(|end| self.scene.event(end)) {
            Some(ArenaEvent::ToolResolved(data)) => self.resolved(tool_use, &name, &what, &data.body),
            Some(ArenaEvent::ToolRefused(data)) => {
                let mut out =
                    vec![self.headline(Tone::Warn, "⊘ ", &name, &what, phrases::refusal(data.reason))];
                out.extend(self.output(&data.text));
                out
            }
            Some(ArenaEvent::ToolAnswered(data)) => {
                let kept = InsideCall::named(&name, args);
                let said = inside::words(data, &|at| self.scene.event(at)).unwrap_or_default();
                let mut out = vec![self.headline(Tone::Good, "● ", &name, &what, "")];
                out.extend(self.output(&match kept {
                    Some(InsideCall::Todo(list)) => list.lines().collect::<Vec<_>>().join("\n"),
                    _ => said,
                }));
                out
            }
            Some(ArenaEvent::CallLost(data)) => {
                let mut out = vec![self.headline(Tone::Warn, "? ", &name, &what, "outcome unknown")];
                out.extend(self.output(&data.text));
                out
            }
            _ => self.open_call(tool_use, &name, &what),
        }
    }

    fn resolved(&self, tool_use: ToolUse, name: &str, what: &str, body: &ToolResolved) -> Vec<Line<'static>> {
        let (tone, mark) = match body.status {
            ToolStatus::Ok if body.exit.is_none_or(|exit| exit == 0) => (Tone::Good, "● "),
            ToolStatus::Ok => (Tone::Warn, "● "),
            ToolStatus::Failed => (Tone::Bad, "✗ "),
            ToolStatus::Cancelled | ToolStatus::Lost | ToolStatus::Unknown(_) => (Tone::Warn, "■ "),
        };
        let word = match body.exit {
            Some(exit) => format!("exit {exit}"),
            None => phrases::tool_status(body.status).to_owned(),
        };
        let end = format!("{word} · {}", phrases::duration(body.ms));
        let mut out = vec![self.headline(tone, mark, name, what, &end)];
        if let Some(preview) = self.preview(tool_use).filter(|preview| is_diff(preview)) {
            out.extend(self.changes(preview));
        } else if body.exit.is_some() || body.status != ToolStatus::Ok || self.is_open {
            out.extend(self.output(without_status(&body.words())));
        }
        out.extend(self.told(&body.notes));
        out
    }

    /// The diff or command that was looked at before it was allowed.
    fn preview(&self, tool_use: ToolUse) -> Option<&str> {
        let prepared = self.scene.record.reasons(tool_use.answer.seq).audit(tool_use)?.prepared?;
        match self.scene.event(prepared)? {
            ArenaEvent::ToolPrepared(data) => match &data.body.result {
                PrepareResult::Ready(plan) => Some(&plan.preview),
                PrepareResult::Unfit(_) | PrepareResult::Unknown(_) => None,
            },
            _ => None,
        }
    }

    fn open_call(&self, tool_use: ToolUse, name: &str, what: &str) -> Vec<Line<'static>> {
        let board = &self.scene.moment.board;
        let rows = board.sparks.iter().flat_map(|row| board.doing(Some(row.spark)));
        let open = rows.into_iter().find_map(|(call, open)| match &open.order {
            Order::Tool(of) if of.tool_use == tool_use => Some((call, open, "running")),
            Order::Ask(of) if of.tool_use == tool_use => Some((call, open, "asks")),
            Order::Gate(of) if of.tool_use == tool_use => Some((call, open, "waits for a gate")),
            Order::Question(of) if of.tool_use == tool_use => Some((call, open, "asks you")),
            Order::Prepare(of) if of.tool_use == tool_use => Some((call, open, "looks first")),
            _ => None,
        });
        let Some((call, open, word)) = open else {
            return vec![self.headline(Tone::Quiet, "○ ", name, what, "waits")];
        };
        let (end, mark) = match (self.scene.is_left, word) {
            (true, _) => ("left open".to_owned(), "■ ".to_owned()),
            (false, "asks" | "asks you") => {
                (format!("{word} · {}", self.scene.elapsed(open.since)), "? ".to_owned())
            }
            (false, _) => {
                let end = format!("{word} · {}", self.scene.elapsed(open.since));
                (end, format!("{} ", spinner(self.scene.beat)))
            }
        };
        let mark = mark.as_str();
        let mut out = vec![self.headline(Tone::Warn, mark, name, what, &end)];
        if let Some(question) = board.questions().find(|question| question.call == call) {
            let lines = question.asked.lines().collect::<Vec<_>>().join("\n");
            out.extend(self.output(&clean(&lines)));
        }
        for lane in [Lane::Stdout, Lane::Stderr] {
            if let Some(partial) = board.partial(call, lane) {
                out.extend(self.tail(&partial.text));
            }
        }
        out
    }

    /// The newest lines of what a running command wrote.
    fn tail(&self, text: &str) -> Vec<Line<'static>> {
        let from = text.trim_end().rmatch_indices('\n').nth(LIVE_LINES - 1).map_or(0, |(at, _)| at + 1);
        let newest = &text[from..];
        let from = newest.ceil_char_boundary(newest.len().saturating_sub(4 * 1024));
        let lines = self.output(&clean(&newest[from..]));
        lines[lines.len().saturating_sub(LIVE_LINES)..].to_vec()
    }

    /// A step of a squad or a debate.
    pub(super) fn step(&self, item: &Item) -> Vec<Line<'static>> {
        use ArenaEvent as E;
        let Some(event) = self.scene.event(item.source) else { return Vec::new() };
        let percent = crate::projection::report::wording::per_cent;
        match event {
            E::PlanStated(_) => self.remark(Tone::Quiet, "◆ ", "stated the plan"),
            E::CodeProposed(data) => {
                let checks = phrases::counted(data.checks.len() as u64, "check");
                self.remark(Tone::Quiet, "◆ ", &format!("proposed a change, {checks}"))
            }
            E::CritiqueIssued(data) => self.critique(data),
            E::FindingClosed(data) => {
                self.remark(Tone::Good, "✓ ", &format!("{} closed", clean_line(&data.id)))
            }
            // Each thing that is passed on is an event; the reader needs to know once that something was.
            E::InsightSurfaced(data) if self.told_before(data.from, data.to) => Vec::new(),
            E::InsightSurfaced(data) => {
                self.remark(Tone::Quiet, "→ ", &format!("sent to {}", self.scene.name(data.to)))
            }
            E::RoleFailed(data) => {
                let text = format!(
                    "{} did not do its part: {}",
                    clean_line(&data.role),
                    phrases::turn_cause(data.cause)
                );
                self.remark(Tone::Bad, "✗ ", &text)
            }
            E::ClaimFlagged(data) => self.wrapped(
                Tone::Warn,
                "! ",
                &format!("{}: {}", clean_line(&phrases::claim_named(data)), clean_line(&data.reason)),
            ),
            // The answer above says that it is sealed.
            E::BallotCast(_) if self.scene.moment.matrix.is_sealed => Vec::new(),
            E::BallotCast(data) => {
                let text = format!("cast a ballot, {} sure", percent(data.confidence_pm));
                self.remark(Tone::Quiet, "▪ ", &text)
            }
            E::PropositionsStated(data) => {
                let text = format!("{} in dispute", phrases::counted(data.count.into(), "proposition"));
                self.remark(Tone::Accent, "◆ ", &text)
            }
            E::RatingsCast(_) => Vec::new(),
            E::BallotsRevealed(_) => self.remark(Tone::Accent, "◆ ", "the ballots are revealed"),
            E::ConvergenceProbed(data) => {
                let phase = clean_line(&phrases::spaced(&data.phase));
                let text = match data.score_pm {
                    Some(score) => format!("{} agreed after {phase}", percent(score)),
                    None => format!("agreement was not measured after {phase}"),
                };
                self.remark(Tone::Accent, "◆ ", &text)
            }
            E::DebateGated(data) => {
                self.wrapped(Tone::Accent, "◆ ", &format!("not worth a debate: {}", clean_line(&data.reason)))
            }
            E::VerdictReached(data) => {
                let is_vote = matches!(self.scene.event(data.source), Some(ArenaEvent::BallotsRevealed(_)));
                let text = match is_vote {
                    true => "no verdict; the sealed majority is used instead".to_owned(),
                    false => format!("verdict, {} sure", percent(data.confidence_pm)),
                };
                self.remark(Tone::Accent, "◆ ", &text)
            }
            E::DissentRecorded(data) => {
                let on = crate::projection::report::wording::names(&data.propositions);
                self.remark(Tone::Quiet, "▪ ", &format!("stands against the verdict on {on}"))
            }
            _ => Vec::new(),
        }
    }

    /// True when the item above says the same already.
    fn told_before(&self, from: SparkId, to: SparkId) -> bool {
        let before = self.before.and_then(|before| self.scene.event(before.source));
        matches!(before, Some(ArenaEvent::InsightSurfaced(data)) if data.from == from && data.to == to)
    }

    fn critique(&self, data: &crate::protocol::event::CritiqueIssued) -> Vec<Line<'static>> {
        let mut out = match data.verdict {
            Judgement::Approve => self.remark(Tone::Good, "✓ ", "approves"),
            Judgement::RequestChanges => self.remark(Tone::Warn, "✗ ", "requests changes"),
            Judgement::Unknown(_) => self.remark(Tone::Warn, "✗ ", phrases::NEWER),
        };
        for finding in &data.findings {
            let place = finding.file.as_deref().map(|file| match finding.line {
                Some(line) => format!(" {}:{line}", clean_line(file)),
                None => format!(" {}", clean_line(file)),
            });
            let text = format!(
                "{} {}{}  {}",
                clean_line(&finding.id),
                finding.severity.word(),
                place.unwrap_or_default(),
                clean_line(&finding.problem)
            );
            out.extend(self.wrapped(Tone::Text, "    ", &text));
        }
        out
    }
}

/// A command's output without the labels that only its model needs: exit code, and which stream when only one spoke.
fn without_status(content: &str) -> &str {
    let rest = match content.split_once('\n') {
        Some((first, rest)) if first.starts_with("exit code ") => rest,
        _ => content,
    };
    let Some(only) = rest.strip_suffix("stderr: (empty)").or_else(|| rest.strip_suffix("stderr: (empty)\n"))
    else {
        return rest;
    };
    only.strip_prefix("stdout:\n").unwrap_or(only)
}
