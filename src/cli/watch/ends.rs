//! Why a turn ended without what was asked for, and what the person may try next; prints nothing.

use crate::cli::error::INTERRUPTED;
use crate::host::{self, Ending, Stage};
use crate::projection::phrases;
use crate::projection::report::{self, DebateReport, wording};
use crate::protocol::event::{ArenaEvent, ErrorKind, LimitKind, ModelFailed, ModelReply, TurnCause};
use crate::protocol::message::{Finish, Part};
use crate::protocol::spec::{Mode, Setting};
use crate::protocol::text::grouped;

use super::{Watch, exit_code};

/// Why an answer ended that the model itself did not refuse.
const FILTERED: &str = "the provider filtered the answer";

/// Bytes of thinking that are shown where nothing else came.
const MOST_THOUGHT: usize = 400;

impl Watch {
    /// What the last turn came to, if it was a debate.
    pub(super) fn debate(&self) -> Option<DebateReport> {
        if !matches!(self.board.mode, Some(Mode::Debate(_))) {
            return None;
        }
        report::Report::of(&self.entries).debates.pop()
    }

    /// What there is to read of a squad that came to no answer by itself.
    pub(super) fn standing(&self, ending: &Ending) -> Option<String> {
        let Ending::Sealed(Some(closed)) = ending else { return None };
        let by_itself =
            !matches!(closed.cause, TurnCause::Done | TurnCause::Interrupted | TurnCause::Stopped);
        (self.squad.is_squad && by_itself).then(|| {
            let cause = match (closed.cause, self.board.limit) {
                (TurnCause::Limit, Some((limit, used, max))) => phrases::limit_with_flag(limit, used, max),
                (cause, _) => phrases::turn_cause(cause).to_owned(),
            };
            self.squad.standing(&cause, &self.board.changed)
        })
    }

    /// The command that gives a session its next task.
    fn again(&self, id: &str) -> String {
        let verb = if self.squad.is_squad { "squad" } else { "run" };
        format!("agon {verb} --resume {id}{}", self.show.held)
    }

    /// How an interrupted session is gone on with.
    pub(super) fn go_on(&self, ending: &Ending, id: &str) -> Option<String> {
        let stage = host::stage_of_debate(&self.entries);
        let again = match stage {
            _ if self.board.has_open_turn() => format!("agon resume {id}{}", self.show.held),
            Some(Stage::Stopped(_)) => {
                format!("go on from where it was, in a copy: agon debate --resume {id}")
            }
            _ => format!("{} \"go on\"", self.again(id)),
        };
        (exit_code(ending, self.is_interrupted) == INTERRUPTED).then_some(again)
    }

    /// Why the turn ended without an answer, and what the person may try.
    pub(super) fn complaint(
        &self,
        ending: &Ending,
        debate: Option<&DebateReport>,
        id: &str,
    ) -> Option<(String, String)> {
        let Ending::Sealed(Some(closed)) = ending else { return None };
        if let Some(debate) = debate {
            return self.debate_complaint(debate, closed.cause, id);
        }
        let words = phrases::turn_cause(closed.cause).to_owned();
        let again = self.again(id);
        Some(match closed.cause {
            TurnCause::Done | TurnCause::Interrupted | TurnCause::Stopped | TurnCause::Unknown(_) => {
                return None;
            }
            TurnCause::ModelFailed => {
                let failed = self.last_failure();
                let hint = match failed.map(|failed| failed.kind) {
                    Some(ErrorKind::Auth) => {
                        format!("`agon keys list` shows your keys; then: {again} \"...\"")
                    }
                    Some(ErrorKind::Quota | ErrorKind::BadRequest) => {
                        format!("another model may answer: {again} -m PROVIDER/MODEL \"...\"")
                    }
                    _ => format!("continue later: {again} \"...\""),
                };
                (failed.map_or(words, |failed| failed.message.clone()), hint)
            }
            TurnCause::EmptyAnswer | TurnCause::Refused => (
                self.with_last_words(match self.last_answer() {
                    Some(answer) if answer.finish == Finish::Filtered => FILTERED.to_owned(),
                    Some(answer) if closed.cause == TurnCause::EmptyAnswer && answer.has_thought() => {
                        format!("the model thought and then said nothing{}", last_thought(answer))
                    }
                    _ => words,
                }),
                format!("another model may answer: {again} -m PROVIDER/MODEL \"...\""),
            ),
            TurnCause::BadAnswer => (
                self.misfit().map_or(words.clone(), |misfit| format!("{words}: {misfit}")),
                format!("its last answer is in the log: agon replay {id}"),
            ),
            TurnCause::Truncated => (
                self.with_last_words(words),
                "ask for less, or raise `max_output` of the model in the configuration".to_owned(),
            ),
            TurnCause::ContextFull => (
                match self.overflow() {
                    Some(said) => format!("the request does not fit: {said}"),
                    None if self.has_asked() => words,
                    None => self.too_large(),
                },
                format!(
                    "ask for less at once, use a model with a larger window (-m PROVIDER/MODEL), or set `context` in \
                     [models.\"{}\"] if it holds more",
                    self.board.model
                ),
            ),
            TurnCause::Loop => (words, format!("say it differently: {again} \"...\"")),
            TurnCause::Incomplete => (
                self.squad.lacks().map_or(words.clone(), |lacks| format!("{words}: {lacks}")),
                format!("agon replay {id} shows what they did; go on: {again} \"...\""),
            ),
            TurnCause::Limit => {
                let (words, hint) = self.limit_reached(words, &again);
                match self.last_answer() {
                    Some(answer) if answer.finish == Finish::Length => {
                        (self.with_last_words(format!("{words}; the last answer was cut to fit")), hint)
                    }
                    _ => (words, hint),
                }
            }
        })
    }

