//! What a debate's report says: verdict, what a plain vote would have said, who moved and why, who still disagrees.

use crate::projection::phrases::{self, counted};
use crate::projection::report::debate::{DebateReport, Move, Phase, Proposition, Stand, Verdict};
use crate::projection::report::document::{
    Article, Block, Card, Fact, Figure, Line, Look, Table, Tone, cell, para,
};
use crate::projection::report::wording::{self, spaced};
use crate::projection::report::{Report, prose};

use super::{price, section};

/// The most moves that are not folded away.
const MOVES: usize = 12;

/// Said where the log has an answer that cannot be read.
const UNREADABLE: &str = "Its words cannot be read from the log.";

/// One debate, whole.
pub fn debate<'a>(report: &Report, debate: &'a DebateReport) -> Article<'a> {
    let mut dateline = vec!["debate".to_owned(), phrases::day(report.session.opened_at)];
    dateline.push(counted(debate.debaters.len() as u64, "persona"));
    dateline.push(counted(debate.phases.len() as u64, "phase"));
    dateline.extend(price(report));
    let mut blocks = outcome(debate, usize::MAX);
    blocks.extend(ballots(debate));
    Article { dateline, request: &debate.question, is_struck: false, asked_in: debate.asked_in, blocks }
}

/// What it came to, in at most so many columns.
pub fn outcome(debate: &DebateReport, columns: usize) -> Vec<Block<'_>> {
    let mut blocks = vec![verdict(debate)];
    blocks.extend(propositions(debate));
    blocks.extend(absences(debate));
    blocks.extend(moves(debate));
    if debate.verdict.is_none() {
        blocks.extend(stands(debate));
    }
    blocks.extend(positions(debate, columns));
    blocks.extend(convergence(debate));
    if debate.first_rated().is_some() {
        blocks.push(Block::Figure(Figure::Votes(debate), Vec::new()));
    }
    blocks.extend(minority(debate));
    let risks = debate.verdict.iter().flat_map(|verdict| &verdict.open_risks);
    let risks: Vec<_> = risks.map(|risk| vec![para(Line::default().words(risk))]).collect();
    if !risks.is_empty() {
        blocks.push(section("risks", "Open risks", None, vec![Block::List(None, risks)]));
    }
    blocks
}

fn verdict(debate: &DebateReport) -> Block<'_> {
    let notice = |words: String| Block::Para(Tone::Notice, words.into());
    let mut blocks = Vec::new();
    let overruled = wording::overruled(debate).map(|words| Block::Para(Tone::Alarm, words.into()));
    if let Some(verdict) = &debate.verdict {
        let answer = verdict.answer.as_deref().unwrap_or(match verdict.is_majority {
            true => "The moderator gave no verdict. The sealed majority is used instead.",
            false => UNREADABLE,
        });
        blocks.push(Block::Words(prose::blocks(answer)));
        let whose = match verdict.is_majority {
            true => "The sealed ballots:",
            false => "By the moderator, who is not one of the debaters:",
        };
        blocks.push(Block::Para(Tone::Quiet, Line::new(whose).cites([&verdict.source])));
        blocks.extend(overruled);
    }
    blocks.extend([wording::state(debate), wording::short_of_plan(debate)].into_iter().flatten().map(notice));
    blocks.push(Block::Facts(facts(debate)));
    section("verdict", "Verdict", None, blocks)
}

fn facts(debate: &DebateReport) -> Vec<Fact> {
    let heard = Line::new(wording::heard(debate));
    let warns = debate.heard.to_the_end != debate.heard.of;
    let level = debate.verdict.as_ref().and_then(|verdict| verdict.confidence_pm);
    let label = if level.is_some() { "Confidence" } else { "Voices" };
    let mut facts = vec![Fact { id: "sure", label, level, lines: vec![heard], warns }];
    if let Some(words) = wording::talk(debate).filter(|_| debate.verdict.is_some()) {
        let warns = matches!(debate.talk, crate::projection::report::debate::Talk::DiffersOn(_));
        let label = "Did talk add anything?";
        facts.push(Fact { id: "talk", label, level: None, lines: vec![words.into()], warns });
    }
    facts
}

