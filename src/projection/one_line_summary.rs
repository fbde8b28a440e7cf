//! What an event is about, on one line, for lists of events; knows no layout and makes nothing safe to show.

pub mod kept;
mod team;

use super::calls::target;
use super::phrases;
use super::report::wording;
use crate::protocol::event::{ArenaEvent, Family, Plan, PrepareResult};
use crate::protocol::message::Part;
use crate::protocol::text::names_shown;

/// Characters of a text that are taken.
const ABOUT: usize = 300;

/// What an event is about, on one line.
pub fn about(event: &ArenaEvent) -> String {
    use ArenaEvent as E;
    let short = |text: &str| text.chars().take(ABOUT).collect::<String>();
    match event {
        E::SessionOpened(data) => data.spec.workspace.root.clone(),
        E::PromptGiven(data) => short(&data.text),
        E::SteeringGiven(data) => short(&data.text),
        E::ModelCalled(data) => {
            format!("{} · attempt {} · {}", data.model, data.attempt, kept::short(&data.digest))
        }
        E::ModelAnswered(data) => answer(&data.body.message),
        E::ModelFailed(data) => {
            format!("{}: {}", phrases::error_kind(data.body.kind), short(&data.body.message))
        }
        E::ToolPrepared(data) => match &data.body.result {
            PrepareResult::Ready(plan) => touched(plan),
            PrepareResult::Unfit(why) => short(why),
            PrepareResult::Unknown(_) => phrases::NEWER.to_owned(),
        },
        E::PolicyDecided(data) => format!("{} by rule {}", phrases::action(data.action), data.rule),
        E::ApprovalAnswered(data) => format!("{} by {}", phrases::choice(&data.choice), data.by),
        E::ToolResolved(data) => {
            let exit = data.body.exit.map(|exit| format!(" · exit {exit}")).unwrap_or_default();
            format!("{}{exit} · {}", phrases::tool_status(data.body.status), phrases::duration(data.body.ms))
        }
        E::GateAnswered(data) => {
            format!(
                "{} by gate {} {}",
                phrases::action(data.body.verdict.action()),
                data.body.gate,
                short(data.body.verdict.why())
            )
        }
        E::QuestionAnswered(data) => format!("{} by {}", short(&data.text), data.by),
        E::ToolRefused(data) => format!("{}: {}", phrases::refusal(data.reason), short(&data.text)),
        E::NoticeGiven(data) => short(&data.text),
        E::PhaseShifted(data) => data.to.clone(),
        E::CheckRan(data) => {
            format!("{} · {}", short(&data.body.command), wording::exit(data.body.exit))
        }
        E::BudgetReserved(data) => format!("{} tokens", phrases::grouped(data.tokens)),
        E::BudgetSettled(data) => {
            format!("{} · {}", phrases::tokens(&data.usage), phrases::money(data.micro_usd))
        }
        E::TurnOpened(data) => format!("turn {}", data.turn),
        E::TurnClosed(data) => format!("turn {} · {}", data.turn, phrases::turn_cause(data.cause)),
        E::SparkIgnited(data) => format!("{} as {} with {}", data.role, data.persona, data.model),
        E::SparkCompleted(data) => phrases::turn_cause(data.cause).to_owned(),
        E::InputRefused(data) => short(&data.reason),
        E::OutcomeIgnored(data) => short(&data.reason),
        E::SessionSealed(data) => phrases::stop_cause(data.cause).to_owned(),
        E::MentionExpanded(data) => data.body.mention.clone(),
        E::ToolsListed(data) => phrases::listed(&data.body),
        E::EffectFailed(data) => short(&data.body.error),
        E::CallCancelled(data) => format!("{} · {}", data.call, short(&data.reason)),
        E::CallLost(data) => format!("{} · {}", data.call, short(&data.text)),
        E::DiffTaken(data) if data.body.files.is_empty() => "nothing changed".to_owned(),
        E::DiffTaken(data) => names_shown(&data.body.files),
        E::ParamsDropped(data) => phrases::dropped(data),
        E::FallbackTaken(data) => format!("{} instead of {}", data.to, data.from),
        E::RetryScheduled(data) => {
            format!("attempt {} in {}", data.attempt, phrases::duration(data.delay_ms))
        }
        E::LimitReached(data) => phrases::limit(data.limit, data.used, data.max),
        other => match other.family() {
            Family::Squad | Family::Cache | Family::Debate => team::about(other),
            _ => kept::about(other),
        }
        .unwrap_or_default(),
    }
}

/// The command of a call, else its files, else what it needs.
fn touched(plan: &Plan) -> String {
    if let Some(command) = plan.command() {
        return command.to_owned();
    }
    // The workspace itself has no name.
    let files = plan.paths().map(|base| base.path.clone()).filter(|path| !path.is_empty());
    names_shown(files.chain(plan.other_needs().map(|need| need.name().into_owned())).take(8))
}

fn answer(parts: &[Part]) -> String {
    let said = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.chars().take(ABOUT).collect()),
        Part::Call { name, args, .. } => Some(format!("→ {name} {}", target(args))),
        _ => None,
    });
    said.take(6).collect::<Vec<String>>().join("  ")
}