    fn limit_reached(&self, words: String, again: &str) -> (String, String) {
        let Some((limit, used, max)) = self.board.limit else {
            // A role's own limit is in no flag.
            let words = self.squad.lacks().map_or(words.clone(), |lacks| format!("{words}: {lacks}"));
            return (
                words,
                format!(
                    "raise `max_steps` of the role in its blueprint, or `limits.agent`; or go on: {again} \"go on\""
                ),
            );
        };
        let hint = match limit {
            LimitKind::Tokens | LimitKind::MicroUsd => {
                format!("{again} {} N \"go on\"", phrases::limit_flag(limit))
            }
            // These begin again with each turn.
            _ => format!("{again} \"go on\""),
        };
        (format!("{words}: {}", phrases::limit_with_flag(limit, used, max)), hint)
    }

    /// What of the last answer did not fit its schema, and the answer.
    fn misfit(&self) -> Option<String> {
        let mut events = self.entries.iter().rev().flat_map(|entry| entry.events.iter().rev());
        let (errors, call) = events.find_map(|event| match event {
            ArenaEvent::AnswerRejected(data) => Some((data.errors.join("; "), data.call)),
            _ => None,
        })?;
        // What is rejected was answered before.
        let answer = events.find_map(|event| match event {
            ArenaEvent::ModelAnswered(data) if data.call == call => Some(data.body.text()),
            _ => None,
        });
        Some(format!("{errors}\nthe answer was: {}", answer.unwrap_or_default().trim_end()))
    }

    /// Why the turn ended, with what the model said last: a refusal, or as much as came of an answer.
    fn with_last_words(&self, why: String) -> String {
        match self.last_answer().map(ModelReply::text).as_deref().map(str::trim) {
            None | Some("") => why,
            Some(text) => format!("{why}: {text}"),
        }
    }

    fn last_answer(&self) -> Option<&ModelReply> {
        self.entries.iter().rev().find_map(|entry| match entry.fact() {
            Some(ArenaEvent::ModelAnswered(answer)) if !entry.is_void() => Some(&answer.body),
            _ => None,
        })
    }

    /// What was asked next to what the model holds.
    fn too_large(&self) -> String {
        let events = || self.entries.iter().rev().flat_map(|entry| entry.events.iter().rev());
        let spec = |event: &ArenaEvent| match event {
            ArenaEvent::SessionOpened(data) => {
                data.spec.models.iter().find(|row| row.name == self.board.model).cloned()
            }
            event => event.changed().iter().find_map(|setting| match setting {
                Setting::Model { spec, .. } if spec.name == self.board.model => Some(spec.clone()),
                _ => None,
            }),
        };
        let asked = events().find_map(|event| match event {
            ArenaEvent::PromptGiven(data) => Some(grouped(data.text.len() as u64 * 3 / 10)),
            _ => None,
        });
        let holds = events().find_map(spec).map(|spec| grouped(spec.context));
        let (asked, holds) = (asked.unwrap_or_default(), holds.unwrap_or_default());
        format!(
            "what was asked is larger than the window of `{}`: about {asked} tokens next to persona, tools and an answer, \
             of {holds}",
            self.board.model
        )
    }

