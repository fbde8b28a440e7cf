//! The words that all three writers of a report use; knows no medium.

use crate::projection::phrases;
pub use crate::projection::phrases::spaced;
use crate::protocol::event::Judgement;
use crate::protocol::spec::family_in;

use super::debate::{DebateReport, DebateState, Talk, Undecided, Verdict};
use super::said::{Citation, Standing};
use super::session::{CostLine, FlaggedClaim, TurnReport};

/// The most of a question that a page begins with; programs get the whole.
pub const HEAD: usize = 1_500;

/// Where nobody rated anything.
pub const NO_RATINGS: &str = "No positions to show: no proposition was rated yet.";

/// Where fewer than two rated the same, so that nothing could be compared.
pub const NOT_MEASURED: &str = "not measured";

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

/// The same of what may not have been measured.
pub fn measured(per_mille: Option<u32>) -> String {
    per_mille.map_or_else(|| NOT_MEASURED.to_owned(), per_cent)
}

/// The same in a cell of a table with many.
pub fn cell(per_mille: Option<u32>) -> String {
    per_mille.map_or_else(|| "\u{2013}".to_owned(), per_cent)
}

/// Thousandths of a vote, an upper bound and so rounded up: `2.6`.
pub fn votes(per_mille: u32) -> String {
    let tenths = per_mille.div_ceil(100);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// What a majority says.
pub fn majority(majority: Option<i8>) -> &'static str {
    match majority {
        None => "none",
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

/// The answer to: would a plain vote have said the same? None where there was no talk to ask it of.
pub fn talk(debate: &DebateReport) -> Option<String> {
    let tied = debate.propositions.iter().filter(|one| one.sealed_majority == Some(0));
    talk_of(&debate.talk, &tied.map(|one| one.number).collect::<Vec<_>>())
}

/// The same in words, with the propositions on which the vote was tied.
pub fn talk_of(talk: &Talk, tied: &[u32]) -> Option<String> {
    let tied = names(tied);
    Some(match (talk, tied.is_empty()) {
        (Talk::NoTalk, _) => return None,
        (Talk::Unknown, _) => "There is no plain vote to compare it with.".to_owned(),
        (Talk::IsVote, _) => {
            "This is the plain vote itself: what the discussion would have changed is unknown.".to_owned()
        }
        (Talk::VoteTied, _) => "A plain vote would have decided nothing: it was tied.".to_owned(),
        (Talk::SameAsVote, true) => "A plain vote would have said the same.".to_owned(),
        (Talk::SameAsVote, false) => {
            format!("A plain vote would have said the same on the others, and was tied on {tied}.")
        }
        (Talk::DiffersOn(which), true) => {
            format!("A plain vote would have said otherwise on {}.", names(which))
        }
        (Talk::DiffersOn(which), false) => {
            format!("A plain vote would have said otherwise on {}, and was tied on {tied}.", names(which))
        }
    })
}

/// What heads those who stand against the verdict.
pub fn dissent_heading(debate: &DebateReport) -> &'static str {
    if debate.overruled.is_empty() { "Minority report" } else { "The moderator overruled the panel" }
}

/// Where the verdict goes against most voices, said so that nobody can miss it; none where it does not.
pub fn overruled(debate: &DebateReport) -> Option<String> {
    let against = |number: &u32| {
        let ruling = debate.propositions.iter().find(|each| each.number == *number)?.verdict?;
        let ratings = debate.last_ratings(*number);
        let against = ratings.iter().filter(|rating| rating.signum() * ruling.signum() < 0).count();
        Some(format!("{} ({against} of {} are against the ruling)", name(*number), ratings.len()))
    };
    let overruled: Vec<String> = debate.overruled.iter().filter_map(against).collect();
    let overruled = overruled.join(", ");
    (!overruled.is_empty()).then(|| format!("The moderator overruled the panel on {overruled}."))
}

/// What a dissent is against: the verdict, or the vote that replaces it.
pub fn ruling(verdict: &Verdict) -> &'static str {
    if verdict.is_majority { "the sealed majority" } else { "the verdict" }
}

