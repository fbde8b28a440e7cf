//! What the events that frame a session say: openings, settings, turns, sparks, notices.

use serde_json::Value;

use super::{Body, Kind, Scene, Telling, Tone, Weight, orders};
use crate::projection::phrases;
use crate::protocol::EventRef;
use crate::protocol::call::OnResume;
use crate::protocol::command::StopCause;
use crate::protocol::effect::Order;
use crate::protocol::event::{
    FaultRecovered, Notice, NoticeGiven, PromptGiven, SessionForked, SessionOpened, SessionResumed,
    SessionSealed, SparkCompleted, SparkIgnited, StopRequested, TurnCause, TurnClosed,
};
use crate::protocol::spec::{Mode, PermissionLevel, Setting};
use crate::protocol::text::names_shown;

fn when(at: u64) -> String {
    format!("{} {} UTC", phrases::day(at), phrases::time_of_day(at))
}

/// What it is, where it is confined and who works on it; the rest below.
pub(super) fn opened(data: &SessionOpened, scene: &Scene<'_>) -> Telling<'static> {
    let (spec, sandbox) = (&data.spec, &data.spec.workspace.sandbox);
    let model = spec.models.first().map(|model| format!(" \u{b7} {}", model.name)).unwrap_or_default();
    let gaps =
        if sandbox.gaps.is_empty() { String::new() } else { format!(", open: {}", sandbox.gaps.join("; ")) };
    let mut rows = vec![
        format!("session    {}", data.id),
        format!("program    {}", spec.program),
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
    if scene.time > 0 {
        rows.push(format!("opened     {}", when(scene.time)));
    }
    let id = phrases::short_id(&data.id);
    let head = format!("session {id}{model} \u{b7} sandbox {}", sandbox.kind);
    Telling::new(Kind::Opened, head).over(Body::Rows(rows.join("\n")))
}

pub(super) fn resumed(data: &SessionResumed, scene: &Scene<'_>) -> Vec<Telling<'static>> {
    let time = match scene.time {
        0 => String::new(),
        at => format!(" \u{b7} {}", when(at)),
    };
    let head = Telling::new(Kind::Resumed, format!("by {}{time}", data.program));
    let head = head.ended(scene.left.and_then(|left| left_words(left, scene)).unwrap_or_default());
    [vec![head], changed(&data.changed)].concat()
}

/// What was in the middle, and what a resume makes of it.
fn left_words((at, more): (EventRef, usize), scene: &Scene<'_>) -> Option<String> {
    let ordered = (scene.lookup)(at)?.orders(at)?;
    let who = ordered.spark.map_or_else(|| "agon".to_owned(), scene.name);
    let doing = orders::doing(&ordered.order, &|tool_use| scene.tool(tool_use));
    let more = if more > 0 { format!(" ({more} more at work)") } else { String::new() };
    let then = match (&ordered.order, ordered.order.row()?.on_resume) {
        (Order::Model(_), _) => "its model is asked again",
        (_, OnResume::Again) => "it is done again",
        (_, OnResume::IfRepeatable) => "it is repeated only if it changes nothing",
        (_, OnResume::Lose) => "how it ended is unknown",
        (_, OnResume::Withdraw) => "it is looked at and asked again",
        (_, OnResume::Keep) => "the question is still open",
    };
    Some(format!("{who} was {doing}{more}; {then}"))
}

pub(super) fn forked(data: &SessionForked) -> Vec<Telling<'static>> {
    let change = data.change.as_ref().map(|change| format!(", with {change}")).unwrap_or_default();
    let head = format!("from {} after e{}{change}", phrases::short_id(&data.parent), data.seq);
    [vec![Telling::new(Kind::Forked, head)], changed(&data.changed)].concat()
}

pub(super) fn stopped(data: &StopRequested) -> Telling<'static> {
    let told = Telling::new(Kind::Stop, phrases::stop_cause(data.cause));
    match data.cause {
        // A run that is over ends itself.
        StopCause::Finished => told.weighing(Weight::Routine),
        _ => told.by_you(),
    }
}

pub(super) fn recovered(data: &FaultRecovered) -> Telling<'static> {
    let bytes = phrases::counted(data.dropped_bytes, "byte");
    Telling::new(Kind::Repaired, format!("{bytes} of a torn end set aside in {}", data.kept_in))
}

pub(super) fn prompt(data: &PromptGiven) -> Vec<Telling<'_>> {
    let kind = match data.mode {
        Mode::Debate(_) => Kind::Question,
        Mode::Solo | Mode::Squad | Mode::Unknown(_) => Kind::Prompt,
    };
    [vec![Telling::said(kind, &data.text).by_you()], changed(&data.changed)].concat()
}

/// Changed settings, a line each.
pub(super) fn settings(all: &[Setting]) -> Vec<Telling<'static>> {
    match all {
        [] => vec![Telling::new(Kind::Setting, "nothing").weighing(Weight::Routine)],
        all => changed(all),
    }
}

fn changed(all: &[Setting]) -> Vec<Telling<'static>> {
    all.iter().map(setting).collect()
}