    /// True when a model was called since the last prompt.
    fn has_asked(&self) -> bool {
        let events = self.entries.iter().rev().flat_map(|entry| entry.events.iter().rev());
        let mut turn = events.take_while(|event| !matches!(event, ArenaEvent::PromptGiven(_)));
        turn.any(|event| matches!(event, ArenaEvent::ModelCalled(_)))
    }

    /// The provider's own words, where it refused the last request as too large.
    fn overflow(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| match entry.fact() {
            Some(ArenaEvent::ModelFailed(failed)) if !entry.is_void() => {
                let kinds = [ErrorKind::ContextOverflow, ErrorKind::OutputLimit];
                Some(kinds.contains(&failed.body.kind).then_some(failed.body.message.as_str()))
            }
            Some(ArenaEvent::ModelAnswered(_)) => Some(None),
            _ => None,
        })?
    }

    /// What the model call said that ended the turn.
    fn last_failure(&self) -> Option<&ModelFailed> {
        self.entries.iter().rev().find_map(|entry| match entry.fact() {
            Some(ArenaEvent::ModelFailed(failed)) if !entry.is_void() => Some(&failed.body),
            _ => None,
        })
    }

    /// Why a debate came to no verdict.
    fn debate_complaint(
        &self,
        debate: &DebateReport,
        cause: TurnCause,
        id: &str,
    ) -> Option<(String, String)> {
        let words = phrases::turn_cause(cause).to_owned();
        let why = |persona: &str| {
            let found = debate.absences.iter().rev().find(|absence| absence.persona == persona);
            found.map(|absence| absence.why.clone())
        };
        Some(match (cause, self.board.limit) {
            (TurnCause::Done | TurnCause::Interrupted | TurnCause::Stopped, _) => return None,
            (TurnCause::Limit, Some((limit, used, max))) if self.costs.total.calls == 0 => (
                format!("not one phase can be paid: {}", phrases::limit_with_flag(limit, used, max)),
                format!(
                    "allow more: agon debate --resume {id} {} N; or ask fewer: --personas ID,ID",
                    phrases::limit_flag(limit)
                ),
            ),
            (TurnCause::Limit, Some((limit, used, max))) => {
                let flag = phrases::limit_flag(limit);
                (
                    format!("{words}: {}", phrases::limit_with_flag(limit, used, max)),
                    format!("go on in a copy with more: agon debate --resume {id} {flag} N"),
                )
            }
            (TurnCause::Incomplete, _) if debate.verdict.as_ref().is_some_and(|ruled| !ruled.is_majority) => {
                (
                    format!("the verdict rests on fewer than half of the panel: {}", wording::heard(debate)),
                    format!("agon debates show {id} tells who was missing and why"),
                )
            }
            (TurnCause::Incomplete, _) if debate.verdict.is_some() || debate.undecided().is_some() => {
                let why = why(&debate.moderator).unwrap_or(words);
                let hint = format!(
                    "another model may give one: agon debate --with-model {}=PROVIDER/MODEL \"...\"",
                    debate.moderator
                );
                let lacks = wording::undecided(debate).map(|lacks| format!("; {lacks}")).unwrap_or_default();
                (format!("the moderator gave no verdict: {why}{lacks}"), hint)
            }
            _ => {
                let first = debate.absences.first().map(|absence| absence.why.clone());
                let words = format!("fewer than two could be heard: {}", first.unwrap_or(words));
                (words, "another model may answer: agon debate -m PROVIDER/MODEL \"...\"".to_owned())
            }
        })
    }
}

/// How its thinking ends: where a server takes the answer for thinking, it holds the answer.
fn last_thought(answer: &ModelReply) -> String {
    let thought = answer.message.iter().rev().find_map(|part| match part {
        Part::Reasoning { text, .. } => Some(text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let Some(thought) = thought else { return String::new() };
    let tail = &thought[thought.ceil_char_boundary(thought.len().saturating_sub(MOST_THOUGHT))..];
    let cut = if tail.len() < thought.len() { "…" } else { "" };
    format!("; its thinking ends: {cut}{tail}")
}