/// Where no dissent was recorded: of whom that can be said.
pub fn no_dissent(debate: &DebateReport, verdict: &Verdict) -> String {
    let against = ruling(verdict);
    match (debate.first_rated().is_some(), debate.all_rated()) {
        (false, _) => format!("The propositions were not rated, so dissent from {against} is unknown."),
        (true, true) => format!("No one dissents from {against}."),
        (true, false) => format!("No one who rated the propositions dissents from {against}."),
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
    let size = phrases::grouped(text.len() as u64);
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

/// How independent the votes were that were last counted: `at most 3.7, by 3 model families: oak (2), …`; none where
/// nobody voted. Only those who voted are counted; a model whose family is not known has that of its name.
pub fn independent(debate: &DebateReport) -> Option<String> {
    let (phase, votes) = debate.last_votes()?;
    let is_last = debate.phases.last().is_some_and(|last| last.name == phase.name);
    let when = if is_last {
        String::new()
    } else {
        format!(" when votes were last cast, in {}", spaced(&phase.name))
    };
    let mut families: Vec<(&str, u64)> = Vec::new();
    let mut is_guess = false;
    let voted = |persona: &str| phase.stand(persona).is_some_and(|stand| !stand.ratings.is_empty());
    for debater in debate.debaters.iter().filter(|debater| voted(&debater.persona)) {
        let told = debater.family.as_deref();
        let family = told.or_else(|| family_in(&debater.model)).unwrap_or(&debater.model);
        is_guess |= told.is_none();
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, count)) => *count += 1,
            None => families.push((family, 1)),
        }
    }
    let named: Vec<_> = families.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let what = if families.len() == 1 { "model family" } else { "model families" };
    let guess = if is_guess { "; families are guessed from the models' names" } else { "" };
    let (votes, count) = (self::votes(votes), families.len());
    Some(format!("at most {votes}{when}, by {count} {what}: {}{guess}", named.join(", ")))
}

/// A part of a score and its value: `agreement 72 %`.
pub fn part((name, value_pm): &(String, u32)) -> String {
    format!("{name} {}", per_cent(*value_pm))
}

/// Why no vote could stand in for a verdict; none where that is not so.
pub fn undecided(debate: &DebateReport) -> Option<&'static str> {
    Some(match debate.undecided()? {
        Undecided::NobodyRated => "no sealed votes were cast that could replace one",
        Undecided::OneRated => "only one had cast a sealed vote, which is no majority",
        Undecided::Tied => "the sealed vote was tied on everything",
    })
}

/// How far a debate came, in one sentence; none when there is a verdict.
pub fn state(debate: &DebateReport) -> Option<String> {
    if let Some(why) = undecided(debate) {
        return Some(format!("Nothing was decided: the moderator gave no verdict, and {why}."));
    }
    match &debate.state {
        DebateState::Decided => None,
        DebateState::Open => Some("The debate is not over; this is what it reached so far.".to_owned()),
        DebateState::Gated(_) => Some("There is no verdict yet.".to_owned()),
        DebateState::Ended(cause) => {
            Some(format!("There is no verdict ({}); this is what it reached.", phrases::turn_cause(*cause)))
        }
    }
}

/// Money of a line, with `≤` where calls were cut off.
pub fn money(line: &CostLine) -> String {
    phrases::money_at_most(line.micro_usd, line.unpriced, line.cut_off)
}

/// Tokens of a line, with what stands before those that nobody counted.
pub fn tokens(line: &CostLine, tokens: u64) -> String {
    format!("{}{}", phrases::about(line.cut_off, line.estimated), phrases::grouped(tokens))
}

/// Why some numbers are bounds; none when none is.
pub fn cut_off(line: &CostLine) -> Option<String> {
    let were = match line.cut_off {
        0 => return None,
        1 => "1 call was".to_owned(),
        n => format!("{n} calls were"),
    };
    Some(format!("{were} cut off: what is marked \u{2264} is the most it can have taken."))
}

/// A day and a time, in UTC; empty when unknown.
pub fn when(at: u64) -> String {
    if at == 0 { String::new() } else { format!("{} {}", phrases::day(at), phrases::time_of_day(at)) }
}

/// Why a turn ended, with what kept a squad's work from being done.
pub fn end(turn: &TurnReport) -> String {
    let cause = turn.cause.map_or("the turn is not over", phrases::turn_cause);
    let end = turn.lacks.as_ref().map_or(cause.to_owned(), |lacks| format!("{cause}: {lacks}"));
    turn.undone.as_ref().map_or(end.clone(), |undone| format!("{end}; {undone}"))
}

/// What the team cache was to a turn, in lines: whose run it is and what that saved, or why its own is not stored;
/// that no check was run again.
pub fn cached(turn: &TurnReport) -> impl Iterator<Item = String> + '_ {
    let cache = turn.cache.iter().map(|words| format!("Team cache: {words}."));
    cache.chain(turn.recorded.clone())
}

/// What a reviewer said of the work as a whole.
pub fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Approve => "approved",
        Judgement::RequestChanges => "asked for changes",
        Judgement::Unknown(_) => phrases::NEWER,
    }
}

/// What is wrong with a claim, after the claim where it can be read.
pub fn flagged(claim: &FlaggedClaim) -> String {
    let what = if claim.contradicted { "the log says otherwise" } else { "not supported by the log" };
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
        assert_eq!([votes(2_540), votes(3_750), votes(2_500), votes(6_000)], ["2.6", "3.8", "2.5", "6.0"]);
        assert_eq!(names(&[]), "");
        assert_eq!(names(&[0, 2, 6]), "P1, P3 and P7");
    }
}
