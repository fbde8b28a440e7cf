//! What each event is called in plain lines, and which are worth one; lays nothing out.

use serde_json::Value;

use crate::projection::calls::ToolFace;
use crate::projection::one_line_summary::about;
use crate::projection::one_line_summary::kept::{order, short};
use crate::projection::visible::{collapsed, shown};
use crate::projection::{phrases, typed};
use crate::protocol::command::Choice;
use crate::protocol::effect::Order;
use crate::protocol::event::{
    ApprovalAnswered, ApprovalRequested, ArenaEvent, CallLost, CheckRan, DiffTaken, FailStatus, ModelFailed,
    ModelReply, Notice, Plan, PrepareResult, SessionForked, SessionOpened, ToolInvoked, ToolRefused,
    ToolResolved, ToolStatus, ToolUse,
};
use crate::protocol::expand::Lookup;
use crate::protocol::inside::InsideCall;
use crate::protocol::message::{Finish, Part};
use crate::protocol::spec::PermissionLevel;
use crate::protocol::text::names_shown;
use crate::protocol::{CallId, StopCause};

use super::{Line, Renderer, Tone, Who};

impl Renderer {
    /// The lines of one event; most have one, routine decisions have one only in full.
    pub(super) fn say(&self, at: u64, event: &ArenaEvent, lookup: Lookup<'_>) -> Vec<Line> {
        use ArenaEvent as E;
        if let Some(lines) = self.say_debate(event, lookup) {
            return lines;
        }
        let line = match event {
            E::SessionOpened(data) if self.options.full => say_opened(at, data),
            E::SessionOpened(data) => say_begun(data),
            E::SessionResumed(data) => {
                Line::new(Who::Agon, "resumed", Tone::Strong, format!("by {}", data.program))
            }
            E::SessionForked(data) => say_forked(data),
            E::SessionPaused(data) => {
                Line::new(Who::Agon, "paused", Tone::Warn, phrases::pause_cause(data.cause))
            }
            E::FaultRecovered(data) => {
                let text =
                    format!("{} of a torn end set aside in {}", bytes(data.dropped_bytes), data.kept_in);
                Line::new(Who::Agon, "repaired", Tone::Warn, text)
            }
            E::PromptGiven(data) => Line::said(Who::You, "prompt", Tone::Strong, &data.text),
            E::TurnRewound(data) => Line::new(Who::You, "undo", Tone::Strong, phrases::rewound(data)),
            E::SteeringGiven(data) => Line::said(Who::You, "steer", Tone::Strong, &data.text),
            E::InterruptRequested(_) => Line::new(Who::You, "stop", Tone::Warn, "interrupted"),
            E::StopRequested(data) if data.cause != StopCause::Finished => {
                Line::new(Who::You, "stop", Tone::Warn, phrases::stop_cause(data.cause))
            }
            E::ApprovalAnswered(data) => self.say_approved(data),
            E::ModelAnswered(data)
                if !self.options.full && self.calls.get(data.call).is_some_and(|open| open.is_summary) =>
            {
                return Vec::new();
            }
            E::ModelAnswered(data) => return self.say_reply(data.call, &data.body),
            E::ModelFailed(data) => return self.say_failure(data.call, &data.body),
            E::ToolInvoked(data) => self.say_invoked(data),
            E::ToolResolved(data) => self.say_resolved(data.call, &data.body),
            E::ToolRefused(data) => self.say_refused(data),
            E::QuestionAnswered(data) => Line::said(Who::You, "answer", Tone::Strong, &data.text),
            E::ToolAnswered(data) => return self.say_answered(data.tool_use),
            E::EffectOrdered(data) if let Order::Question(asked) = &data.effect => {
                return self.say_question(asked.tool_use);
            }
            E::ApprovalRequested(data) => self.say_asked(data, lookup),
            E::CallLost(data) => self.say_lost(data),
            E::CheckRan(data) => self.say_check(data.call, &data.body),
            // Of a last look at the workspace that found nothing there is nothing to say.
            E::DiffTaken(data) if data.body.files.is_empty() && !self.options.full => return Vec::new(),
            E::DiffTaken(data) => self.say_diff(data.call, &data.body),
            E::InputRefused(data) => Line::new(Who::Agon, "refused", Tone::Warn, &data.reason),
            E::Unknown { kind, raw } => say_unknown(kind, raw),
            _ => return self.say_progress(event),
        };
        vec![line]
    }

