//! Keys and pastes that come while something else lies on the screen than they were meant for.

use agon::host::{Consented, UndoWish};
use agon::protocol::Choice;
use agon::tui::{Act, ModelRow, Msg, SessionRow, State, TurnChoice, update};
use ratatui::crossterm::event::KeyCode::{Char, Down, End, Enter, Esc, Home, Left, Right, Tab};

use super::keys::{answers, asked, ruled};
use super::made::{ctrl, debate, demo, key, shown, state, typed};

fn row(id: &str) -> SessionRow {
    SessionRow { id: id.to_owned(), prompt: format!("task of {id}"), ..SessionRow::default() }
}

#[test]
fn what_was_offered_is_not_put_elsewhere_once_the_cursor_has_gone() {
    for away in [key(Home), key(End), ctrl('a'), ctrl('b')] {
        let mut state = state(&demo(), true);
        let _ = update(&mut state, Msg::Files(vec!["src/main.rs".to_owned()]));
        let _ = typed(&mut state, " and the rest");
        let _ = update(&mut state, key(Home));
        let _ = typed(&mut state, "look at @ma");
        let _ = update(&mut state, away);
        let _ = update(&mut state, key(Tab));
        let screen = shown(&state, 80, 24);
        assert!(screen.contains("❯ look at @ma and the rest"), "{screen}");
    }
}

#[test]
fn a_pasted_text_goes_where_somebody_writes() {
    let paste = |state: &mut State, text: &str| drop(update(state, Msg::Paste(text.to_owned())));
    let mut denied = asked();
    let _ = typed(&mut denied, "nno: ");
    paste(&mut denied, "use\nthe other");
    let acts = update(&mut denied, key(Enter));
    assert_eq!(answers(&acts), [&Choice::Deny("no: use the other".to_owned())]);
    let mut ruled_by = asked();
    let _ = typed(&mut ruled_by, "r");
    paste(&mut ruled_by, " -v");
    assert_eq!(ruled(&ruled_by), "bash: sh check.sh -v");

    let mut state = state(&demo(), true);
    let row =
        |id: &str| SessionRow { id: id.to_owned(), prompt: format!("task of {id}"), ..SessionRow::default() };
    let _ = update(&mut state, ctrl('o'));
    let _ = update(&mut state, Msg::Sessions(vec![row("one"), row("two")]));
    let _ = update(&mut state, key(Down));
    paste(&mut state, "one");
    assert_eq!(update(&mut state, ctrl('r')), []);
    paste(&mut state, "a name");
    assert_eq!(update(&mut state, key(Enter)), [Act::Rename { id: "one".into(), name: "a name".into() }]);
}

#[test]
fn the_list_of_sessions_has_a_chosen_row_after_the_last_one_was_removed() {
    let mut state = state(&demo(), true);
    let _ = update(&mut state, ctrl('o'));
    let _ = update(&mut state, Msg::Sessions(vec![row("one"), row("two")]));
    let _ = update(&mut state, key(Down));
    let _ = update(&mut state, ctrl('x'));
    assert_eq!(update(&mut state, key(Enter)), [Act::Remove("two".to_owned())]);
    let _ = update(&mut state, Msg::Sessions(vec![row("one")]));
    assert!(shown(&state, 80, 24).contains("▸"), "{}", shown(&state, 80, 24));
    assert_eq!(update(&mut state, key(Enter)), [Act::Open("one".to_owned())]);
}

#[test]
fn a_model_is_picked_from_the_list_by_words_of_its_name() {
    let mut state = state(&demo(), true);
    let _ = typed(&mut state, "/model");
    let _ = update(&mut state, key(Esc));
    assert_eq!(update(&mut state, key(Enter)), [Act::Models]);
    assert!(shown(&state, 80, 24).contains("asking your providers…"));
    let row = |name: &str| ModelRow { name: name.to_owned(), about: "8,192 tokens".to_owned() };
    let mut rows: Vec<ModelRow> = (0..10_000).map(|n| row(&format!("router/model-{n}"))).collect();
    rows.push(row("openai/gpt-9\u{1b}[31m"));
    let _ = update(&mut state, Msg::Models(rows));
    let _ = typed(&mut state, "router 77");
    let _ = update(&mut state, key(Down));
    assert!(shown(&state, 80, 24).contains("▸ router/model-177  8,192 tokens"), "{}", shown(&state, 80, 24));
    let _ = update(&mut state, key(Esc));
    let _ = typed(&mut state, "nothing like it");
    assert_eq!(update(&mut state, key(Enter)), [], "nothing is chosen where nothing fits");
    let _ = update(&mut state, ctrl('u'));
    let _ = update(&mut state, Msg::Paste("GPT-9".to_owned()));
    assert!(!shown(&state, 80, 24).contains('\u{1b}'));
    assert_eq!(update(&mut state, key(Enter)), [Act::Model("openai/gpt-9\u{1b}[31m".to_owned())]);
    assert!(!shown(&state, 80, 24).contains("search:"));
}

