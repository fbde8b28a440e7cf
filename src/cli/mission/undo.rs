//! Turns of the session on the screen that are taken back.

use crate::cli::error::Failure;
use crate::host::{Undo, UndoWish, turn_line};
use crate::projection::turns::TurnRow;
use crate::tui::{Msg, TurnChoice};

use super::controller::{Done, Mission};
use super::{record, session_ops};

impl Mission {
    /// Takes turns back: in the session that runs here, or in the log of one that is only shown.
    pub(super) fn undo(&mut self, wish: UndoWish) -> Vec<Msg> {
        let Some(id) = self.id.clone() else { return Vec::new() };
        let host = self.front.host.clone();
        if self.live.is_some() {
            self.pending.push(Box::pin(async move {
                let undone = session_ops::apart(move || async move { Ok(host.undo(&id, wish).await?) }).await;
                undone.map_or_else(
                    |failure| Done::Failed(failure, None),
                    |undo| Done::News(vec![Msg::Log(on_one_line(&undo))]),
                )
            }));
            return Vec::new();
        }
        let kit = std::sync::Arc::clone(&self.kit);
        self.begin("undoing…", None, move || async move {
            let undo = host.undo(&id, wish).await?;
            Ok(Done::Copied(Box::new(record::look(&kit, &id)?), on_one_line(&undo)))
        })
    }

    /// Reads the turns while the screen goes on.
    pub(super) fn list_turns(&self) {
        let Some(id) = self.id.clone() else { return };
        let host = self.front.host.clone();
        self.pending.push(Box::pin(async move {
            let read = session_ops::apart(move || async move {
                let turns = host.turns_with_diffs(&id).await?;
                let choice = |(row, diff): (TurnRow, String)| TurnChoice {
                    number: row.number,
                    title: turn_line(&row),
                    diff,
                };
                Ok::<_, Failure>(turns.into_iter().map(choice).collect())
            });
            read.await.map_or_else(
                |failure| Done::Failed(failure, None),
                |turns| Done::News(vec![Msg::Turns(turns)]),
            )
        }));
    }
}

/// What was done, on one line.
fn on_one_line(undo: &Undo) -> String {
    let lines = undo.lines(true);
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" · ").replace(": · ", ": ")
}