    /// News that are not part of the conversation itself.
    fn say_progress(&self, event: &ArenaEvent) -> Vec<Line> {
        use ArenaEvent as E;
        let line = match event {
            // A task is long, and what follows shows what it was.
            E::NoticeGiven(data) if data.notice == Notice::Brief && !self.options.full => {
                let first = data.text.lines().next().unwrap_or_default();
                Line::new(Who::Spark(data.spark), "task", Tone::Quiet, first)
            }
            E::NoticeGiven(data) if data.notice == Notice::Compacted && !self.options.full => {
                return Vec::new();
            }
            E::NoticeGiven(data) => {
                let text = format!("{}: {}", phrases::notice(data.notice), data.text);
                Line::said(Who::Spark(data.spark), "notice", Tone::Warn, &text)
            }
            E::AnswerRejected(data) => {
                let next = if data.repair { "asked again" } else { "given up" };
                let text = format!("the answer does not fit its schema, {next}");
                Line::new(Who::Spark(data.spark), "rejected", Tone::Warn, text).with(data.errors.join("\n"))
            }
            E::RetryScheduled(data) => {
                let text = format!("attempt {} in {}", data.attempt, phrases::duration(data.delay_ms));
                Line::new(self.who(data.timer, Some(data.call)), "retry", Tone::Warn, text)
            }
            E::ParamsDropped(data) => {
                Line::new(Who::Spark(data.spark), "dropped", Tone::Quiet, phrases::dropped(data))
            }
            E::FallbackTaken(data) => {
                let text = format!("{} instead of {}", data.to, data.from);
                Line::new(Who::Spark(data.spark), "fallback", Tone::Warn, text)
            }
            E::LimitReached(data) => {
                let text = phrases::limit(data.limit, data.used, data.max);
                Line::new(Who::Agon, "limit", Tone::Bad, text)
            }
            E::ContextCompacted(data) => {
                let events = counted(data.covers.len(), "event");
                let text = format!("earlier conversation summarised ({events}, {})", data.summary);
                Line::new(Who::Spark(data.spark), "compact", Tone::Quiet, text)
            }
            E::TurnClosed(data) => {
                let tone = if data.cause == crate::protocol::event::TurnCause::Done {
                    Tone::Good
                } else {
                    Tone::Bad
                };
                let text = format!("turn {}: {}", data.turn, phrases::turn_cause(data.cause));
                Line::new(Who::Agon, "end", tone, text)
            }
            E::MentionExpanded(data) => {
                let lines = counted(data.body.text.lines().count(), "line");
                let text = format!("{} ({lines})", data.body.mention);
                Line::new(self.who(data.call, None), "read", Tone::Quiet, text)
            }
            E::EffectFailed(data) if data.body.status == FailStatus::Failed => {
                let what = self.calls.get(data.call).map(|open| self.calls.say(open));
                let text = format!("{}: {}", what.unwrap_or_else(|| data.call.to_string()), data.body.error);
                Line::new(self.who(data.call, None), "failed", Tone::Bad, text)
            }
            _ => return self.say_team(event).unwrap_or_else(|| self.say_routine(event)),
        };
        vec![line]
    }

