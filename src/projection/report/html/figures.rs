//! The figures of a debate, drawn as SVG with numbers of our own; every figure is told in words as well.

use crate::projection::report::debate::{DebateReport, Phase, Rated, Stand};
use crate::projection::report::wording::{self, spaced};
use crate::protocol::event::ConvergenceProbed;

use super::markup::Markup;

/// Height of a cell; its middle is the rating 0.
const CELL: i64 = 84;
const MIDDLE: i64 = 38;
/// Height of one step of rating.
const STEP: i64 = 13;

/// Who stood where, phase by phase.
pub fn positions(page: &mut Markup, debate: &DebateReport) {
    let rated: Vec<_> = debate.rated().collect();
    if rated.is_empty() || debate.propositions.is_empty() {
        return;
    }
    page.raw("<section class=\"figure\" id=\"positions\"><h2>Positions</h2><p class=\"lead\">One bar for each proposition: upwards is for, downwards against; the wider, the more certain. A ring marks a change of side.</p>");
    page.raw(match rated.len() {
        ..=4 => "<div class=\"scroll\"><table class=\"map few\">",
        _ => "<div class=\"scroll\"><table class=\"map\">",
    });
    page.raw("<thead><tr><th scope=\"col\"><span class=\"gone\">persona</span></th>");
    for phase in &rated {
        page.raw("<th scope=\"col\">").line(&spaced(&phase.name));
        page.raw(if phase.sealed { " <small>sealed</small></th>" } else { "</th>" });
    }
    page.raw("</tr></thead><tbody>");
    for debater in &debate.debaters {
        page.raw("<tr><th scope=\"row\">").line(&debater.persona).raw("</th>");
        rated.iter().for_each(|phase| cell(page, debate, phase, &debater.persona));
        page.raw("</tr>");
    }
    page.raw("</tbody></table></div></section>\n");
}

fn cell(page: &mut Markup, debate: &DebateReport, phase: &Phase, persona: &str) {
    page.raw("<td><span class=\"phase\">").line(&spaced(&phase.name)).raw("</span>");
    let stand = phase.stand(persona).filter(|stand| !stand.ratings.is_empty());
    match stand {
        Some(stand) => bars(page, debate, phase, stand),
        None if debate.is_absent(persona, &phase.name) => {
            page.raw("<span class=\"absent\">absent</span>");
        }
        None => {
            page.raw("<span class=\"absent\">no rating</span>");
        }
    }
    page.raw("</td>");
}

fn bars(page: &mut Markup, debate: &DebateReport, phase: &Phase, stand: &Stand) {
    let count = i64::try_from(debate.propositions.len()).unwrap_or(0);
    let slot = match count {
        ..=2 => 32,
        3..=4 => 23,
        _ => 15,
    };
    let width = count * slot;
    page.raw("<svg role=\"img\" class=\"bars\" width=\"").number(width).raw("\" height=\"").number(CELL);
    page.raw("\" viewBox=\"0 0 ").number(width).raw(" ").number(CELL).raw("\" aria-label=\"");
    page.line(&in_words(stand)).raw("\"><line class=\"axis\" x1=\"0\" x2=\"").number(width);
    page.raw("\" y1=\"").number(MIDDLE).raw("\" y2=\"").number(MIDDLE).raw("\"/>");
    for (left, proposition) in (0i64..).zip(&debate.propositions) {
        let centre = left * slot + slot / 2;
        if let Some(rated) = stand.rating(proposition.number) {
            bar(page, rated, centre, slot);
            if debate.moved(&stand.persona, &phase.name, proposition.number) {
                let tip = MIDDLE - i64::from(rated.rating) * STEP - i64::from(rated.rating.signum()) * 7;
                page.raw("<circle class=\"ring\" r=\"3.5\" cx=\"")
                    .number(centre)
                    .raw("\" cy=\"")
                    .number(tip)
                    .raw("\"/>");
            }
        }
        page.raw("<text x=\"").number(centre).raw("\" y=\"").number(CELL - 2).raw("\">");
        page.number(i64::from(proposition.number) + 1).raw("</text>");
    }
    page.raw("</svg>");
}

