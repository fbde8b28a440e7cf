//! One event exactly as agon made it; a request is put together from its references, word for word.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::projection::phrases;
use crate::protocol::event::{ArenaEvent, Class, ModelCalled};
use crate::protocol::expand::expand;
use crate::protocol::message::{Args, Part, Role};
use crate::protocol::{EventRef, Request};
use crate::tui::diff;
use crate::tui::highlight::Painter;
use crate::tui::state::State;
use crate::tui::text::{Wrap, bare, clean_line};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Lines that are made at most: nobody reads further, and a log may hold anything.
const MOST: usize = 20_000;

pub(super) fn draw(
    state: &State,
    scene: &ViewModel<'_>,
    (at, scroll): (EventRef, usize),
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let Some(event) = scene.event(at) else { return };
    let class = match event.class() {
        Class::Fact => "fact",
        Class::Decision => "decision",
        Class::Unknown => "of a newer agon",
    };
    let title = format!("{at} · {} · {class}", clean_line(event.kind()));
    let foot = match area.width {
        0..90 => "↑↓ · [ ] before, after · 1-9 a cause · t goes there · Esc",
        _ => "↑↓ scroll · [ ] event before, after · 1-9 opens a cause · t goes to this moment · Esc closes",
    };
    let inner = super::sheet(scene, frame, area, &title, foot);
    let mut page = Page { scene, wide: usize::from(inner.width), out: Vec::new() };
    page.event(at, event);
    page.out.truncate(MOST);
    super::scrolled(state, frame, inner, page.out, scroll);
}

struct Page<'a> {
    scene: &'a ViewModel<'a>,
    wide: usize,
    out: Vec<Line<'static>>,
}

impl Page<'_> {
    fn event(&mut self, at: EventRef, event: &ArenaEvent) {
        let entry = self.scene.record.entry(at.seq);
        if let Some(entry) = entry {
            let when = format!("{} {} UTC", phrases::day(entry.at), phrases::time_of_day(entry.at));
            self.line(Tone::Quiet, &when);
        }
        for (nth, cause) in (1..).zip(self.scene.record.reasons(at.seq).direct(at)) {
            let kind = self.scene.event(cause.from).map_or("", ArenaEvent::kind).to_owned();
            let link = phrases::link(cause.link);
            self.line(
                Tone::Quiet,
                &format!("[{nth}] because of {} {} ({link})", cause.from, clean_line(&kind)),
            );
        }
        self.gap();
        if let ArenaEvent::ModelCalled(called) = event {
            self.request(called);
        }
        self.line(Tone::Accent, "as recorded");
        let json = serde_json::to_string_pretty(&event.data()).unwrap_or_default();
        self.code("json", &json);
    }

    /// The request of a model call, put together as it was sent.
    fn request(&mut self, called: &ModelCalled) {
        let scene = self.scene;
        let lookup = |at: EventRef| scene.event(at);
        match expand(called, &lookup) {
            Ok(request) => {
                let same = request.digest() == called.digest;
                let word = if same {
                    "its digest is the recorded one"
                } else {
                    "ITS DIGEST DIFFERS FROM THE RECORDED ONE"
                };
                self.line(if same { Tone::Good } else { Tone::Bad }, &format!("the request, whole; {word}"));
                self.gap();
                self.messages(&request);
            }
            Err(error) => self.line(Tone::Bad, &error.to_string()),
        }
    }

    fn messages(&mut self, request: &Request) {
        for message in &request.messages {
            let role = match message.role {
                Role::System => "system",
                Role::User | Role::Unknown(_) => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            self.line(Tone::Accent, &format!("{role}  from {}", message.from));
            message.parts.iter().for_each(|part| self.part(part));
            self.gap();
        }
        for tool in &request.tools {
            self.line(Tone::Accent, &format!("tool  {}", clean_line(&tool.name)));
            self.text(&tool.description);
        }
        self.gap();
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text { text } => self.text(text),
            Part::Reasoning { text, .. } => {
                self.line(Tone::Quiet, "(thinking)");
                self.text(text);
            }
            Part::Call { name, args, .. } => {
                self.line(Tone::Code, &format!("→ {}", clean_line(name)));
                match args {
                    Args::Json(value) => {
                        self.code("json", &serde_json::to_string_pretty(value).unwrap_or_default())
                    }
                    Args::Broken(_) | Args::Unknown(_) => self.text(&args.text()),
                }
            }
            Part::Result { name, content, is_error, .. } => {
                let state = if *is_error { "failed" } else { "ok" };
                self.line(Tone::Code, &format!("← {} {state}", clean_line(name)));
                self.text(content);
            }
            Part::Image(image) => self.line(Tone::Quiet, &clean_line(&image.shown_as_words())),
            Part::Opaque(opaque) => {
                self.line(Tone::Quiet, &format!("(opaque, for {})", clean_line(&opaque.provider)));
            }
            Part::Unknown(_) => self.line(Tone::Quiet, phrases::NEWER),
        }
    }

    fn line(&mut self, tone: Tone, text: &str) {
        Wrap::to(self.wide).line(&[(self.scene.style(tone), text)], &mut self.out);
    }

    fn gap(&mut self) {
        self.out.push(Line::default());
    }

    fn text(&mut self, text: &str) {
        self.code("text", text);
    }

    fn code(&mut self, language: &str, text: &str) {
        if self.out.len() > MOST {
            return;
        }
        let wrap = Wrap::to(self.wide).barred(diff::prefix(self.scene.theme, Tone::Quiet, "  "));
        // What people read breaks between words, what programs read wherever the line is full.
        let wrap = if language == "text" { wrap } else { wrap.anywhere() };
        diff::code(Painter::of(self.scene.theme, language), false, &bare(text), &wrap, &mut self.out);
    }
}