    /// Decisions and facts that are shown only in full.
    fn say_routine(&self, event: &ArenaEvent) -> Vec<Line> {
        use ArenaEvent as E;
        if !self.options.full {
            return Vec::new();
        }
        let (who, word, text) = match event {
            E::ModelCalled(data) => {
                let text = format!("{} ({}, attempt {})", data.model, data.call, data.attempt);
                (Who::Spark(data.spark), "call", text)
            }
            E::EffectOrdered(data) => {
                let text = format!(
                    "{} ({}, attempt {})",
                    order(&data.effect, &|tool_use| self.tool(tool_use)),
                    data.call,
                    data.attempt
                );
                (data.spark.map_or(Who::Agon, Who::Spark), "order", text)
            }
            E::ToolPrepared(data) => {
                let what = match &data.body.result {
                    PrepareResult::Ready(plan) => format!("ready, digest {}", short(&plan.digest)),
                    PrepareResult::Unfit(why) => why.clone(),
                    PrepareResult::Unknown(_) => phrases::NEWER.to_owned(),
                };
                let text = format!("{}: {what}", self.tool(data.body.tool_use));
                (self.who(data.call, None), "prepared", text)
            }
            E::PolicyDecided(data) => {
                let action = phrases::action(data.action);
                let text = format!("{action} by rule `{}`: {}", data.rule, self.tool(data.tool_use));
                (self.owner(data.tool_use), "policy", text)
            }
            E::BudgetReserved(data) => {
                let text = format!(
                    "{}, {} ({})",
                    counted(data.tokens, "token"),
                    phrases::money(data.micro_usd),
                    data.call
                );
                (Who::Agon, "reserve", text)
            }
            E::BudgetSettled(data) => {
                let text = format!(
                    "{}, {} ({})",
                    phrases::tokens(&data.usage),
                    phrases::money(data.micro_usd),
                    data.call
                );
                (Who::Agon, "settle", text)
            }
            E::CallCancelled(data) => {
                (self.who(data.call, None), "cancel", format!("{}: {}", data.call, data.reason))
            }
            E::OutcomeIgnored(data) => (Who::Agon, "ignored", data.reason.clone()),
            E::SparkCompleted(data) => {
                (Who::Spark(data.spark), "done", phrases::turn_cause(data.cause).to_owned())
            }
            E::SessionSealed(data) => (Who::Agon, "sealed", phrases::stop_cause(data.cause).to_owned()),
            E::TurnOpened(data) => (Who::Agon, "turn", data.turn.to_string()),
            other => return vec![say_kept(other)],
        };
        vec![Line::new(who, word, Tone::Quiet, text)]
    }

    /// A model's thinking (in full), then what it says; its tool calls are shown when they run.
    fn say_reply(&self, call: CallId, reply: &ModelReply) -> Vec<Line> {
        let who = self.who(call, None);
        if self.debating.is_sealed {
            return vec![Line::new(who, "answer", Tone::Plain, "sealed until every ballot is in")];
        }
        let mut lines = Vec::new();
        for part in &reply.message {
            if let (Part::Reasoning { text, .. }, true) = (part, self.options.full)
                && !text.trim().is_empty()
            {
                lines.push(Line::said(who.clone(), "thought", Tone::Quiet, text));
            }
        }
        let asks = reply.message.iter().any(|part| matches!(part, Part::Call { .. }));
        let (word, tone) = if asks { ("says", Tone::Plain) } else { ("answer", Tone::Good) };
        let text = reply.text();
        // What programs read is told in words; in full it is what the model wrote.
        let text = typed::readable(&text, &[]).filter(|_| !self.options.full).unwrap_or(text);
        if !text.trim().is_empty() {
            lines.push(Line::said(who.clone(), word, tone, &text));
        } else if !asks {
            lines.push(Line::new(who.clone(), word, Tone::Warn, "nothing at all"));
        }
        if let Some(why) = unusual(&reply.finish) {
            lines.push(Line::new(who.clone(), "notice", Tone::Warn, why));
        }
        if self.options.full {
            let text = format!("{} by {}", phrases::tokens(&reply.usage), reply.model);
            lines.push(Line::new(who, "usage", Tone::Quiet, text));
        }
        lines
    }

