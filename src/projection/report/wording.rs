//! The words that all three writers of a report use; knows no medium.

use crate::projection::words;
use crate::protocol::event::Judgement;

use super::debate::{DebateReport, DebateState, Proposition, ScorePart, Talk};
use super::said::{Citation, Standing};
use super::session::{CostLine, FlaggedClaim, TurnReport};

/// The most of a question that a page begins with; programs get the whole.
pub const HEAD: usize = 1_500;

/// Where nobody rated anything.
pub const NO_RATINGS: &str = "Where they stood cannot be shown: nobody had rated a proposition yet.";

/// A proposition's name: `P1` for number 0.
pub fn name(proposition: u32) -> String {
    format!("P{}", u64::from(proposition) + 1)
}

/// Several: `P1`, `P1 and P3`, `P1, P2 and P3`.
pub fn names(propositions: &[u32]) -> String {
    let names: Vec<_> = propositions.iter().copied().map(name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A rating with its sign: `+2`, `0`, `−1`.
pub fn rating(rating: i8) -> String {
    match rating {
        1.. => format!("+{rating}"),
        0 => "0".to_owned(),
        _ => format!("\u{2212}{}", rating.unsigned_abs()),
    }
}

/// Per mille as whole per cent: `78 %`, with a space that does not break.
pub fn per_cent(per_mille: u32) -> String {
    format!("{}\u{a0}%", (per_mille.min(1_000) + 5) / 10)
}

/// Thousandths of a vote: `2.5`.
pub fn votes(per_mille: u32) -> String {
    format!("{}.{}", per_mille / 1_000, per_mille % 1_000 / 100)
}

/// What a majority says.
pub fn majority(majority: Option<i8>) -> &'static str {
    match majority {
        None => "unknown",
        Some(1..) => "for",
        Some(0) => "tied",
        Some(_) => "against",
    }
}

/// What a verdict says on a proposition.
pub fn upheld(verdict: Option<i8>) -> &'static str {
    match verdict {
        None => "no verdict",
        Some(1..) => "upheld",
        Some(0) => "left open",
        Some(_) => "rejected",
    }
}

/// The answer to: would a plain vote have said the same?
pub fn talk(debate: &DebateReport) -> String {
    let is_tied =
        |one: &&Proposition| one.sealed_majority == Some(0) && one.verdict.is_some_and(|side| side != 0);
    let ties: Vec<u32> = debate.propositions.iter().filter(is_tied).map(|one| one.number).collect();
    match &debate.talk {
        Talk::Unknown => "There is nothing to compare a plain vote with.".to_owned(),
        Talk::SameAsVote if ties.is_empty() => "A plain vote would have said the same.".to_owned(),
        Talk::SameAsVote if ties.len() == debate.propositions.len() => {
            "A plain vote would have decided nothing: it was tied.".to_owned()
        }
        Talk::SameAsVote => {
            format!("A plain vote would have said the same, but was tied on {}.", names(&ties))
        }
        Talk::DiffersOn(which) if ties.is_empty() => {
            format!("A plain vote would have said otherwise on {}.", names(which))
        }
        Talk::DiffersOn(which) => {
            let (which, ties) = (names(which), names(&ties));
            format!("A plain vote would have said otherwise on {which}, and was tied on {ties}.")
        }
    }
}

/// How many voices it rests on: `6 of 6 heard`, `5 of 6 heard, 3 of them to the end`.
pub fn heard(debate: &DebateReport) -> String {
    let heard = &debate.heard;
    let all = format!("{} of {} heard", heard.ever, heard.of);
    match debate.verdict.is_some() && heard.to_the_end < heard.ever {
        true => format!("{all}, {} of them to the end", heard.to_the_end),
        false => all,
    }
}

/// What is wrong with a citation; none when it leads to a tool result.
pub fn doubt(cited: &Citation) -> Option<&'static str> {
    match cited.standing {
        Standing::ToolResult => None,
        Standing::NoToolResult => Some("no tool result of this debate"),
        Standing::NotInLog => Some("not in this log"),
        Standing::NoReference => Some("names no event"),
    }
}