/// As wide as its certainty: from a stroke to most of its slot.
fn bar(page: &mut Markup, rated: &Rated, centre: i64, slot: i64) {
    let width = 3 + i64::from(rated.confidence_pm.min(1_000)) * (slot - 6) / 1_000;
    let height = i64::from(rated.rating.unsigned_abs()) * STEP;
    let (class, top, height) = match rated.rating {
        1.. => ("<rect class=\"for\" x=\"", MIDDLE - height, height),
        0 => ("<rect class=\"zero\" x=\"", MIDDLE - 2, 4),
        _ => ("<rect class=\"against\" x=\"", MIDDLE, height),
    };
    page.raw(class).number(centre - width / 2).raw("\" y=\"").number(top).raw("\" width=\"").number(width);
    page.raw("\" height=\"")
        .number(height)
        .raw("\" rx=\"1.5\"><title>")
        .text(&rating_words(rated))
        .raw("</title></rect>");
}

fn rating_words(rated: &Rated) -> String {
    let (name, rating) = (wording::name(rated.proposition), wording::rating(rated.rating));
    format!("{name} {rating}, {} sure", wording::per_cent(rated.confidence_pm))
}

fn in_words(stand: &Stand) -> String {
    stand.ratings.iter().map(rating_words).collect::<Vec<_>>().join("; ")
}

/// Room for the curve: left, right, top and bottom edge, in units of the drawing.
const LEFT: i64 = 34;
const RIGHT: i64 = 430;
const TOP: i64 = 18;
const BOTTOM: i64 = 188;

/// What of a probe a line shows.
type Measure = fn(&ConvergenceProbed) -> Option<u32>;