    /// How an answer ended, when that is unusual.
    pub(super) fn say_odd_end(&self, call: CallId, reply: &ModelReply) -> Vec<Line> {
        let line = |why: String| Line::new(self.who(call, None), "notice", Tone::Warn, why);
        unusual(&reply.finish).map(line).into_iter().collect()
    }

    fn say_failure(&self, call: CallId, failed: &ModelFailed) -> Vec<Line> {
        let who = || self.who(call, None);
        let said = Some(&failed.said).filter(|said| !said.trim().is_empty() && !self.debating.is_sealed);
        let said = said.map(|said| Line::said(who(), "cut off", Tone::Quiet, said));
        let kind = phrases::error_kind(failed.kind);
        let why = match self.failures.get(&call) {
            Some(before) if *before == failed.message => {
                Line::new(who(), "failed", Tone::Bad, format!("{kind}, with the same words"))
            }
            _ => Line::new(who(), "failed", Tone::Bad, kind).with(&failed.message),
        };
        said.into_iter().chain([why]).collect()
    }

    fn say_invoked(&self, data: &ToolInvoked) -> Line {
        let again = if data.attempt > 1 { format!(" (attempt {})", data.attempt) } else { String::new() };
        Line::new(Who::Spark(data.spark), "tool", Tone::Tool, format!("{}{again}", self.tool(data.tool_use)))
    }

    /// Output of commands and of failures is shown; what a tool merely read is counted.
    fn say_resolved(&self, call: CallId, end: &ToolResolved) -> Line {
        let how = match end.exit {
            Some(code) if end.status == ToolStatus::Ok || end.status == ToolStatus::Failed => {
                format!("exit {code}")
            }
            _ => phrases::tool_status(end.status).to_owned(),
        };
        let ok = end.status == ToolStatus::Ok;
        let quiet = ok && end.exit.is_none() && !self.options.full;
        let content = end.words();
        let lines = content.lines().count();
        let count = if quiet && lines > 1 { format!(", {}", counted(lines, "line")) } else { String::new() };
        let tool = self.calls.tool(end.tool_use).map_or("tool", |face| face.tool.as_str());
        let text = format!("{tool}: {how} in {}{count}", phrases::duration(end.ms));
        let tone = if ok { Tone::Good } else { Tone::Bad };
        let line = Line::new(self.who(call, None), "result", tone, text);
        if quiet { line } else { line.with(content) }
    }

    fn say_refused(&self, data: &ToolRefused) -> Line {
        let text = format!("{}: {}", self.tool(data.tool_use), phrases::refusal(data.reason));
        Line::new(self.owner(data.tool_use), "refused", Tone::Bad, text).with(&data.text)
    }

    fn say_question(&self, tool_use: ToolUse) -> Vec<Line> {
        let Some(InsideCall::AskUser(asked)) = self.inside(tool_use) else { return Vec::new() };
        let text = asked.lines().collect::<Vec<_>>().join("\n");
        vec![Line::said(self.owner(tool_use), "asks", Tone::Warn, &text)]
    }

    /// A list that was kept; an answer was shown when it was given.
    fn say_answered(&self, tool_use: ToolUse) -> Vec<Line> {
        let Some(InsideCall::Todo(list)) = self.inside(tool_use) else { return Vec::new() };
        let lines = list.lines().collect::<Vec<_>>().join("\n");
        vec![Line::new(self.owner(tool_use), "steps", Tone::Plain, list.words()).with_whole(lines)]
    }

    fn inside(&self, tool_use: ToolUse) -> Option<&InsideCall> {
        self.calls.tool(tool_use)?.inside.as_ref()
    }

