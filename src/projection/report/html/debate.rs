//! The page of a debate: question, verdict, what a plain vote would have said, who moved and why, who still disagrees.

use crate::projection::phrases;
use crate::projection::report::Report;
use crate::projection::report::debate::{DebateReport, Move, Phase, Proposition, Stand, Talk, Verdict};
use crate::projection::report::wording::{self, spaced};
use crate::protocol::EventRef;

use super::figures;
use super::markup::Markup;

/// The longest answer that is set in large type.
const LARGE: usize = 320;

/// The most moves that are not folded away.
const MOVES: usize = 12;

/// One debate.
pub fn section(page: &mut Markup, report: &Report, debate: &DebateReport) {
    page.raw("<article class=\"debate\">\n<header>");
    dateline(page, report, debate);
    super::heading(page, &debate.question);
    page.raw("</header>\n");
    verdict(page, debate);
    propositions(page, debate);
    absences(page, debate);
    moves(page, debate);
    if debate.verdict.is_none() {
        stands(page, debate);
    }
    figures::positions(page, debate);
    figures::convergence(page, debate);
    matrix(page, debate);
    minority(page, debate);
    risks(page, debate);
    ballots(page, debate);
    page.raw("</article>\n");
}

fn dateline(page: &mut Markup, report: &Report, debate: &DebateReport) {
    page.raw("<p class=\"dateline\"><span>Debate</span><span>");
    page.text(&phrases::day(report.session.opened_at)).raw("</span><span>");
    page.text(&phrases::counted(debate.debaters.len() as u64, "persona")).raw("</span><span>");
    page.text(&phrases::counted(debate.phases.len() as u64, "phase")).raw("</span>");
    super::price(page, report);
    page.raw("</p>");
}

fn verdict(page: &mut Markup, debate: &DebateReport) {
    page.raw("<section class=\"verdict\" id=\"verdict\"><div class=\"words\"><h2>Verdict</h2>");
    match &debate.verdict {
        Some(verdict) => ruling(page, verdict),
        None => {
            page.raw("<p class=\"answer\">None.</p>");
        }
    }
    if let Some(words) = wording::overruled(debate) {
        page.raw("<p class=\"state warn\" id=\"overruled\"><strong>").text(&words).raw("</strong></p>");
    }
    for note in [wording::state(debate), wording::short_of_plan(debate)].into_iter().flatten() {
        page.raw("<p class=\"state\">").text(&note).raw("</p>");
    }
    if debate.verdict.is_none() {
        page.raw("<p class=\"state\">").text(&wording::heard(debate)).raw(".</p>");
    }
    page.raw("</div>");
    if let Some(verdict) = &debate.verdict {
        page.raw("<aside><div class=\"sure\"><h3>Confidence</h3>");
        confidence(page, verdict);
        let is_whole = debate.heard.to_the_end == debate.heard.of;
        page.raw(if is_whole { "<p class=\"heard\">" } else { "<p class=\"heard warn\">" });
        page.text(&wording::heard(debate)).raw("</p></div>");
        talk(page, debate);
        page.raw("</aside>");
    }
    page.raw("</section>\n");
}

/// A vote has none.
fn confidence(page: &mut Markup, verdict: &Verdict) {
    let Some(sure) = verdict.confidence_pm else {
        page.raw("<p>None: the moderator had no verdict to give.</p>");
        return;
    };
    page.raw("<p class=\"big\">").text(&wording::per_cent(sure));
    page.raw("</p><svg class=\"meter\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"rail\" width=\"1000\" height=\"10\"/><rect class=\"level\" height=\"10\" width=\"");
    page.number(sure).raw("\"/></svg>");
}

fn ruling(page: &mut Markup, verdict: &Verdict) {
    let answer = verdict.answer.as_deref().unwrap_or(match verdict.is_majority {
        true => "The moderator had no verdict to give. What the sealed majority said stands in for it.",
        false => "The words of the verdict cannot be read from the log.",
    });
    let is_large = answer.chars().count() <= LARGE;
    page.raw(if is_large { "<div class=\"answer\">" } else { "<div class=\"answer prose\">" });
    page.prose(answer).raw("</div><p class=\"source\">");
    page.raw(match verdict.is_majority {
        true => "The sealed ballots: ",
        false => "By the moderator, who is none of the debaters: ",
    });
    page.cite(verdict.source).raw("</p>");
}

