//! How causes, states, money, time and tokens are said to people, in one place; knows no layout or colour.

use super::context_usage::Filled;
use super::why::Link;
use crate::protocol::command::{Choice, StopCause};
use crate::protocol::event::{
    ClaimFlagged, ErrorKind, LimitKind, Notice, ParamsDropped, PauseCause, Plan, RefusalReason, ToolStatus,
    ToolsListed, TurnCause, TurnRewound,
};
use crate::protocol::message::{Effort, Usage};
use crate::protocol::spec::{ANY_STEPS, Action, Limits, Mode, RolePlace, TOOLS};
use crate::protocol::text::names_shown;
pub use crate::protocol::text::{grouped, money};

/// Said in place of a word that only a newer program knows.
pub const NEWER: &str = "unknown to this agon";

/// Money of calls of which `unpriced` have no known price: `$0.0123`, `price unknown`, or both.
pub fn money_known(micro_usd: u64, unpriced: u32) -> String {
    match (micro_usd, unpriced) {
        (_, 0) => money(micro_usd),
        (0, _) => "price unknown".to_owned(),
        (_, 1) => format!("{} and 1 call of unknown price", money(micro_usd)),
        (_, n) => format!("{} and {n} calls of unknown price", money(micro_usd)),
    }
}

/// The same of which `unknown` calls were cut off, so that it is the most it can have been: `≤$0.0123`.
pub fn money_at_most(micro_usd: u64, unpriced: u32, unknown: u32) -> String {
    let bound = if unknown > 0 && micro_usd > 0 { "≤" } else { "" };
    format!("{bound}{}", money_known(micro_usd, unpriced))
}

/// What stands before tokens: nothing where providers counted them, `~` before estimates, `≤` where only the most
/// they can have been is known.
pub fn about(unknown: u32, estimated: bool) -> &'static str {
    match (unknown, estimated) {
        (1.., _) => "≤",
        (0, true) => "~",
        (0, false) => "",
    }
}

/// A duration from milliseconds: `12 ms`, `3.2 s`, `4 m 05 s`, `2 h 03 m`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {:02} m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A count with its noun: `1 call`, `2 calls`.
pub fn counted(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix("ry")) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{} {stem}ries", grouped(count)),
        (_, None) => format!("{} {noun}s", grouped(count)),
    }
}

