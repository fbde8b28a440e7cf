//! The pictures of the documentation: drawn by the program out of recorded sessions, never by hand.
//! `AGON_WRITE_DOCS=1` writes them; without it they are held to what the program draws.

use std::fmt::Write as _;
use std::path::Path;

use agon::tui::{Msg, State, draw, update};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::KeyCode::Tab;
use ratatui::style::{Color, Modifier};

use super::made::{debate, demo, first, key, squad, state, typed};

/// Columns and rows of every picture.
const SIZE: (u16, u16) = (100, 30);

/// Width and height of a cell, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);

/// Ink and paper of the pictures: a dark terminal.
const INK: &str = "#d6d6d6";
const PAPER: &str = "#16181d";

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Red | Color::LightRed => "#e06c75",
        Color::Green | Color::LightGreen => "#98c379",
        Color::Yellow | Color::LightYellow => "#e5c07b",
        Color::Blue | Color::LightBlue => "#61afef",
        Color::Magenta | Color::LightMagenta => "#c678dd",
        Color::Cyan | Color::LightCyan => "#56b6c2",
        Color::DarkGray => "#7f848e",
        _ => INK,
    }
}

/// Ink, paper and weight of a cell.
fn look(cell: &Cell) -> (&'static str, &'static str, bool) {
    let (ink, bold) = (colour(cell.fg), cell.modifier.contains(Modifier::BOLD));
    match cell.modifier.contains(Modifier::REVERSED) {
        true => (PAPER, ink, bold),
        false => (ink, PAPER, bold),
    }
}

fn picture(buffer: &Buffer) -> String {
    let (columns, rows) = SIZE;
    let (width, height) = (f32::from(columns) * CELL.0 + 16.0, f32::from(rows) * CELL.1 + 16.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{PAPER}\"/>\n"
    );
    for y in 0..rows {
        let mut x = 0;
        while x < columns {
            let from = x;
            let style = look(&buffer[(x, y)]);
            let mut text = String::new();
            while x < columns && look(&buffer[(x, y)]) == style {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            run(&mut svg, (from, y, x - from), style, &text);
        }
    }
    svg + "</svg>\n"
}

fn run(svg: &mut String, (x, y, cells): (u16, u16, u16), (ink, paper, bold): (&str, &str, bool), text: &str) {
    let (left, top) = (f32::from(x) * CELL.0 + 8.0, f32::from(y) * CELL.1 + 8.0);
    let wide = f32::from(cells) * CELL.0;
    if paper != PAPER {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.0}\" width=\"{wide:.1}\" height=\"18\" fill=\"{paper}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let base = top + 14.0;
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{base:.0}\" textLength=\"{wide:.1}\" xml:space=\"preserve\" fill=\"{ink}\"{weight}>{text}</text>"
    );
}

fn hold(name: &str, state: &State) {
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let svg = picture(terminal.backend().buffer());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures").join(format!("{name}.svg"));
    if std::env::var_os("AGON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == svg, "{name}: AGON_WRITE_DOCS=1 draws it again");
}

#[test]
fn the_pictures_of_the_documentation_are_what_the_program_draws() {
    let demo = demo();
    hold("chat", &state(&demo, false));
    let asks: Vec<usize> = (0..demo.len())
        .filter(|at| demo[*at].events.iter().any(|event| event.kind() == "approval_requested"))
        .collect();
    hold("approval", &state(&demo[..=asks[1]], true));
    let mut past = state(&demo[..=first(&demo, "approval_requested")], true);
    let _ = update(&mut past, key(Tab));
    let _ = typed(&mut past, "[[[");
    hold("past", &past);
    hold("squad", &state(&squad(), true));
    let mut matrix = state(&debate(), true);
    let _ = update(&mut matrix, key(Tab));
    let _ = typed(&mut matrix, "m");
    hold("matrix", &matrix);
    let mut events = state(&demo, false);
    let _ = update(&mut events, super::made::ctrl('t'));
    let _ = update(&mut events, Msg::Tick(0));
    hold("events", &events);
}
