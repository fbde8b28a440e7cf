//! What every session's page has: turns without a debate, then the costs of each spark.

use crate::projection::phrases;
use crate::projection::report::session::{CostLine, FindingLine, TurnReport};
use crate::projection::report::{Report, wording};
use crate::protocol::event::Judgement;
use crate::protocol::text::name_shown;

use super::markup::Markup;

/// The turns that were no debates, and the costs of all.
pub fn sections(page: &mut Markup, report: &Report) {
    let is_debate = |turn: &TurnReport| report.debates.iter().any(|debate| debate.turn == turn.number);
    for turn in report.session.turns.iter().filter(|turn| !is_debate(turn)) {
        turn_section(page, report, turn);
    }
    if report.session.turns.is_empty() && report.debates.is_empty() {
        page.raw("<header><h1>No task was given.</h1></header>");
    }
    costs(page, report);
}

fn turn_section(page: &mut Markup, report: &Report, turn: &TurnReport) {
    page.raw("<article class=\"turn\"><header><p class=\"dateline\"><span>")
        .line(&turn.mode)
        .raw("</span><span>");
    page.text(&phrases::day(report.session.opened_at)).raw("</span><span>turn ").number(turn.number);
    page.raw("</span>");
    super::price(page, report);
    page.raw("</p>");
    super::heading(page, &turn.prompt);
    page.raw("</header><section class=\"outcome\"><h2>Answer</h2>");
    match &turn.answer {
        Some(answer) => page.raw("<div class=\"prose answer-text\">").prose(answer).raw("</div>"),
        None => page.raw("<p class=\"state\">There is none.</p>"),
    };
    page.raw("<p class=\"source\">");
    page.line(&wording::end(turn)).raw(" ").cites(&turn.source).raw("</p>");
    for words in wording::cached(turn) {
        page.raw("<p class=\"source\">").line(&words).raw("</p>");
    }
    page.raw("</section>");
    reviews(page, turn);
    checks(page, turn);
    missing(page, turn);
    page.raw("</article>\n");
}

fn reviews(page: &mut Markup, turn: &TurnReport) {
    if turn.reviews.is_empty() && turn.findings.is_empty() {
        return;
    }
    page.raw("<section id=\"reviews\"><h2>Reviews</h2><ol class=\"plain\">");
    for review in &turn.reviews {
        page.raw("<li><strong>").line(&review.role).raw("</strong> ");
        page.raw(match review.judgement {
            Judgement::Approve => "<span class=\"side for\">",
            Judgement::RequestChanges | Judgement::Unknown(_) => "<span class=\"side against\">",
        });
        page.text(wording::judgement(review.judgement)).raw("</span> ").cite(review.source).raw("</li>");
    }
    page.raw("</ol>");
    if !turn.findings.is_empty() {
        page.raw("<div class=\"scroll\"><table class=\"findings\"><thead><tr><th scope=\"col\"></th><th scope=\"col\">finding</th><th scope=\"col\">weight</th><th scope=\"col\">state</th></tr></thead><tbody>");
        turn.findings.iter().for_each(|line| finding(page, line));
        page.raw("</tbody></table></div>");
    }
    page.raw("</section>");
}

fn finding(page: &mut Markup, line: &FindingLine) {
    let finding = &line.finding;
    page.raw("<tr><th scope=\"row\">").line(&finding.id).raw("</th><td><p>").line(&finding.problem);
    page.raw(" ").cite(line.source).raw("</p>");
    if let Some(file) = &finding.file {
        page.raw("<p class=\"because\"><code>").line(file);
        if let Some(number) = finding.line {
            page.raw(":").number(number);
        }
        page.raw("</code></p>");
    }
    page.raw("</td><td>").text(finding.severity.word()).raw("</td><td>");
    match line.closed {
        Some(at) => page.raw("<span class=\"side for\">closed</span> ").cite(at),
        None => page.raw("<span class=\"side against\">open</span>"),
    };
    page.raw("</td></tr>");
}