/// The question every reader should ask of a debate.
fn talk(page: &mut Markup, debate: &DebateReport) {
    let Some(words) = wording::talk(debate) else { return };
    page.raw(match debate.talk {
        Talk::DiffersOn(_) => "<div class=\"talk differs\" id=\"talk\">",
        _ => "<div class=\"talk\" id=\"talk\">",
    });
    page.raw("<h3>Did talk add anything?</h3><p>").text(&words).raw("</p></div>");
}

fn propositions(page: &mut Markup, debate: &DebateReport) {
    if debate.propositions.is_empty() {
        return;
    }
    page.raw("<section id=\"propositions\"><h2>What was in dispute</h2><div class=\"scroll\"><table class=\"disputes\"><thead><tr><th scope=\"col\"><span class=\"gone\">number</span></th><th scope=\"col\">proposition</th><th scope=\"col\">sealed majority</th><th scope=\"col\">verdict</th></tr></thead><tbody>");
    for proposition in &debate.propositions {
        page.raw(if proposition.differs { "<tr class=\"differs\">" } else { "<tr>" });
        dispute(page, proposition);
        page.raw("</tr>");
    }
    page.raw("</tbody></table></div></section>\n");
}

fn dispute(page: &mut Markup, proposition: &Proposition) {
    page.raw("<th scope=\"row\">").text(&wording::name(proposition.number)).raw("</th><td><p>");
    match proposition.text.is_empty() {
        true => page.raw("<em>its words cannot be read from the log</em>"),
        false => page.words(&proposition.text),
    };
    page.raw("</p>");
    if let Some(because) = &proposition.because {
        page.raw("<p class=\"because\">").words(because).citations(&proposition.evidence).raw("</p>");
    }
    page.raw("</td><td data-label=\"sealed majority\">");
    side(page, proposition.sealed_majority, wording::majority(proposition.sealed_majority));
    page.raw("</td><td data-label=\"verdict\">");
    side(page, proposition.verdict, wording::upheld(proposition.verdict));
    if proposition.differs {
        page.raw("<span class=\"note\">differs</span>");
    }
    page.raw("</td>");
}

/// A word with the colour and the sign of its side.
fn side(page: &mut Markup, sign: Option<i8>, word: &'static str) {
    page.raw(match sign {
        Some(1..) => "<span class=\"side for\">",
        Some(0) | None => "<span class=\"side\">",
        Some(_) => "<span class=\"side against\">",
    });
    page.raw(word).raw("</span>");
}

fn absences(page: &mut Markup, debate: &DebateReport) {
    if debate.missing().next().is_none() {
        return;
    }
    page.raw("<section class=\"absences\" id=\"absences\"><h2>Who was missing</h2><p class=\"lead\">An absence is neither an opinion nor a vote.</p><ul>");
    for one in debate.missing_together() {
        page.raw("<li><strong>").line(one.persona).raw("</strong>").line(&one.when());
        page.raw(": ").line(one.why);
        one.sources.iter().for_each(|source| _ = page.raw(" ").cite(*source));
        page.raw("</li>");
    }
    page.raw("</ul></section>\n");
}

fn moves(page: &mut Markup, debate: &DebateReport) {
    if debate.first_rated().is_none() {
        return;
    }
    page.raw("<section id=\"moves\"><h2>Who moved, and why</h2>");
    if debate.moves.is_empty() {
        page.raw("<p class=\"lead\">Nobody changed sides.</p>");
    }
    let (first, more) = debate.moves.split_at(debate.moves.len().min(MOVES));
    page.raw("<ol class=\"moves\">");
    first.iter().for_each(|step| moved(page, step));
    page.raw("</ol>");
    if !more.is_empty() {
        page.raw("<details><summary>").text(&phrases::counted(more.len() as u64, "more move"));
        page.raw("</summary><ol class=\"moves\">");
        more.iter().for_each(|step| moved(page, step));
        page.raw("</ol></details>");
    }
    page.raw("</section>\n");
}