/// The start of a text on one line; `…` stands where it is cut.
pub fn start(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A session's id in little room: its last eight characters, which chance made, so that no two sessions share them. What
/// is no UUID is shown whole.
pub fn short_id(id: &str) -> &str {
    match id.len() {
        36 => id.get(28..).unwrap_or(id),
        _ => id,
    }
}

/// What a person is asked about, whole: its needs are its last line, marked where one leaves the sandbox.
pub fn asked_about(plan: &Plan, opens: &[String]) -> String {
    let mark = if opens.is_empty() { "" } else { " (leaves the sandbox)" };
    format!("{}{mark}", plan.preview.trim_end_matches('\n'))
}

/// A count in little room: `950`, `1.2k`, `34k`, `1.2M`.
pub fn short_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..10_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..10_000_000 => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// Tokens: `1,234 in (800 cached), 35 out`; `about` before counts that agon estimated.
pub fn tokens(usage: &Usage) -> String {
    let about = if usage.estimated { "about " } else { "" };
    let cached =
        if usage.cached > 0 { format!(" ({} cached)", grouped(usage.cached)) } else { String::new() };
    format!("{about}{} in{cached}, {} out", grouped(usage.input), grouped(usage.output))
}

/// What fills a window, one row a part: its name, its tokens and its share; then what is free, and the sum in words.
pub fn filled(filled: &Filled) -> (Vec<[String; 3]>, String) {
    let whole = if filled.window > 0 { filled.window } else { filled.used.max(1) };
    let share = |tokens: u64| {
        let permille = u128::from(tokens) * 1000 / u128::from(whole);
        format!("{}.{} %", permille / 10, permille % 10)
    };
    let row = |name: &str, tokens: u64| [name.to_owned(), grouped(tokens), share(tokens)];
    let mut rows: Vec<_> = filled.parts.iter().map(|(part, tokens)| row(part.word(), *tokens)).collect();
    if filled.window > 0 {
        rows.push(row("free", filled.window.saturating_sub(filled.used)));
    }
    let how = if filled.is_estimated { "estimated" } else { "counted by the provider" };
    let of = if filled.window > 0 { format!(" of {}", grouped(filled.window)) } else { String::new() };
    (rows, format!("{}{of} tokens, {how}; the parts are in proportion to their text", grouped(filled.used)))
}

/// What the providers' caches saved, or cost beyond it; none where they did neither.
pub fn saved(micro_usd: i64) -> Option<String> {
    match micro_usd {
        0 => None,
        1.. => Some(format!("caching saved {}", money(micro_usd.unsigned_abs()))),
        _ => Some(format!("caching cost {} more than it saved", money(micro_usd.unsigned_abs()))),
    }
}

/// How much models are asked to think.
pub fn effort(effort: Option<Effort>) -> String {
    effort.map_or("effort: the provider's default".to_owned(), |effort| format!("effort {}", effort.word()))
}

/// Time of day in UTC from microseconds since the Unix epoch: `12:04:31`.
pub fn time_of_day(at: u64) -> String {
    let seconds = at / 1_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The day in UTC from microseconds since the Unix epoch: `2026-01-02`.
pub fn day(at: u64) -> String {
    // Days to civil date, counted in eras of 400 years that begin on 1 March, so leap days come last.
    let days = at / 86_400_000_000 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Which claim is meant: its number in the answer's list, or its words where it is in the answer's text.
pub fn claim_named(data: &ClaimFlagged) -> String {
    match &data.said {
        Some(said) => format!("\u{201c}{said}\u{201d} in {}", data.source),
        None => format!("claim {} of {}", data.claim.saturating_add(1), data.source),
    }
}

/// What became of parameters that a model refuses.
pub fn dropped(data: &ParamsDropped) -> String {
    if data.names == [TOOLS] {
        return format!("{} cannot call tools: asked again without, it can only talk", data.model);
    }
    format!("{} refuses `{}`: asked again without", data.model, data.names.join("`, `"))
}

/// Why a turn or a spark ended.
pub fn turn_cause(cause: TurnCause) -> &'static str {
    match cause {
        TurnCause::Unknown(_) => NEWER,
        known => known.words(),
    }
}

/// Why a session was stopped.
pub fn stop_cause(cause: StopCause) -> &'static str {
    match cause {
        StopCause::Finished => "finished",
        StopCause::Interrupted => "interrupted",
        StopCause::Quit => "left",
        StopCause::Unknown(_) => NEWER,
    }
}

/// Why a turn was left open.
pub fn pause_cause(cause: PauseCause) -> &'static str {
    match cause {
        PauseCause::Approval => "waiting for an approval that cannot be given here",
        PauseCause::Disk => "the disk is full",
        PauseCause::Quit => "left as it was",
        PauseCause::Unknown(_) => NEWER,
    }
}

/// Why a tool call was not run.
pub fn refusal(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::UnknownTool => "no such tool",
        RefusalReason::BadArguments => "arguments do not fit",
        RefusalReason::Placeholder => "arguments name a redacted secret",
        RefusalReason::Unfit => "cannot be done",
        RefusalReason::Policy => "denied by policy",
        RefusalReason::Denied => "denied",
        RefusalReason::Cancelled => "cancelled before it started",
        RefusalReason::Limit => "a limit was reached",
        RefusalReason::Unknown(_) => NEWER,
    }
}

/// How a tool call ended.
pub fn tool_status(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Ok => "ok",
        ToolStatus::Failed => "failed",
        ToolStatus::Cancelled => "cancelled",
        ToolStatus::Lost => "lost",
        ToolStatus::Unknown(_) => NEWER,
    }
}

/// What kind of model failure.
pub fn error_kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::RateLimited => "rate limited",
        ErrorKind::Overloaded => "provider failure",
        ErrorKind::Loading => "model is loading",
        ErrorKind::Auth => "key missing or refused",
        ErrorKind::Quota => "no quota left",
        ErrorKind::ContextOverflow => "context window exceeded",
        ErrorKind::OutputLimit => "output limit too large",
        ErrorKind::BadRequest => "request not accepted",
        ErrorKind::BadResponse => "unusable answer",
        ErrorKind::Network => "network failure",
        ErrorKind::Timeout => "timed out",
        ErrorKind::TooLarge => "answer too large",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Script => "script ended or does not fit",
        ErrorKind::Unknown(_) => NEWER,
    }
}