#[test]
fn a_turn_is_chosen_by_its_diff_and_taken_back_as_a_whole_or_in_part() {
    for (last, files, talk) in
        [(key(Enter), true, true), (key(Char('f')), true, false), (key(Char('w')), false, true)]
    {
        let mut state = state(&demo(), true);
        let _ = typed(&mut state, "/rewind");
        let _ = update(&mut state, key(Esc));
        assert_eq!(update(&mut state, key(Enter)), [Act::Turns]);
        assert!(shown(&state, 80, 24).contains("reading the turns…"));
        let turn = |number: u32| {
            let diff = format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new {number}\u{1b}[31m\n");
            TurnChoice { number, title: format!("turn {number}: \u{1b}[31mwork"), diff }
        };
        let _ = update(&mut state, Msg::Turns(vec![turn(2), turn(1)]));
        let _ = update(&mut state, key(Down));
        let screen = shown(&state, 80, 24);
        assert!(
            screen.contains("▸ turn 1") && screen.contains("+new 1") && !screen.contains('\u{1b}'),
            "{screen}"
        );
        let wish = UndoWish { turn: Some(1), files, talk, ..UndoWish::default() };
        assert_eq!(update(&mut state, last), [Act::Undo(wish)]);
        let _ = typed(&mut state, "/undo --force ");
        assert_eq!(
            update(&mut state, key(Enter)),
            [Act::Undo(UndoWish { force: true, ..UndoWish::default() })]
        );
    }
}

#[test]
fn whoever_leaves_the_question_about_the_sandbox_has_said_no() {
    for away in [key(Esc), ctrl('c')] {
        let mut state = state(&demo(), true);
        let _ = update(&mut state, Msg::Asked(agon::tui::Question::default()));
        assert_eq!(update(&mut state, away), [Act::Consent(Consented::No)]);
    }
}

#[test]
fn a_question_that_is_not_all_on_the_screen_is_not_answered_with_yes() {
    let mut state = state(&demo(), true);
    let points = (0..40).map(|nth| format!("point {nth}.")).collect();
    let (title, question) = ("It is \u{202e}here".to_owned(), "Work there?".to_owned());
    let asked = agon::tui::Question { title, points, question, ..Default::default() };
    let _ = update(&mut state, Msg::Asked(asked));
    let screen = shown(&state, 80, 24);
    assert!(screen.contains("It is <U+202E>here") && screen.contains("the window is too small"), "{screen}");
    assert!(screen.contains("Work there? Write yes or no"), "{screen}");
    let _ = typed(&mut state, "yes");
    assert_eq!(update(&mut state, key(Enter)), []);
    let screen = shown(&state, 80, 60);
    assert!(screen.contains("point 39.") && !screen.contains("too small"), "{screen}");
    let _ = typed(&mut state, "yes");
    assert_eq!(update(&mut state, key(Enter)), [Act::Consent(Consented::Yes)]);
}

#[test]
fn the_matrix_comes_back_with_the_first_key_however_far_somebody_went() {
    let mut state = state(&debate(), true);
    let _ = typed(&mut state, "/matrix\n");
    let _ = update(&mut state, key(Enter));
    let newest = shown(&state, 60, 24);
    for _ in 0..9 {
        let _ = update(&mut state, key(Left));
        let _ = shown(&state, 60, 24);
    }
    let oldest = shown(&state, 60, 24);
    assert_ne!(oldest, newest);
    let _ = update(&mut state, key(Right));
    assert_ne!(shown(&state, 60, 24), oldest);
}