fn moved(page: &mut Markup, step: &Move) {
    page.raw("<li><h3>").line(&step.persona).raw("</h3><p class=\"step\">");
    page.text(&wording::name(step.proposition))
        .raw(" ")
        .piece(rating(step.from))
        .raw(" <span class=\"arrow\">\u{2192}</span> ");
    page.piece(rating(step.to)).raw(" <small>in ").line(&spaced(&step.phase)).raw("</small></p><dl>");
    quote(page, "had said it would move if", step.condition.as_deref(), step.named_in);
    quote(page, "moved because", step.because.as_deref(), step.source);
    if step.because.is_none() {
        page.raw("<dt class=\"warn\">gave no reason</dt><dd></dd>");
    }
    page.raw("</dl></li>");
}

fn quote(page: &mut Markup, what: &'static str, words: Option<&str>, source: Option<EventRef>) {
    if let Some(words) = words {
        page.raw("<dt>").raw(what).raw("</dt><dd>").words(words).cites(&source).raw("</dd>");
    }
}

fn rating(value: i8) -> Markup {
    let mut markup = Markup::default();
    markup.raw(match value {
        1.. => "<b class=\"rating for\">",
        0 => "<b class=\"rating\">",
        _ => "<b class=\"rating against\">",
    });
    markup.text(&wording::rating(value)).raw("</b>");
    markup
}

/// Every rating in numbers: sealed, then last.
fn matrix(page: &mut Markup, debate: &DebateReport) {
    let (Some(first), Some(last)) = (debate.first_rated(), debate.last_rated()) else { return };
    page.raw("<section id=\"matrix\"><h2>Every vote</h2><p class=\"lead\">The sealed rating, then the last one with its confidence. \u{2212}2 is strongly against, +2 strongly for.</p><div class=\"scroll\">");
    // Many columns have their confidence below, so that none of them is cut off.
    page.raw(match debate.propositions.len() {
        ..=4 => "<table class=\"matrix\">",
        _ => "<table class=\"matrix many\">",
    });
    page.raw("<thead><tr><th scope=\"col\">persona</th>");
    for proposition in &debate.propositions {
        page.raw("<th scope=\"col\">").text(&wording::name(proposition.number)).raw("</th>");
    }
    page.raw("</tr></thead><tbody>");
    for debater in &debate.debaters {
        page.raw("<tr><th scope=\"row\">").line(&debater.persona).raw("</th>");
        for proposition in &debate.propositions {
            page.raw("<td>");
            votes(page, first, last, &debater.persona, proposition.number);
            page.raw("</td>");
        }
        page.raw("</tr>");
    }
    page.raw("</tbody><tfoot><tr><th scope=\"row\">sealed majority</th>");
    for each in &debate.propositions {
        page.raw("<td>");
        side(page, each.sealed_majority, wording::majority(each.sealed_majority));
        page.raw("</td>");
    }
    page.raw("</tr><tr><th scope=\"row\">verdict</th>");
    for each in &debate.propositions {
        page.raw("<td>");
        side(page, each.verdict, wording::upheld(each.verdict));
        page.raw("</td>");
    }
    page.raw("</tr></tfoot></table></div></section>\n");
}

fn votes(page: &mut Markup, first: &Phase, last: &Phase, persona: &str, proposition: u32) {
    let of = |phase: &Phase| phase.stand(persona).and_then(|stand| stand.rating(proposition)).copied();
    let (sealed, now) = (of(first), of(last));
    match sealed {
        Some(rated) => page.raw("<span class=\"was\">").text(&wording::rating(rated.rating)).raw("</span>"),
        None => page.raw("<span class=\"was\">\u{b7}</span>"),
    };
    match now {
        Some(rated) => page
            .piece(rating(rated.rating))
            .raw("<small>")
            .text(&wording::per_cent(rated.confidence_pm))
            .raw("</small>"),
        None => page.raw("<span class=\"absent\">absent</span>"),
    };
}