/// The beginning of a long text with a line that says how much there is; none when it is short enough.
pub fn head(text: &str, where_to: &str) -> Option<(String, String)> {
    let text = text.trim();
    if text.len() <= HEAD {
        return None;
    }
    let start = &text[..text.floor_char_boundary(HEAD - 8)];
    // Whole lines where that leaves most of it, else whole words.
    let end = start.rfind('\n').filter(|end| *end > HEAD / 2).or_else(|| start.rfind(' '));
    let start = start[..end.unwrap_or(start.len())].trim_end();
    let size = words::grouped(text.len() as u64);
    Some((
        format!("{start} \u{2026}"),
        format!("The question has {size} bytes; this is its beginning. {where_to}"),
    ))
}

/// Why it took fewer phases than planned, in one sentence; none when it took them all.
pub fn short_of_plan(debate: &DebateReport) -> Option<String> {
    let gated = debate.gated.as_ref().map(|reason| format!("Not worth a debate: {reason}."));
    gated.or_else(|| debate.shortened.as_ref().map(|reason| format!("It ended early: {reason}.")))
}

/// Whose models spoke: `3 model families: oak (2), birch (2), demo/east (2)`; a model of no known family is one of
/// its own, as the votes count it.
pub fn families(debate: &DebateReport) -> String {
    let mut families: Vec<(&str, u64)> = Vec::new();
    for debater in &debate.debaters {
        let family = debater.family.as_deref().unwrap_or(&debater.model);
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, count)) => *count += 1,
            None => families.push((family, 1)),
        }
    }
    let named: Vec<_> = families.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let what = if families.len() == 1 { "model family" } else { "model families" };
    format!("{} {what}: {}", families.len(), named.join(", "))
}

/// A part of a score and its value: `agreement 72 %`.
pub fn part(part: &ScorePart) -> String {
    format!("{} {}", part.name, per_cent(part.value_pm))
}

/// A name as people read it: `initial-analysis` is `initial analysis`.
pub fn spaced(name: &str) -> String {
    name.replace('-', " ")
}

/// How far a debate came, in one sentence; none when there is a verdict.
pub fn state(debate: &DebateReport) -> Option<String> {
    match &debate.state {
        DebateState::Decided => None,
        DebateState::Open => Some("The debate is not over; this is what it reached so far.".to_owned()),
        DebateState::Gated(_) => Some("There is no verdict yet.".to_owned()),
        DebateState::Ended(cause) => {
            Some(format!("There is no verdict ({}); this is what it reached.", words::turn_cause(*cause)))
        }
    }
}

/// Money of a line.
pub fn money(line: &CostLine) -> String {
    words::money_at_most(line.micro_usd, line.unpriced, line.unknown)
}

/// Tokens of a line, with what stands before those that nobody counted.
pub fn tokens(line: &CostLine, tokens: u64) -> String {
    format!("{}{}", words::about(line.unknown, line.estimated), words::grouped(tokens))
}

/// A day and a time, in UTC; empty when unknown.
pub fn when(at: u64) -> String {
    if at == 0 { String::new() } else { format!("{} {}", words::day(at), words::time_of_day(at)) }
}

/// Why a turn ended, with what kept a squad's work from being done.
pub fn end(turn: &TurnReport) -> String {
    let cause = turn.cause.map_or("the turn is not over", words::turn_cause);
    turn.lacks.as_ref().map_or(cause.to_owned(), |lacks| format!("{cause}: {lacks}"))
}

/// What a reviewer said of the work as a whole.
pub fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Approve => "approved",
        Judgement::RequestChanges => "asked for changes",
    }
}

/// What is wrong with a claim, after the claim where it can be read.
pub fn flagged(claim: &FlaggedClaim) -> String {
    let what = if claim.contradicted { "the log says otherwise" } else { "not borne out" };
    match &claim.claim {
        Some(words) => format!("\u{201c}{words}\u{201d}: {what}: {}", claim.reason),
        None => format!("{what}: {}", claim.reason),
    }
}

/// An exit code in words.
pub fn exit(exit: Option<i32>) -> String {
    exit.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_people_read_them() {
        assert_eq!([rating(2), rating(0), rating(-1)], ["+2", "0", "\u{2212}1"]);
        assert_eq!([per_cent(0), per_cent(755), per_cent(9_999)], ["0\u{a0}%", "76\u{a0}%", "100\u{a0}%"]);
        assert_eq!(votes(2_540), "2.5");
        assert_eq!(names(&[]), "");
        assert_eq!(names(&[0, 2, 6]), "P1, P3 and P7");
    }
}