    /// What is asked is shown whole: nobody approves what was cut.
    fn say_asked(&self, data: &ApprovalRequested, lookup: Lookup<'_>) -> Line {
        let plan = lookup(data.prepared).and_then(ArenaEvent::plan);
        let what = if plan.and_then(Plan::connection).is_some() { "connect" } else { "run" };
        let text = format!("may it {what}? {} ({})", collapsed(&shown(&self.tool(data.tool_use))), data.call);
        let line = Line::new(Who::Spark(data.spark), "ask", Tone::Warn, text);
        match plan {
            Some(plan) if self.is_said(data.tool_use, &plan.preview) => line,
            Some(plan) => line.with_whole(collapsed(&shown(&phrases::asked_about(plan, &data.opens)))),
            None => line,
        }
    }

    /// True when the line itself already shows the whole preview.
    fn is_said(&self, tool_use: ToolUse, preview: &str) -> bool {
        self.calls.tool(tool_use).is_some_and(|face| face.target == preview.trim())
    }

    fn say_approved(&self, data: &ApprovalAnswered) -> Line {
        let tone = if matches!(data.choice, Choice::Deny(_)) { Tone::Bad } else { Tone::Good };
        let text = format!("{} by {} ({})", phrases::choice(&data.choice), data.by, data.call);
        let line = Line::new(Who::You, "reply", tone, text);
        match &data.choice {
            Choice::Deny(why) => line.with(why),
            Choice::Rule(rule) => line.with(format!("rule `{}`", rule.name)),
            Choice::Once | Choice::Session | Choice::Unknown(_) => line,
        }
    }

    fn say_lost(&self, data: &CallLost) -> Line {
        let what = data.tool_use.map_or_else(|| data.call.to_string(), |tool_use| self.tool(tool_use));
        let text = format!("{what}: how it ended is unknown");
        Line::new(self.who(data.call, None), "lost", Tone::Bad, text).with(&data.text)
    }

    fn say_check(&self, call: CallId, ran: &CheckRan) -> Line {
        let (how, tone) = match ran.exit {
            Some(0) => ("passed".to_owned(), Tone::Good),
            Some(code) => (format!("exit {code}"), Tone::Bad),
            None => ("killed".to_owned(), Tone::Bad),
        };
        let text = format!("{}: {how} in {}", ran.command, phrases::duration(ran.ms));
        Line::new(self.who(call, None), "check", tone, text).with(&ran.output)
    }

    fn say_diff(&self, call: CallId, taken: &DiffTaken) -> Line {
        let text = match taken.files.as_slice() {
            [] => "nothing changed".to_owned(),
            [only] => names_shown([only]),
            files => format!("{}: {}", counted(files.len(), "file"), names_shown(files)),
        };
        Line::new(self.who(call, None), "diff", Tone::Plain, text).with(&taken.diff)
    }

    /// The spark an open call is for; `or` names a second call to try.
    fn who(&self, call: CallId, or: Option<CallId>) -> Who {
        let spark = |call: CallId| {
            self.calls.get(call).and_then(|open| open.spark).or_else(|| self.calls.failed_for(call))
        };
        spark(call).or_else(|| or.and_then(spark)).map_or(Who::Agon, Who::Spark)
    }

    /// The spark a tool call is for.
    fn owner(&self, tool_use: ToolUse) -> Who {
        self.calls.tool(tool_use).and_then(|face| face.spark).map_or(Who::Agon, Who::Spark)
    }

    /// A tool call as people speak of it.
    fn tool(&self, tool_use: ToolUse) -> String {
        let unnamed = || format!("tool call {} of {}", tool_use.part, tool_use.answer);
        self.calls.tool(tool_use).map_or_else(unnamed, ToolFace::words)
    }
}