/// What a notice is about.
pub fn notice(notice: Notice) -> &'static str {
    match notice {
        Notice::Loop => "going in circles",
        Notice::Repair => "unusable answer",
        Notice::Lost => "unknown outcome",
        Notice::Workspace => "workspace changed",
        Notice::NoCheck => "no check ran",
        Notice::Brief => "brief",
        Notice::Moved => "workspace moved",
        Notice::Compacted => "compaction",
        Notice::Interrupted => "interrupted answer",
        Notice::Planning => "level plan",
        Notice::Apart => "earlier chat",
        Notice::Subagent => "subagent",
        Notice::Unknown(_) => NEWER,
    }
}

/// What the policy said.
pub fn action(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
        Action::Unknown(_) => NEWER,
    }
}

/// What an event is to what it is a cause of.
pub fn link(link: Link) -> &'static str {
    match link {
        Link::DrawnFrom => "drawn from it",
        Link::OrderedBy => "ordered by it",
        Link::AskedBy => "asked for by it",
        Link::Prepared => "what was found out",
        Link::Judged => "what the policy said",
        Link::Requested => "what was asked",
        Link::Answered => "what was answered",
        Link::Invoked => "the run of the call",
        Link::Names => "named by it",
    }
}

/// How an approval was answered.
pub fn choice(choice: &Choice) -> &'static str {
    match choice {
        Choice::Once => "allowed once",
        Choice::Session => "allowed for the session",
        Choice::Rule(_) => "allowed by a new rule",
        Choice::Deny(_) => "denied",
        Choice::Unknown(_) => NEWER,
    }
}

/// The place of a role that has one of its own.
pub fn place(place: &RolePlace) -> String {
    let held = if place.read_only { ", read-only" } else { "" };
    format!("{} in {}{held}", place.role, place.sandbox.kind)
}

/// The name of a phase as people read it: `initial-analysis` is `initial analysis`.
pub fn spaced(name: &str) -> String {
    name.replace('-', " ")
}

/// Why no recorded run was used, from the word in the log; none where there simply is none yet.
pub fn cache_miss(reason: &str) -> Option<String> {
    Some(match reason {
        "absent" => return None,
        "expired" => "the recorded run was too old".to_owned(),
        "refreshed" => "no recorded run was looked for, as `--refresh` or `[cache] refresh` asks".to_owned(),
        other => format!("no recorded run: {other}"),
    })
}

/// Who works on a prompt.
pub fn mode(mode: &Mode) -> &'static str {
    match mode {
        Mode::Solo => "solo",
        Mode::Squad => "squad",
        Mode::Debate(_) => "debate",
        Mode::Unknown(_) => NEWER,
    }
}

/// Limits in words.
pub fn limits(all: &Limits) -> String {
    let parts = [(all.session(), ""), (all.turn, " a turn"), (all.spark, " an agent")];
    let budgets = parts.into_iter().flat_map(|(budget, whose)| {
        let tokens = budget.max_tokens.map(|max| format!("{} tokens{whose}", grouped(max)));
        [tokens, budget.max_micro_usd.map(|max| format!("{}{whose}", money(max)))]
    });
    let seconds = all.max_seconds.map(|max| format!("{max} s a turn"));
    let steps = Some(match all.max_steps {
        ANY_STEPS => "any number of model calls a turn".to_owned(),
        max => format!("{} a turn", counted(max.into(), "model call")),
    });
    budgets.chain([seconds, steps]).flatten().collect::<Vec<_>>().join(", ")
}

/// A limit that was reached, with what was used against it.
pub fn limit(limit: LimitKind, used: u64, max: u64) -> String {
    match limit {
        LimitKind::Steps => format!("{}{used} of {}", may(used, max), counted(max, "model call")),
        // Money and tokens are held back before a call: the sum is what it may come to, not what was spent.
        LimitKind::Tokens | LimitKind::TurnTokens | LimitKind::SparkTokens => {
            format!("{}{} of {}", may(used, max), grouped(used), counted(max, "token"))
        }
        LimitKind::MicroUsd | LimitKind::TurnMicroUsd | LimitKind::SparkMicroUsd => {
            format!("{}{} of {}", may(used, max), money(used), money(max))
        }
        LimitKind::Unknown(_) => NEWER.to_owned(),
        LimitKind::Seconds => {
            format!("{} of {}", duration(used.saturating_mul(1_000)), duration(max.saturating_mul(1_000)))
        }
    }
}

