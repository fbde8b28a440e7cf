//! The command `verify`: is a log whole, do the same facts give the same decisions, what would other rules have
//! decided; calls nothing.

use serde_json::json;

use crate::cli::args::VerifyArgs;
use crate::cli::error::{DIVERGED, DONE, Failure};
use crate::cli::output::Output;
use crate::cli::plain;
use crate::cli::plan::rules_in;
use crate::config::{Environment, Places};
use crate::host::replay::{self, Difference, Redecided, Verification};
use crate::host::{LogError, Read, Sessions, WireError};
use crate::projection::phrases::counted;
use crate::projection::safe_text::shown;
use crate::protocol::event::PolicyDecided;
use crate::protocol::spec::Rule;
use crate::protocol::{ArenaEvent, Entry, EventRef};

/// Checks the chain, then whether the same facts give the same decisions.
pub fn run(typed: &VerifyArgs, environment: &Environment, output: Output) -> Result<u8, Failure> {
    let sessions = Sessions::at(&Places::find(environment)?);
    if let Some(file) = &typed.policy {
        return redecided(sessions.read(&typed.session)?, &rules_in(file)?, typed.json, output);
    }
    let (read, found, last) = sessions.verify(&typed.session)?;
    let is_head = typed.head.as_ref().is_none_or(|head| *head == read.head.hash);
    let holds = found.holds(typed.strict) && read.fault.is_none() && is_head;
    if typed.json {
        output.json(&verified_json(&read, &found, holds))?;
        return Ok(if holds { DONE } else { DIVERGED });
    }
    if let Some((seq, scorer)) = &found.no_scorer {
        let words = format!("e{seq} holds a debate scored by `{scorer}`, which is no scorer of this program");
        return Err(Failure::usage(words).hint("verify it with the program that registered that scorer"));
    }
    output.data(&shown(&verified_text(&read, last.as_deref(), &found)))?;
    match (read.fault, typed.head.as_ref().filter(|_| !is_head), found.newer) {
        (Some(fault), ..) => Err(WireError::from(fault).into()),
        (None, Some(head), _) => {
            let now = read.head.hash;
            let words =
                format!("the log ends with {now}, not with {head}: it was cut, went on or is another");
            Err(Failure::new(DIVERGED, anyhow::anyhow!("{words}")))
        }
        (None, None, Some((seq, _))) => {
            let words = format!("what a newer agon wrote from e{seq} on is not known here");
            Err(Failure::usage(words).hint("verify it with the program that wrote it"))
        }
        (None, None, None) => Ok(if holds { DONE } else { DIVERGED }),
    }
}

fn verified_text(read: &Read, last: Option<&Entry>, found: &Verification) -> String {
    let mut text = format!("chain      {}, head {}\n", counted(read.head.count, "entry"), read.head.hash);
    if read.unfinished > 0 {
        text += &format!("tail       {} bytes of an entry that was never finished\n", read.unfinished);
    }
    if let Some(seq) = found.unreadable {
        text += &format!("unreadable e{seq} does not follow or starts with no fact\n");
    }
    if let Some(fault) = &read.fault {
        let word = match fault {
            LogError::Newer { .. } => "newer  ",
            LogError::Older { .. } => "older  ",
            _ => "DAMAGED",
        };
        text += &format!("{word}    {fault}\n");
    }
    if let Some(last) = last.filter(|_| read.fault.is_none())
        && !matches!(last.events.last(), Some(ArenaEvent::SessionSealed(_) | ArenaEvent::SessionPaused(_)))
    {
        text += &format!("end        not sealed: e{} is the last entry\n", last.seq);
    }
    found.differences.iter().for_each(|difference| text += &difference_text(difference));
    if let Some((seq, what)) = &found.newer {
        text += &format!("newer      e{seq} was written by a newer agon: unknown {what}\n");
    }
    if found.differences.is_empty() && found.unreadable.is_none() && found.entries > 0 {
        let (which, before) = match (&read.fault, &found.newer) {
            (Some(LogError::Newer { .. }), _) | (None, Some(_)) => ("the", " before that"),
            (Some(_), _) => ("the", " before the damage"),
            (None, None) => ("all", ""),
        };
        let entries = found.entries;
        text += &format!(
            "decisions  the same facts give the same decisions in {which} {entries} entries{before}\n"
        );
    }
    text
}