fn propositions(debate: &DebateReport) -> Option<Block<'_>> {
    let head = ["", "proposition", "sealed majority", "verdict"].map(str::to_owned).to_vec();
    let rows = debate.propositions.iter().map(|each| (each.differs, dispute(each))).collect();
    let table = Table { class: "disputes", head, rows, foot: None };
    let blocks = vec![Block::Table(table)];
    (!debate.propositions.is_empty()).then(|| section("propositions", "What was in dispute", None, blocks))
}

fn dispute(each: &Proposition) -> Vec<Vec<Line>> {
    let text = if each.text.is_empty() { UNREADABLE } else { &each.text };
    let mut words = vec![Line::default().words(text)];
    if let Some(because) = &each.because {
        words.push(Line::default().words(because).citations(&each.evidence));
    }
    let majority = each.sealed_majority;
    let majority = majority.map(|side| Line::default().side(side, wording::majority(Some(side))));
    let verdict = each.verdict.map(|side| Line::default().side(side, wording::upheld(Some(side))));
    let mut verdict = cell(verdict.unwrap_or_default());
    if each.differs {
        verdict.push(Line::default().with(Look::Warn, "differs"));
    }
    vec![cell(wording::name(each.number)), words, cell(majority.unwrap_or_default()), verdict]
}

fn absences(debate: &DebateReport) -> Option<Block<'_>> {
    let line = |one: &crate::projection::report::debate::Missing<'_>| {
        let line = Line::default().strong(one.persona).plain(one.when()).plain(": ").words(one.why);
        vec![para(line.cites(&one.sources))]
    };
    let items: Vec<_> = debate.missing_together().iter().map(line).collect();
    let lead = Some("An absence is neither an opinion nor a vote.".into());
    (!items.is_empty()).then(|| section("absences", "Who was missing", lead, vec![Block::List(None, items)]))
}

fn moves(debate: &DebateReport) -> Option<Block<'_>> {
    debate.first_rated()?;
    let mut cards: Vec<Card> = debate.moves.iter().map(moved).collect();
    let more = cards.split_off(cards.len().min(MOVES));
    let mut blocks = match cards.is_empty() {
        true => vec![para("No one changed sides.")],
        false => vec![Block::Cards(cards)],
    };
    if !more.is_empty() {
        let summary = counted(more.len() as u64, "more move").into();
        blocks.push(Block::Fold(summary, vec![Block::Cards(more)]));
    }
    Some(section("moves", "Who moved, and why", None, blocks))
}

fn moved(step: &Move) -> Card {
    let rating = |value: i8| Look::Rating(value.signum());
    let what = Line::new(format!("{} ", wording::name(step.proposition)))
        .with(rating(step.from), wording::rating(step.from))
        .plain(" \u{2192} ")
        .with(rating(step.to), wording::rating(step.to));
    let condition = step
        .condition
        .as_ref()
        .map(|words| ("had said it would move if", Line::default().words(words).cites(&step.named_in)));
    let because = match &step.because {
        Some(words) => ("moved because", Line::default().words(words).cites(&step.source)),
        None => ("gave no reason", Line::default()),
    };
    let when = format!("in {}", spaced(&step.phase));
    Card { who: step.persona.clone(), what, when, said: condition.into_iter().chain([because]).collect() }
}

/// Where everybody was when it ended, where no verdict sums that up.
fn stands(debate: &DebateReport) -> Vec<Block<'_>> {
    let held: Vec<_> = debate.last_stands().map(ballot).collect();
    let mut blocks = Vec::new();
    if !held.is_empty() {
        blocks.push(section("stands", "What they held", None, held));
    }
    if debate.first_rated().is_none() {
        blocks.push(Block::Para(Tone::Notice, wording::NO_RATINGS.into()));
    }
    blocks
}