fn setting(setting: &Setting) -> Telling<'static> {
    let weight = match setting {
        // It stands ready to be used, and nobody uses it yet.
        Setting::Model { default: false, .. } | Setting::Persona { default: false, .. } => Weight::Routine,
        _ => Weight::Aside,
    };
    let told = Telling::new(Kind::Setting, setting_words(setting)).weighing(weight);
    match setting {
        Setting::Workspace(workspace) if !workspace.sandbox.is_confining() => told.toned(Tone::Bad),
        Setting::Permission(PermissionLevel::Auto) => told.toned(Tone::Warn),
        _ => told,
    }
}

/// A setting in words.
fn setting_words(setting: &Setting) -> String {
    match setting {
        Setting::Model { spec, .. } => format!("model {}", spec.name),
        Setting::Persona { spec, .. } => format!("persona {}", spec.id),
        Setting::Policy(policy) => {
            format!("policy of {}", phrases::counted(policy.rules.len() as u64, "rule"))
        }
        Setting::Limits(all) => format!("limits: {}", phrases::limits(all)),
        Setting::Retry(retry) => format!("up to {} attempts a model call", retry.attempts),
        Setting::Blueprint(blueprint) => format!("blueprint {}", blueprint.name),
        Setting::Workspace(workspace) => match workspace.sandbox.is_confining() {
            false => format!("tools UNCONFINED in {}", workspace.root),
            true => format!("sandbox {} in {}", workspace.sandbox.kind, workspace.root),
        },
        Setting::Cache(cache) => format!("team cache {}", if cache.is_some() { "on" } else { "off" }),
        Setting::RoleModel { role, model } => format!("{role} works with {model}"),
        Setting::Offered(offered) => phrases::offered(offered.as_deref()),
        Setting::Sources(sources) => format!("tool sources: {}", names_shown(sources)),
        Setting::Permission(level) => format!("permission level {}", level.word()),
        Setting::Effort(effort) => phrases::effort(*effort),
        Setting::Gates(gates) => format!("gates: {}", names_shown(gates)),
        Setting::Unknown(_) => phrases::NEWER.to_owned(),
    }
}

pub(super) fn unknown(kind: &str, raw: &Value) -> Telling<'static> {
    let head = format!("`{kind}`, an event of a newer agon");
    Telling::new(Kind::Unknown, head).with(Body::Output(raw.to_string().into()))
}

pub(super) fn closed(data: &TurnClosed) -> Telling<'static> {
    let tone = if data.cause == TurnCause::Done { Tone::Good } else { Tone::Bad };
    Telling::new(Kind::End, format!("turn {}", data.turn)).ended(phrases::turn_cause(data.cause)).toned(tone)
}

pub(super) fn sealed(data: &SessionSealed) -> Telling<'static> {
    let weight = if data.cause == StopCause::Finished { Weight::Routine } else { Weight::Aside };
    Telling::new(Kind::Ended, phrases::stop_cause(data.cause)).weighing(weight)
}

/// A debater's role is its persona.
pub(super) fn ignited(data: &SparkIgnited, scene: &Scene<'_>) -> Vec<Telling<'static>> {
    let persona = match data.role == data.persona {
        true => String::new(),
        false => format!("as {} ", data.persona),
    };
    if let Some(delegated) = &data.delegated {
        let head = format!("for {}, {persona}on {}", (scene.name)(delegated.parent), data.model);
        let joins = Telling::new(Kind::Joins, head).ended(scene.tool(delegated.tool_use));
        return vec![joins.weighing(Weight::Aside)];
    }
    let joins = Telling::new(Kind::Joins, format!("{persona}on {}", data.model));
    let earlier = data.earlier_tokens.map(|tokens| {
        let about = format!("about {} tokens", phrases::short_count(tokens));
        match data.continues {
            Some(_) => Telling::new(Kind::Read, format!("what was said before ({about})")),
            None => Telling::new(
                Kind::Notice,
                format!("the chat before this task is not given to the squad ({about}): write into the task what it needs"),
            ),
        }
    });
    [joins].into_iter().chain(earlier).collect()
}

pub(super) fn completed(data: &SparkCompleted) -> Telling<'static> {
    let is_usual = matches!(data.cause, TurnCause::Done | TurnCause::Interrupted);
    let weight = if is_usual { Weight::Routine } else { Weight::Aside };
    Telling::new(Kind::Ended, phrases::turn_cause(data.cause)).weighing(weight)
}

pub(super) fn notice<'a>(data: &'a NoticeGiven, scene: &Scene<'_>) -> Telling<'a> {
    let text = data.text.trim_matches('\n');
    match data.notice {
        // A task is long, and what follows shows what it was. What is asked of each of a debate's voices is the same
        // every time.
        Notice::Brief => {
            let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
            let weight = if scene.debate.is_some() { Weight::Routine } else { Weight::News };
            Telling::new(Kind::Task, first).over(Body::Output(rest.into())).weighing(weight)
        }
        notice => {
            // For the model alone: what it is asked to sum up, how a subagent works; and that a lead lacks the chat, or a
            // command in the background has ended, which is shown where it happens.
            let is_for_model = matches!(
                notice,
                Notice::Compacted
                    | Notice::Apart
                    | Notice::Interrupted
                    | Notice::Subagent
                    | Notice::Background
            );
            let weight = if is_for_model { Weight::Routine } else { Weight::News };
            let head = phrases::notice(notice);
            Telling::new(Kind::Notice, head).with(Body::Said(text.into())).weighing(weight)
        }
    }
}