fn verified_json(read: &Read, found: &Verification, holds: bool) -> serde_json::Value {
    let differences: Vec<_> = found.differences.iter().map(difference_json).collect();
    json!({
        "id": read.id, "holds": holds, "entries": read.head.count, "head": read.head.hash,
        "unfinished_bytes": read.unfinished, "fault": read.fault.as_ref().map(ToString::to_string),
        "unreadable": found.unreadable,
        "newer": found.newer.as_ref().map(|(seq, what)| json!({ "seq": seq, "unknown": what })),
        "no_scorer": found.no_scorer.as_ref().map(|(seq, name)| json!({ "seq": seq, "name": name })),
        "differences": differences,
    })
}

/// Lists the tool calls on which a policy with other rules would have decided otherwise.
fn redecided(read: Read, rules: &[Rule], as_json: bool, output: Output) -> Result<u8, Failure> {
    let found = replay::redecided(&read.entries, rules);
    let judged = read.entries.iter().flat_map(|entry| entry.decisions());
    let judged = judged.filter(|event| matches!(event, ArenaEvent::PolicyDecided(_))).count();
    if as_json {
        let calls: Vec<_> = found.iter().map(redecided_json).collect();
        output.json(&json!({ "id": read.id, "judged": judged, "redecided": calls }))?;
    } else {
        let lookup = |at: EventRef| read.event(at);
        let lines = found.iter().map(|one| plain::redecided(one, &lookup));
        let sum = match found.len() {
            0 => format!("policy     decides the same in all {judged} of its decisions\n"),
            other => format!("policy     decides otherwise in {other} of its {judged} decisions\n"),
        };
        output.data(&lines.chain([sum]).collect::<String>())?;
    }
    read.whole()?;
    Ok(DONE)
}

fn redecided_json(one: &Redecided) -> serde_json::Value {
    let side = |of: &PolicyDecided| json!({ "action": of.action, "rule": of.rule });
    json!({ "seq": one.seq, "use": one.was.tool_use, "was": side(&one.was), "would_be": side(&one.would_be) })
}

fn kinds(events: &[ArenaEvent]) -> Vec<&str> {
    events.iter().map(ArenaEvent::kind).collect()
}

fn difference_text(difference: &Difference) -> String {
    let rules = if difference.strict { "" } else { " (written under other rules)" };
    let words = |events: &[ArenaEvent]| kinds(events).join(", ");
    let (recorded, decided) = (words(&difference.recorded), words(&difference.decided));
    let mut text =
        format!("differs    e{}{rules}\n  recorded {recorded}\n  decided  {decided}\n", difference.seq);
    if recorded == decided {
        let pairs = difference.recorded.iter().zip(&difference.decided);
        let other = pairs.filter_map(|(was, is)| {
            Some((was.kind(), serde_json::to_value(was).ok()?, serde_json::to_value(is).ok()?))
        });
        for (kind, was, is) in other.filter(|(_, was, is)| was != is) {
            text += &first_difference(kind, &was["data"], &is["data"]);
        }
    }
    text
}

/// The first field that is not the same, as deep as it can be named.
fn first_difference(path: &str, was: &serde_json::Value, is: &serde_json::Value) -> String {
    if let (Some(before), Some(now)) = (was.as_object(), is.as_object())
        && let Some(key) = before.keys().chain(now.keys()).find(|key| before.get(*key) != now.get(*key))
    {
        let none = serde_json::Value::Null;
        let of =
            |object: &serde_json::Map<String, serde_json::Value>| object.get(key).unwrap_or(&none).clone();
        return first_difference(&format!("{path}.{key}"), &of(before), &of(now));
    }
    let short = |value: &serde_json::Value| value.to_string().chars().take(200).collect::<String>();
    format!("  {path}: recorded {}, decided {}\n", short(was), short(is))
}

fn difference_json(difference: &Difference) -> serde_json::Value {
    json!({ "seq": difference.seq, "strict": difference.strict,
            "recorded": difference.recorded, "decided": difference.decided })
}