/// What each debater said, phase by phase; folded away, since it is long.
fn ballots(debate: &DebateReport) -> Option<Block<'_>> {
    let said = |phase: &Phase| phase.stands.iter().any(|stand| stand.position.is_some());
    if !debate.phases.iter().any(said) {
        return None;
    }
    let blocks = debate.phases.iter().map(|phase| {
        let name = Line::new(spaced(&phase.name));
        if !said(phase) {
            return Block::Para(Tone::Notice, name.plain(": no one was heard."));
        }
        let name = if phase.sealed { name.quiet(" sealed") } else { name };
        Block::Fold(name, phase.stands.iter().map(ballot).collect())
    });
    Some(section("ballots", "What they said", None, blocks.collect()))
}

fn ballot(stand: &Stand) -> Block<'_> {
    let sure = stand.confidence_pm.map(|sure| format!(" {} sure", wording::per_cent(sure)));
    let heading = Line::default().strong(&stand.persona).quiet(sure.unwrap_or_default()).cites(&stand.source);
    let mut blocks = vec![Block::Words(prose::blocks(stand.position.as_deref().unwrap_or(UNREADABLE)))];
    blocks.extend(claims(&stand.claims, stand));
    blocks.extend(would_change(stand.would_change.as_deref()));
    Block::Part { heading, blocks }
}

fn claims<'a>(claims: &[String], stand: &Stand) -> Option<Block<'a>> {
    let evidence = stand.evidence.iter().map(|one| {
        let line = Line::default().words(&one.shows).citations(one.cites.as_slice());
        if one.cites.is_none() { line.quiet(" without a reference") } else { line }
    });
    let lines = claims.iter().map(|claim| Line::default().words(claim)).chain(evidence);
    let items: Vec<_> = lines.map(|line| vec![para(line)]).collect();
    (!items.is_empty()).then_some(Block::List(None, items))
}

fn would_change<'a>(condition: Option<&str>) -> Option<Block<'a>> {
    let words = condition?;
    Some(Block::Para(Tone::Quiet, Line::new("Would change its mind: ").words(words)))
}

/// Every rating: a row a debater, the phases from left to right in one cell.
fn positions(debate: &DebateReport, columns: usize) -> Option<Block<'_>> {
    let rated: Vec<&Phase> = debate.rated().collect();
    if rated.is_empty() || debate.propositions.is_empty() {
        return None;
    }
    // Where all phases do not fit next to each other, the sealed rating and the last show the way.
    let names = debate.debaters.iter().map(|one| one.persona.chars().count()).max().unwrap_or(0);
    let is_whole = names + 4 + debate.propositions.len() * (3 * rated.len() + 1) <= columns;
    let shown: Vec<&Phase> = match rated.as_slice() {
        [first, .., last] if !is_whole => vec![first, last],
        all => all.to_vec(),
    };
    let phases: Vec<_> = (1..).zip(&shown).map(|(n, phase)| format!("{n} {}", spaced(&phase.name))).collect();
    let mut lead = format!("Ratings from \u{2212}2 to +2, phase by phase: {}.", phases.join(", "));
    if shown.len() < rated.len() {
        let between = counted((rated.len() - shown.len()) as u64, "phase");
        lead = format!("{lead} The report has {between} more: agon debates report.");
    }
    let head = debate.propositions.iter().map(|each| wording::name(each.number));
    let head = std::iter::once("persona".to_owned()).chain(head).collect();
    let row = |persona: &String| {
        let of = |number: u32| {
            let one = |phase: &&Phase| {
                let rating = phase.stand(persona).and_then(|stand| stand.rating(number));
                rating.map_or("\u{b7}".to_owned(), |rated| wording::rating(rated.rating))
            };
            shown.iter().map(|phase| format!("{:>2}", one(phase))).collect::<Vec<_>>().join(" ")
        };
        let cells = debate.propositions.iter().map(|each| cell(of(each.number)));
        (false, std::iter::once(cell(persona.as_str())).chain(cells).collect())
    };
    let rows = debate.debaters.iter().map(|debater| row(&debater.persona)).collect();
    let table = Block::Table(Table { class: "ratings", head, rows, foot: None });
    let words = section("positions", "Positions", Some(lead.into()), vec![table]);
    Some(Block::Figure(Figure::Positions(debate), vec![words]))
}