fn may(used: u64, max: u64) -> &'static str {
    if used > max { "what comes next may bring it to " } else { "" }
}

/// A reached limit with the flag that sets it: `2 of 2 model calls (--max-steps)`.
pub fn limit_with_flag(limit: LimitKind, used: u64, max: u64) -> String {
    format!("{} ({})", self::limit(limit, used, max), limit_flag(limit))
}

/// The flag that sets a limit, or its key in the configuration.
pub fn limit_flag(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Steps => "--max-steps",
        LimitKind::Tokens => "--max-tokens",
        LimitKind::MicroUsd => "--max-usd",
        LimitKind::Seconds => "--max-seconds",
        LimitKind::TurnTokens => "limits.turn.max_tokens",
        LimitKind::TurnMicroUsd => "limits.turn.max_usd",
        LimitKind::SparkTokens => "limits.agent.max_tokens",
        LimitKind::SparkMicroUsd => "limits.agent.max_usd",
        LimitKind::Unknown(_) => NEWER,
    }
}

/// The tools that are offered, in words.
pub fn offered(list: Option<&[String]>) -> String {
    list.map_or("all tools".to_owned(), |list| format!("tools: {}", names_shown(list)))
}

/// What a source offers, in words.
pub fn listed(listed: &ToolsListed) -> String {
    let count = match &listed.tools {
        Some(tools) => counted(tools.len() as u64, "tool"),
        None => "the same tools as before".to_owned(),
    };
    let faults = listed.faults.len() as u64;
    let left = if faults == 0 { String::new() } else { format!(", {faults} not taken") };
    format!("`{}` offers {count}{left}", listed.source)
}

/// `files and words are as before e12: 3 files changed; left: a.txt`.
pub fn rewound(data: &TurnRewound) -> String {
    let what = match (&data.files, data.talk) {
        (Some(_), true) => "files and words are",
        (Some(_), false) => "files are",
        (None, _) => "words are",
    };
    let mut text = format!("{what} as before {}", data.to);
    if let Some(files) = &data.files {
        text += &format!(": {} changed", counted(files.count, "file"));
        if !files.left.is_empty() {
            let more = files.left.len().saturating_sub(LEFT_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text += &format!("; left: {}{more}", names_shown(files.left.iter().take(LEFT_NAMED)));
        }
    }
    text
}

/// Files that an undo left and that one line names.
const LEFT_NAMED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_rounded_up() {
        for (micro, said) in [
            (0, "$0.0000"),
            (1, "$0.0001"),
            (12_300, "$0.0123"),
            (999_999, "$1.0000"),
            (1_000_000, "$1.00"),
            (1_234_567_890, "$1,234.57"),
        ] {
            assert_eq!(money(micro), said);
        }
        assert_eq!(money_known(0, 2), "price unknown");
        assert_eq!([money_at_most(0, 2, 1), money_at_most(100, 0, 0)], ["price unknown", "$0.0001"]);
        assert_eq!(money_at_most(100, 1, 2), "≤$0.0001 and 1 call of unknown price");
        assert_eq!(money_known(100, 1), "$0.0001 and 1 call of unknown price");
    }

    #[test]
    fn durations_and_counts_are_short() {
        for (ms, said) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (3_240, "3.2 s"),
            (59_999, "59.9 s"),
            (245_000, "4 m 05 s"),
            (7_380_000, "2 h 03 m"),
        ] {
            assert_eq!(duration(ms), said);
        }
        for (count, said) in
            [(999, "999"), (1_250, "1.2k"), (34_900, "34k"), (1_260_000, "1.2M"), (12_000_000, "12M")]
        {
            assert_eq!(short_count(count), said);
        }
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(counted(1, "call"), "1 call");
    }

    #[test]
    fn days_are_civil() {
        for (seconds, said) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_312_000, "2026-01-02"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(seconds * 1_000_000), said);
        }
        assert_eq!(time_of_day(1_767_355_471_000_000), "12:04:31");
    }
}