fn checks(page: &mut Markup, turn: &TurnReport) {
    if !turn.checks.is_empty() {
        page.raw("<section id=\"checks\"><h2>Checks</h2><ul class=\"plain\">");
        for check in &turn.checks {
            page.raw("<li><code>").line(&check.command).raw("</code> ");
            page.raw(if check.exit == Some(0) {
                "<span class=\"side for\">"
            } else {
                "<span class=\"side against\">"
            });
            page.text(&wording::exit(check.exit)).raw("</span> ").cite(check.source).raw("</li>");
        }
        page.raw("</ul></section>");
    }
    if !turn.changed.is_empty() {
        page.raw("<section id=\"changed\"><h2>Changed files</h2><ul class=\"plain\">");
        for path in &turn.changed {
            page.raw("<li><code>").line(&name_shown(path)).raw("</code></li>");
        }
        page.raw("</ul></section>");
    }
}

fn missing(page: &mut Markup, turn: &TurnReport) {
    if turn.flagged.is_empty() && turn.failed.is_empty() {
        return;
    }
    page.raw("<section id=\"doubts\"><h2>Not borne out, or missing</h2><ul class=\"plain\">");
    for claim in &turn.flagged {
        page.raw("<li class=\"warn\">")
            .line(&wording::flagged(claim))
            .raw(" ")
            .cite(claim.source)
            .raw("</li>");
    }
    for role in &turn.failed {
        page.raw("<li><strong>").line(&role.role).raw("</strong> did nothing: ");
        page.text(phrases::turn_cause(role.cause)).raw(" ").cite(role.source).raw("</li>");
    }
    page.raw("</ul></section>");
}

fn costs(page: &mut Markup, report: &Report) {
    let session = &report.session;
    if session.costs.is_empty() {
        return;
    }
    let most = session.costs.iter().map(tokens).max().unwrap_or_default();
    page.raw("<section id=\"costs\"><h2>What it cost</h2><div class=\"scroll\"><table class=\"numbers costs\"><thead><tr><th scope=\"col\">who</th><th scope=\"col\">model</th><th scope=\"col\">calls</th><th scope=\"col\">tokens in</th><th scope=\"col\">tokens out</th><th scope=\"col\" class=\"tools\">tools</th><th scope=\"col\">cost</th></tr></thead><tbody>");
    session.costs.iter().for_each(|line| cost(page, line, most));
    page.raw("</tbody><tfoot>");
    cost(page, &session.total, 0);
    page.raw("</tfoot></table></div>");
    if let Some(why) = wording::cut_off(&session.total) {
        page.raw("<p class=\"state\">").text(&why).raw("</p>");
    }
    page.raw("</section>\n");
}

/// One row; the stroke below a name is its part of what the one with the most tokens used.
fn cost(page: &mut Markup, line: &CostLine, most: u64) {
    page.raw("<tr><th scope=\"row\">").line(&line.role);
    let share = tokens(line).saturating_mul(1_000).checked_div(most).unwrap_or_default().min(1_000);
    if most > 0 {
        page.raw("<svg class=\"share\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"level\" height=\"10\" width=\"");
        page.number(i64::try_from(share).unwrap_or_default()).raw("\"/></svg>");
    }
    page.raw("</th><td class=\"model\">").line(&line.model).raw("</td><td>").number(line.calls);
    if line.failures > 0 {
        page.raw(" <small class=\"warn\">").text(&format!("{} failed", line.failures)).raw("</small>");
    }
    page.raw("</td><td>")
        .text(&wording::tokens(line, line.input))
        .raw("</td><td>")
        .text(&wording::tokens(line, line.output));
    page.raw("</td><td class=\"tools\">")
        .number(line.tool_calls)
        .raw("</td><td>")
        .text(&wording::money(line))
        .raw("</td></tr>");
}

fn tokens(line: &CostLine) -> u64 {
    line.input.saturating_add(line.output)
}