fn convergence(debate: &DebateReport) -> Option<Block<'_>> {
    let probes = debate.probes();
    let (_, last) = probes.last()?;
    let mut lead = Line::new("Scored by ").code(&last.scorer);
    lead = lead.plain(" after every phase: 0\u{a0}% is opposed, 100\u{a0}% agreed.");
    if let Some(votes) = wording::independent(debate) {
        lead = lead.plain(format!(
            " Independent votes: {votes}. Two debaters of one family are less than two votes."
        ));
    }
    let mut blocks = Vec::new();
    if probes.iter().filter(|(_, probe)| probe.score_pm.is_some()).count() > 1 {
        blocks.push(Block::Figure(Figure::Convergence(debate), Vec::new()));
    }
    let head = ["after", "score", "by proposition", "polarised", "moved", "votes"];
    let rows = (1u32..).zip(&probes).map(|(nth, (phase, probe))| {
        let mut after = vec![Line::new(format!("{nth}\u{2002}{}", spaced(&phase.name)))];
        if probe.collapse {
            after.push(Line::default().with(Look::Warn, "dissent vanished without a stated reason"));
        }
        if !probe.parts.is_empty() {
            let parts: Vec<_> = probe.parts.iter().map(wording::part).collect();
            after.push(Line::default().quiet(parts.join(" \u{b7} ")));
        }
        let mut score = Line::new(wording::measured(probe.score_pm));
        if let Some(level) = probe.score_pm {
            score = score.with(Look::Bar(level), "");
        }
        let each = probe.agreement_pm.iter();
        let each = each.map(|value| value.map_or("\u{2013}".to_owned(), |value| (value / 10).to_string()));
        let each = cell(each.collect::<Vec<_>>().join(" \u{b7} "));
        let votes = probe.effective_votes_pm.map_or("\u{2013}".to_owned(), wording::votes);
        let (polarised, moved) = (wording::cell(probe.polarisation_pm), wording::cell(probe.movement_pm));
        (false, vec![after, cell(score), each, cell(polarised), cell(moved), cell(votes)])
    });
    let rows = rows.collect();
    let head = head.map(str::to_owned).to_vec();
    blocks.push(Block::Table(Table { class: "numbers probes", head, rows, foot: None }));
    Some(section("convergence", "Did they converge?", Some(lead), blocks))
}

fn minority(debate: &DebateReport) -> Option<Block<'_>> {
    let verdict = debate.verdict.as_ref()?;
    let mut blocks = Vec::new();
    if debate.minority.is_empty() {
        blocks.push(para(wording::no_dissent(debate, verdict)));
    } else if let Some(told) = &verdict.minority {
        blocks.push(Block::Words(prose::blocks(told)));
    }
    blocks.extend(debate.minority.iter().map(|dissent| dissented(dissent, verdict)));
    Some(section("minority", wording::dissent_heading(debate), None, blocks))
}

fn dissented<'a>(dissent: &crate::projection::report::debate::Dissent, verdict: &Verdict) -> Block<'a> {
    let mut words = prose::blocks(dissent.position.as_deref().unwrap_or(UNREADABLE));
    words.extend(claims(&dissent.claims, &Stand::default()));
    words.extend(would_change(dissent.would_change.as_deref()));
    let on = wording::names(&dissent.propositions);
    let by = Line::default().strong(&dissent.persona);
    let by = by.plain(format!(", against {} on {on}", wording::ruling(verdict)));
    Block::Quote(words, by.cites([&dissent.source]))
}