fn minority(page: &mut Markup, debate: &DebateReport) {
    let Some(verdict) = &debate.verdict else { return };
    page.raw("<section id=\"minority\"><h2>").raw(wording::dissent_heading(debate)).raw("</h2>");
    if debate.minority.is_empty() {
        page.raw("<p class=\"lead\">").text(&wording::no_dissent(debate, verdict)).raw("</p>");
    } else if let Some(told) = &verdict.minority {
        page.raw("<div class=\"prose\">").prose(told).raw("</div>");
    }
    for dissent in &debate.minority {
        page.raw("<blockquote>");
        page.prose(dissent.position.as_deref().unwrap_or("Its words cannot be read from the log."));
        if !dissent.claims.is_empty() {
            page.raw("<ul>").items(&dissent.claims).raw("</ul>");
        }
        if let Some(condition) = &dissent.would_change {
            page.raw("<p class=\"condition\">Would change its mind: ").words(condition).raw("</p>");
        }
        page.raw("<footer>")
            .line(&dissent.persona)
            .raw(", against ")
            .raw(wording::ruling(verdict))
            .raw(" on ");
        page.text(&wording::names(&dissent.propositions))
            .raw(" ")
            .cite(dissent.source)
            .raw("</footer></blockquote>");
    }
    page.raw("</section>\n");
}

fn risks(page: &mut Markup, debate: &DebateReport) {
    let Some(verdict) = debate.verdict.as_ref().filter(|verdict| !verdict.open_risks.is_empty()) else {
        return;
    };
    page.raw("<section id=\"risks\"><h2>Open risks</h2><ul class=\"risks\">").items(&verdict.open_risks);
    page.raw("</ul></section>\n");
}

/// Where everybody was when it ended, where no verdict sums that up.
fn stands(page: &mut Markup, debate: &DebateReport) {
    let mut stands = debate.last_stands().peekable();
    if stands.peek().is_some() {
        page.raw("<section id=\"stands\"><h2>What they held</h2>");
        stands.for_each(|stand| ballot(page, stand));
        page.raw("</section>\n");
    }
    if debate.first_rated().is_none() {
        page.raw("<p class=\"state\">").raw(wording::NO_RATINGS).raw("</p>\n");
    }
}

/// What each debater said, phase by phase; folded away, since it is long.
fn ballots(page: &mut Markup, debate: &DebateReport) {
    let said = |phase: &Phase| phase.stands.iter().any(|stand| stand.position.is_some());
    if !debate.phases.iter().any(said) {
        return;
    }
    page.raw("<section id=\"ballots\"><h2>What they said</h2>");
    for phase in &debate.phases {
        if !said(phase) {
            page.raw("<p class=\"state\">").line(&spaced(&phase.name)).raw(": nobody was heard.</p>");
            continue;
        }
        page.raw("<details><summary>").line(&spaced(&phase.name));
        page.raw(if phase.sealed { " <small>sealed</small></summary>" } else { "</summary>" });
        phase.stands.iter().for_each(|stand| ballot(page, stand));
        page.raw("</details>");
    }
    page.raw("</section>\n");
}

fn ballot(page: &mut Markup, stand: &Stand) {
    page.raw("<div class=\"ballot\"><h3>").line(&stand.persona);
    if let Some(confidence) = stand.confidence_pm {
        page.raw(" <small>").text(&wording::per_cent(confidence)).raw(" sure</small>");
    }
    page.cites(&stand.source).raw("</h3>");
    page.prose(stand.position.as_deref().unwrap_or("Its words cannot be read from the log."));
    if !stand.claims.is_empty() || !stand.evidence.is_empty() {
        page.raw("<ul>").items(&stand.claims);
        for evidence in &stand.evidence {
            page.raw("<li class=\"evidence\">").words(&evidence.shows).citations(evidence.cites.as_slice());
            page.raw(match &evidence.cites {
                None => " <small>without a reference</small></li>",
                Some(_) => "</li>",
            });
        }
        page.raw("</ul>");
    }
    if let Some(condition) = &stand.would_change {
        page.raw("<p class=\"condition\">Would change its mind: ").words(condition).raw("</p>");
    }
    page.raw("</div>");
}