/// Routine facts of the workspace and the driver, and whatever has no words of its own.
fn say_kept(event: &ArenaEvent) -> Line {
    use ArenaEvent as E;
    let files = |count: u64| counted(count, "file");
    let (word, text) = match event {
        E::WorkspaceCheckpointed(data) => {
            ("recorded", format!("workspace, {}, tree {}", files(data.body.files), short(&data.body.tree)))
        }
        E::WorkspaceFingerprinted(data) => (
            "recorded",
            format!("fingerprint of {}, {}", files(data.body.files), short(&data.body.fingerprint)),
        ),
        E::StopRequested(data) => ("stop", phrases::stop_cause(data.cause).to_owned()),
        E::TimerFired(data) => ("timer", format!("{} fired", data.call)),
        E::CacheMissed(data) => (
            "cache",
            phrases::cache_miss(&data.body.reason).unwrap_or_else(|| "no recorded run yet".to_owned()),
        ),
        E::CacheStored(data) => ("cache", format!("stored, {}", bytes(data.body.bytes))),
        other => ("event", format!("{} {}", other.kind(), about(other))),
    };
    Line::new(Who::Agon, word, Tone::Quiet, text)
}

/// What it is, where it is confined and who works on it, on one line.
fn say_begun(data: &SessionOpened) -> Line {
    let spec = &data.spec;
    let model = spec.models.first().map(|model| format!(" \u{b7} {}", model.name)).unwrap_or_default();
    let (id, sandbox) = (phrases::short_id(&data.id), &spec.workspace.sandbox.kind);
    Line::new(Who::Agon, "open", Tone::Strong, format!("session {id}{model} \u{b7} sandbox {sandbox}"))
}

fn say_opened(at: u64, data: &SessionOpened) -> Line {
    let spec = &data.spec;
    let sandbox = &spec.workspace.sandbox;
    let gaps =
        if sandbox.gaps.is_empty() { String::new() } else { format!(", open: {}", sandbox.gaps.join("; ")) };
    let mut rows = vec![
        format!("session    {}", data.id),
        format!("workspace  {}", spec.workspace.root),
        format!("sandbox    {}{gaps}", sandbox.kind),
    ];
    if spec.permission != PermissionLevel::Ask {
        rows.push(format!("permission {}", spec.permission.word()));
    }
    if !sandbox.proven.is_empty() {
        rows.push(format!("proven     {}", sandbox.proven.join("; ")));
    }
    rows.extend(sandbox.consent.iter().map(|consent| {
        format!("consent    {} let the tools work unconfined, because {}", consent.by, consent.why)
    }));
    rows.extend(spec.workspace.places.iter().map(|place| {
        let held = if place.read_only { ", which it cannot change" } else { "" };
        format!("place      {} works in {}{held}", place.role, place.sandbox.kind)
    }));
    rows.extend(spec.models.first().map(|model| format!("model      {}", model.name)));
    rows.push(format!("opened     {} {} UTC", phrases::day(at), phrases::time_of_day(at)));
    Line::new(Who::Agon, "open", Tone::Strong, &spec.program).with_whole(rows.join("\n"))
}

fn say_forked(data: &SessionForked) -> Line {
    let text = format!("session {} from {} after e{}", data.id, data.parent, data.seq);
    Line::new(Who::Agon, "forked", Tone::Strong, text).with(data.change.clone().unwrap_or_default())
}

fn say_unknown(kind: &str, raw: &Value) -> Line {
    let text = format!("`{kind}`, an event of a newer program");
    Line::new(Who::Agon, "unknown", Tone::Warn, text).with(raw.to_string())
}

fn unusual(finish: &Finish) -> Option<String> {
    match finish {
        Finish::Stop | Finish::ToolCalls | Finish::Unknown(_) => None,
        Finish::Length => Some("the answer was cut at the output limit".to_owned()),
        Finish::Filtered => Some("the provider filtered the answer".to_owned()),
        Finish::Refused => Some("the model refused".to_owned()),
        Finish::Other(word) => Some(format!("the model stopped for `{word}`")),
    }
}

fn bytes(count: u64) -> String {
    phrases::counted(count, "byte")
}

fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    phrases::counted(count.try_into().unwrap_or(u64::MAX), noun)
}
