//! What the events of tool calls, checks, other calls and the workspace say.

use super::{Body, Kind, Scene, Telling, Tone, Weight, orders, short};
use crate::projection::phrases;
use crate::projection::visible::{collapsed, shown};
use crate::protocol::ArenaEvent;
use crate::protocol::command::Choice;
use crate::protocol::effect::Order;
use crate::protocol::event::{
    Answered, ApprovalAnswered, ApprovalRequested, BackgroundEnded, CallLost, CheckRan, DiffTaken,
    EffectFailed, EffectOrdered, FailStatus, GateAnswered, HostAsked, HostJudged, MentionExpanded, Plan,
    PolicyDecided, PrepareResult, TimerFired, ToolAnswered, ToolInvoked, ToolPrepared, ToolRefused,
    ToolResolved, ToolStatus, ToolUse, WorkspaceCheckpointed, WorkspaceFingerprinted,
};
use crate::protocol::inside::{self, InsideCall};
use crate::protocol::need::Need;
use crate::protocol::text::names_shown;

pub(super) fn prepared(data: &ToolPrepared, scene: &Scene<'_>) -> Telling<'static> {
    let found = match &data.result {
        PrepareResult::Ready(plan) => {
            let opened = plan.needs.iter().filter(|need| need.leaves_sandbox() || **need == Need::Git);
            let opened: String = opened.map(|need| format!(", needs `{}`", need.name())).collect();
            format!("ready{}, digest {}", shown(&opened), short(&plan.digest))
        }
        PrepareResult::Unfit(why) => why.clone(),
        PrepareResult::Unknown(_) => phrases::NEWER.to_owned(),
    };
    Telling::new(Kind::Prepared, scene.tool(data.tool_use)).ended(found)
}

pub(super) fn judged(data: &PolicyDecided, scene: &Scene<'_>) -> Telling<'static> {
    let head = format!("{} by rule `{}`", phrases::action(data.action), data.rule);
    Telling::new(Kind::Policy, head).ended(scene.tool(data.tool_use))
}

pub(super) fn gated(data: &GateAnswered, scene: &Scene<'_>) -> Telling<'static> {
    let why = Some(data.verdict.why()).filter(|why| !why.is_empty()).map(|why| format!(": {why}"));
    let head = format!(
        "{} by gate {}{}",
        phrases::action(data.verdict.action()),
        data.gate,
        why.unwrap_or_default()
    );
    Telling::new(Kind::Gate, head).ended(scene.tool(data.tool_use))
}

/// What is asked is shown whole: no one approves what was cut.
pub(super) fn asked(data: &ApprovalRequested, scene: &Scene<'_>) -> Telling<'static> {
    let tool = scene.tool(data.tool_use);
    let plan = (scene.lookup)(data.prepared).and_then(ArenaEvent::plan);
    let what = if plan.and_then(Plan::connection).is_some() { "connect" } else { "run" };
    let head = format!("may it {what}? {} ({})", collapsed(&shown(&tool)), data.call);
    let preview = plan.map(|plan| phrases::asked_about(plan, &data.opens)).unwrap_or_default();
    // The line itself may show all of it already.
    let preview = if tool.ends_with(&format!(": {}", preview.trim())) { "" } else { &preview };
    Telling::new(Kind::Ask, head).with(Body::Rows(collapsed(&shown(preview))))
}

pub(super) fn connects(data: &HostAsked, scene: &Scene<'_>) -> Telling<'static> {
    let need = data.plan.connection().map(|need| need.name().into_owned()).unwrap_or_default();
    Telling::new(Kind::Prepared, scene.tool(data.tool_use)).ended(format!("waits for {need}"))
}

pub(super) fn connection(data: &HostJudged, scene: &Scene<'_>) -> Telling<'static> {
    let head = format!("{}: {} by {}", data.need, phrases::action(data.action), data.rule);
    Telling::new(Kind::Policy, head).ended(scene.tool(data.tool_use))
}

pub(super) fn approved(data: &ApprovalAnswered) -> Telling<'_> {
    let tone = if matches!(data.choice, Choice::Deny(_)) { Tone::Bad } else { Tone::Good };
    let rule = match &data.choice {
        Choice::Rule(rule) => format!(" `{}`", rule.name),
        _ => String::new(),
    };
    let head = format!("{}{rule} by {}", phrases::choice(&data.choice), data.by);
    let told = Telling::new(Kind::Reply, head).by_you().toned(tone).refs(format!("({})", data.call));
    match &data.choice {
        Choice::Deny(why) => told.with(Body::Said(why.into())),
        _ => told,
    }
}

pub(super) fn invoked(data: &ToolInvoked, scene: &Scene<'_>) -> Telling<'static> {
    let told = Telling::new(Kind::Tool, scene.tool(data.tool_use));
    if data.attempt > 1 { told.refs(format!("(attempt {})", data.attempt)) } else { told }
}

/// Output of commands and of failures is shown; what a tool merely read is counted.
pub(super) fn resolved<'a>(data: &'a ToolResolved, scene: &Scene<'_>) -> Telling<'a> {
    let is_ok = data.status == ToolStatus::Ok;
    let how = match data.exit {
        Some(code) if is_ok || data.status == ToolStatus::Failed => format!("exit {code}"),
        _ => phrases::tool_status(data.status).to_owned(),
    };
    let tone = match (data.status, data.exit) {
        (ToolStatus::Ok, None | Some(0)) => Tone::Good,
        (ToolStatus::Failed, _) => Tone::Bad,
        _ => Tone::Warn,
    };
    let words = data.words();
    let (is_quiet, lines) = (is_ok && data.exit.is_none(), words.lines().count() as u64);
    let counted = if is_quiet && lines > 1 { phrases::counted(lines, "line") } else { String::new() };
    let counted = if counted.is_empty() { counted } else { format!("({counted})") };
    let end = format!("{how} \u{b7} {}", phrases::duration(data.ms));
    let told =
        Telling::new(Kind::Result, scene.tool_name(data.tool_use)).ended(end).toned(tone).refs(counted);
    if is_quiet { told.over(Body::Output(words)) } else { told.with(Body::Output(words)) }
}

pub(super) fn refused<'a>(data: &'a ToolRefused, scene: &Scene<'_>) -> Telling<'a> {
    let told = Telling::new(Kind::Refused, scene.tool(data.tool_use)).ended(phrases::refusal(data.reason));
    told.with(Body::Output((&data.text).into()))
}

/// A list that was kept; what a person answered was told when it was given.
pub(super) fn answered(data: &ToolAnswered, scene: &Scene<'_>) -> Telling<'static> {
    let ToolUse { answer, part } = data.tool_use;
    match inside::call_of(answer, part, scene.lookup) {
        Some(InsideCall::Todo(list)) => {
            let rows = list.lines().collect::<Vec<_>>().join("\n");
            Telling::new(Kind::Steps, list.words()).with(Body::Rows(rows))
        }
        // What the subagent said was told when it said it.
        Some(InsideCall::Spawn(_)) => {
            Telling::new(Kind::Answered, scene.tool(data.tool_use)).refs(format!("[{}]", data.from))
        }
        _ => {
            let words = inside::words(data, scene.lookup).unwrap_or_default();
            let told = Telling::new(Kind::Answered, scene.tool(data.tool_use));
            told.refs(format!("[{}]", data.from)).with(Body::Said(words.into()))
        }
    }
}

pub(super) fn lost<'a>(data: &'a CallLost, scene: &Scene<'_>) -> Telling<'a> {
    let what = data.tool_use.map_or_else(|| data.call.to_string(), |tool_use| scene.tool(tool_use));
    let told = Telling::new(Kind::Lost, what).ended("how it ended is unknown");
    told.with(Body::Output((&data.text).into()))
}

pub(super) fn checked(data: &CheckRan) -> Telling<'_> {
    let (how, tone) = match data.exit {
        Some(0) => ("passed".to_owned(), Tone::Good),
        Some(code) => (format!("exit {code}"), Tone::Bad),
        None => ("killed".to_owned(), Tone::Bad),
    };
    let told = Telling::new(Kind::Check, &data.command).toned(tone);
    let told = told.ended(format!("{how} \u{b7} {}", phrases::duration(data.ms)));
    told.with(Body::Output((&data.output).into()))
}

pub(super) fn ended<'a>(data: &'a Answered<BackgroundEnded>, scene: &Scene<'_>) -> Telling<'a> {
    let end = &data.body;
    let tone = if matches!(end.exit, Some(code) if code != 0) { Tone::Bad } else { Tone::Good };
    let head = format!("in the background: {}", scene.tool(end.tool_use));
    let told = Telling::new(Kind::Result, head).toned(tone).refs(format!("({})", data.call));
    let told = told.ended(format!("{} \u{b7} {}", end.how, phrases::duration(end.ms)));
    told.with(Body::Output((&end.output).into()))
}

pub(super) fn ordered(data: &EffectOrdered, scene: &Scene<'_>) -> Telling<'static> {
    if let Order::Question(question) = &data.effect {
        let ToolUse { answer, part } = question.tool_use;
        if let Some(InsideCall::AskUser(asked)) = inside::call_of(answer, part, scene.lookup) {
            return Telling::said(Kind::Asks, asked.lines().collect::<Vec<_>>().join("\n"));
        }
    }
    let head = orders::order(&data.effect, &|tool_use| scene.tool(tool_use));
    Telling::new(Kind::Order, head).refs(format!("({}, attempt {})", data.call, data.attempt))
}

pub(super) fn fired(data: &Answered<TimerFired>) -> Telling<'static> {
    let head = format!("after {} of work", phrases::duration(data.body.active_ms));
    Telling::new(Kind::Timer, head).refs(format!("({})", data.call))
}

/// What of it failed is known where its order is.
pub(super) fn failed<'a>(data: &'a Answered<EffectFailed>, scene: &Scene<'_>) -> Telling<'a> {
    let doing = scene.calls.and_then(|calls| Some(calls.say(calls.get(data.call)?)));
    let weight = if data.body.status == FailStatus::Failed { Weight::News } else { Weight::Routine };
    let told = Telling::new(Kind::Failed, doing.unwrap_or_default()).weighing(weight);
    told.with(Body::Said((&data.body.error).into()))
}

pub(super) fn read(data: &MentionExpanded) -> Telling<'static> {
    let what = match data.images().next() {
        Some(image) => format!("picture, {}×{}", image.width, image.height),
        None => phrases::counted(data.text.lines().count() as u64, "line"),
    };
    Telling::new(Kind::Read, format!("{} ({what})", data.mention))
}

pub(super) fn recorded(data: &WorkspaceCheckpointed) -> Telling<'static> {
    let files = phrases::counted(data.files, "file");
    Telling::new(Kind::Recorded, format!("workspace, {files}, tree {}", short(&data.tree)))
}

pub(super) fn fingerprinted(data: &WorkspaceFingerprinted) -> Telling<'static> {
    let files = phrases::counted(data.files, "file");
    Telling::new(Kind::Recorded, format!("fingerprint of {files}, {}", short(&data.fingerprint)))
}

pub(super) fn compared(data: &DiffTaken) -> Telling<'_> {
    let told = |head: String| Telling::new(Kind::Diff, head).with(Body::Diff((&data.diff).into()));
    let count = phrases::counted(data.files.len() as u64, "file");
    match data.files.as_slice() {
        // Of a last look at the workspace that found nothing there is nothing to say.
        [] => told("nothing changed".to_owned()).weighing(Weight::Routine),
        files => told(format!("{count} changed: {}", names_shown(files))),
    }
}