/// How agreement grew or fell, phase by phase.
pub fn convergence(page: &mut Markup, debate: &DebateReport) {
    let probes = &debate.probes();
    let said: Vec<_> = probes
        .iter()
        .map(|(phase, probe)| format!("{}: {}", spaced(&phase.name), wording::measured(probe.score_pm)))
        .collect();
    page.raw("<svg role=\"img\" class=\"curve\" viewBox=\"0 0 520 230\" aria-label=\"Convergence. ")
        .line(&said.join("; "))
        .raw("\">");
    for level in [0u32, 250, 500, 750, 1_000] {
        let y = height(level);
        page.raw("<line class=\"grid\" x1=\"").number(LEFT).raw("\" x2=\"").number(RIGHT);
        page.raw("\" y1=\"").number(y).raw("\" y2=\"").number(y).raw("\"/>");
        if level % 500 == 0 {
            page.raw("<text class=\"tick\" x=\"")
                .number(LEFT - 8)
                .raw("\" y=\"")
                .number(y + 4)
                .raw("\">")
                .number(level / 10)
                .raw("</text>");
        }
    }
    let lines: [(&'static str, Measure); 3] = [
        ("<polyline class=\"movement\" points=\"", |probe| probe.movement_pm),
        ("<polyline class=\"polarisation\" points=\"", |probe| probe.polarisation_pm),
        ("<polyline class=\"score\" points=\"", |probe| probe.score_pm),
    ];
    for (open, of) in lines {
        // A phase in which nothing was measured is a gap, and no fall to nothing.
        let measured: Vec<(usize, Option<u32>)> =
            probes.iter().map(|(_, probe)| of(probe)).enumerate().collect();
        for run in measured.split(|(_, value)| value.is_none()).filter(|run| !run.is_empty()) {
            page.raw(open);
            for (index, value) in run {
                page.number(across(*index, probes.len()))
                    .raw(",")
                    .number(height(value.unwrap_or(0)))
                    .raw(" ");
            }
            page.raw("\"/>");
        }
    }
    points(page, probes);
    labels(page, probes);
    page.raw("</svg>");
}

fn points(page: &mut Markup, probes: &[(&Phase, &ConvergenceProbed)]) {
    for (index, (phase, probe)) in probes.iter().enumerate() {
        let x = across(index, probes.len());
        // Names of many phases would run into each other; the table below has them by number.
        match probes.len() {
            0..=4 => below(page, x, &spaced(&phase.name)),
            _ => below(page, x, &(index + 1).to_string()),
        }
        let Some(score_pm) = probe.score_pm else { continue };
        let y = height(score_pm);
        page.raw("<circle class=\"point\" r=\"3.5\" cx=\"").number(x).raw("\" cy=\"").number(y).raw("\"/>");
        // Values of many phases would run into each other; the table below has them all.
        if probes.len() <= 6 || index == 0 || index + 1 == probes.len() {
            page.raw("<text class=\"value\" x=\"").number(x).raw("\" y=\"").number(y - 9).raw("\">");
            page.text(&wording::per_cent(score_pm)).raw("</text>");
        }
    }
}

/// A name below the curve, its first word on a line of its own.
fn below(page: &mut Markup, x: i64, name: &str) {
    let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
    for (y, words) in [(BOTTOM + 20, first), (BOTTOM + 33, rest)] {
        page.raw("<text class=\"name\" x=\"").number(x).raw("\" y=\"").number(y).raw("\">");
        page.line(words).raw("</text>");
    }
}

/// The three lines are named at their ends, moved apart where they end close together.
fn labels(page: &mut Markup, probes: &[(&Phase, &ConvergenceProbed)]) {
    let last = |of: Measure| probes.iter().rev().find_map(|(_, probe)| of(probe));
    let ends = [
        (last(|probe| probe.score_pm), "<text class=\"end score\" x=\"440\" y=\"", "agreement"),
        (
            last(|probe| probe.polarisation_pm),
            "<text class=\"end polarisation\" x=\"440\" y=\"",
            "polarisation",
        ),
        (last(|probe| probe.movement_pm), "<text class=\"end movement\" x=\"440\" y=\"", "movement"),
    ];
    let mut ends: Vec<(i64, &'static str, &'static str)> =
        ends.into_iter().filter_map(|(value, open, name)| Some((height(value?), open, name))).collect();
    ends.sort_by_key(|end| end.0);
    for index in 1..ends.len() {
        ends[index].0 = ends[index].0.max(ends[index - 1].0 + 15);
    }
    let over = ends.last().map_or(0, |end| (end.0 - BOTTOM).max(0));
    for (y, open, name) in ends {
        page.raw(open).number(y - over + 4).raw("\">").raw(name).raw("</text>");
    }
}

fn across(index: usize, count: usize) -> i64 {
    let (index, count) = (i64::try_from(index).unwrap_or_default(), i64::try_from(count).unwrap_or(2));
    let margin = 30;
    LEFT + margin + index * (RIGHT - LEFT - 2 * margin) / (count - 1).max(1)
}

fn height(per_mille: u32) -> i64 {
    BOTTOM - i64::from(per_mille.min(1_000)) * (BOTTOM - TOP) / 1_000
}

/// Every rating in numbers: sealed, then last.
pub fn matrix(page: &mut Markup, debate: &DebateReport) {
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
        side(page, each.sealed_majority.unwrap_or_default(), wording::majority(each.sealed_majority));
        page.raw("</td>");
    }
    page.raw("</tr><tr><th scope=\"row\">verdict</th>");
    for each in &debate.propositions {
        page.raw("<td>");
        side(page, each.verdict.unwrap_or_default(), wording::upheld(each.verdict));
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
        Some(rated) => {
            rating(page, rated.rating, &wording::rating(rated.rating));
            page.raw("<small>").text(&wording::per_cent(rated.confidence_pm)).raw("</small>");
        }
        None => _ = page.raw("<span class=\"absent\">absent</span>"),
    }
}

/// A rating with its sign and the colour of its side.
pub fn rating(page: &mut Markup, side: i8, words: &str) {
    page.raw(match side {
        1.. => "<b class=\"rating for\">",
        0 => "<b class=\"rating\">",
        _ => "<b class=\"rating against\">",
    });
    page.text(words).raw("</b>");
}

/// A word with the colour and the sign of its side.
pub fn side(page: &mut Markup, side: i8, words: &str) {
    page.raw(match side {
        1.. => "<span class=\"side for\">",
        0 => "<span class=\"side\">",
        _ => "<span class=\"side against\">",
    });
    page.text(words).raw("</span>");
}
