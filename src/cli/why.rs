//! The commands `cost`, `context` and `why`: what a session took, what fills its windows, who allowed what.

use serde_json::json;

use crate::cli::args::{ContextArgs, CostArgs, WhyArgs};
use crate::cli::error::{DIVERGED, Failure};
use crate::cli::output::Output;
use crate::cli::{plain, sessions};
use crate::config::{Environment, Places};
use crate::host::{Read, Sessions};
use crate::projection::{ContextUsage, Costs, Reasons, Report};
use crate::protocol::EventRef;

/// Causes that are shown unless all are wanted.
const NEAREST: usize = 30;

/// Shows the cost sheet of a session.
pub fn cost(typed: &CostArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let all = Sessions::at(&Places::find(environment)?);
    let read = all.read(&typed.session)?;
    if typed.json {
        let session = Report::of(&read.entries).session;
        output.json(&json!({ "id": read.id, "sparks": session.costs, "total": session.total }))?;
    } else {
        let mut costs = Costs::default();
        read.entries.iter().for_each(|entry| costs.apply(entry));
        let costs = sessions::settled(&all, &read.id, costs);
        let part = match (typed.turn, &typed.agent) {
            (Some(turn), _) => Some((costs.rows_of(turn), format!("turn {turn}"))),
            (None, Some(agent)) => Some((costs.rows_of_agent(agent), format!("agent `{agent}`"))),
            (None, None) => None,
        };
        let table = match part {
            None => plain::cost_table(&costs),
            Some((Some(rows), _)) => plain::table_of(&rows, &costs),
            Some((None, name)) => {
                return Err(Failure::usage(format!("the session has no {name}"))
                    .hint(format!("agon cost {} lists what it has", typed.session)));
            }
        };
        output.data(&table)?;
    }
    Ok(read.whole()?)
}

/// Shows what fills the windows of the last turn's sparks.
pub fn context(typed: &ContextArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let read = Sessions::at(&Places::find(environment)?).read(&typed.session)?;
    let (mut usage, mut costs) = (ContextUsage::default(), Costs::default());
    for entry in &read.entries {
        usage.apply(entry);
        costs.apply(entry);
    }
    let (mut sparks, mut text) = (Vec::new(), String::new());
    for spark in usage.at_work() {
        let role = costs.sparks.get(&spark).map(|costs| costs.role.as_str()).unwrap_or_default();
        let Some(filled) = usage.filled(spark, &|at| read.event(at)) else { continue };
        let filled = filled.map_err(|error| {
            let words = format!("cannot put the last request of {spark} together");
            Failure::new(DIVERGED, anyhow::Error::new(error).context(words))
        })?;
        let parts = filled.parts.iter().map(|(part, tokens)| (part.word().to_owned(), json!(tokens)));
        sparks.push(json!({
            "spark": spark, "role": role, "model": filled.model, "window": filled.window, "used": filled.used,
            "estimated": filled.is_estimated, "parts": parts.collect::<serde_json::Map<_, _>>(),
        }));
        text.push_str(&plain::context_table(&format!("{spark} {role}"), &filled));
    }
    match (typed.json, text.is_empty()) {
        (true, _) => output.json(&json!({ "id": read.id, "sparks": sparks }))?,
        (false, true) => output.say("no model was called yet"),
        (false, false) => output.data(&text)?,
    }
    Ok(read.whole()?)
}

/// Shows every tool call with who allowed it, or what led to one event.
pub fn run(typed: &WhyArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let read = Sessions::at(&Places::find(environment)?).read(&typed.session)?;
    let mut reasons = Reasons::default();
    read.entries.iter().for_each(|entry| reasons.apply(entry));
    let lookup = |at: EventRef| read.event(at);
    let text = match &typed.event {
        None => plain::audit_lines(&reasons, &lookup),
        Some(event) => {
            let event = find(&read, event)?;
            let causes = reasons.chain(event, if typed.all { usize::MAX } else { NEAREST });
            plain::chain_lines(event, &causes, &lookup)
        }
    };
    match text.is_empty() {
        true => output.say("no tool was called"),
        false => output.data(&text)?,
    }
    Ok(read.whole()?)
}

fn find(read: &Read, typed: &str) -> Result<EventRef, Failure> {
    let bare = typed.trim_matches(['[', ']']);
    let at: EventRef = bare.parse().map_err(|_| {
        Failure::usage(format!("`{typed}` is no event, which looks like `e12` or `e12.1`"))
            .hint(format!("agon replay {} --full shows them", read.id))
    })?;
    match read.event(at) {
        Some(_) => Ok(at),
        None => {
            Err(Failure::usage(format!("there is no event {at}: the log has {} entries", read.head.count))
                .hint(format!("agon replay {} --full shows them", read.id)))
        }
    }
}
