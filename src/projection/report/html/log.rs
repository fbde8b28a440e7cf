//! The cited entries at the foot of a page, so that every claim leads to what was really said or run.

use crate::projection::report::{Excerpt, wording};

use super::markup::Markup;

/// The excerpts, each under its own anchor.
pub fn section(page: &mut Markup, excerpts: &[Excerpt]) {
    if excerpts.is_empty() {
        return;
    }
    page.raw("<section class=\"log\" id=\"log\"><h2>From the log</h2><p class=\"lead\">The events this page cites, as they were recorded; long ones shortened in the middle, typed answers laid out in lines.</p><ol>");
    for excerpt in excerpts {
        page.raw("<li id=\"").text(&excerpt.at.to_string()).raw("\"><h3><span class=\"ref\">");
        page.text(&excerpt.at.to_string()).raw("</span> ");
        if let Some(who) = &excerpt.who {
            page.raw("<strong>").line(who).raw("</strong> ");
        }
        page.raw("<span class=\"kind\">").line(&excerpt.kind).raw("</span> ");
        if let Some(title) = &excerpt.title {
            page.raw("<code>").line(title).raw("</code> ");
        }
        page.raw("<time>").text(&wording::when(excerpt.time)).raw("</time></h3>");
        if let Some(letters) = &excerpt.letters {
            page.raw("<p class=\"letters\">").line(letters).raw("</p>");
        }
        page.raw("<pre>");
        page.text(excerpt.text.trim_end()).raw("</pre></li>\n");
    }
    page.raw("</ol></section>\n");
}
