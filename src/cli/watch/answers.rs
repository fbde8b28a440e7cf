//! What the person at the terminal answers: to an approval, to a question, and what they want kept.

use std::path::PathBuf;

use crate::cli::desk::{PERSON, Said, UNCLEAR};
use crate::cli::error::Failure;
use crate::cli::policy;
use crate::config::policy::RuleTable;
use crate::config::{Config, kept};
use crate::host::Handle;
use crate::projection::board::OpenApproval;
use crate::projection::safe_text::safe_line;
use crate::protocol::event::Plan;
use crate::protocol::{CallId, Choice, Command};
use crate::tui::{read_rule, rule_text};

use super::{Watch, event};

impl Watch {
    /// Takes the person's word, but only for the ask they were shown.
    pub(super) async fn hear(&mut self, said: Said, handle: &Handle) {
        let shown = self.asking.take();
        match (said, self.open_plan(handle)) {
            (Said::Words(text), _) => self.answer_question(text, handle).await,
            (Said::Rule, Some((tool, plan))) => {
                if let Some(desk) = &mut self.desk {
                    desk.ask_for_rule(&rule_text(&tool, &plan), self.output);
                    self.asking = shown;
                }
            }
            (said, _) => self.answer_approval(said, shown, handle).await,
        }
    }

    /// Hands an answer in, and keeps the rule that it grants if the person wants that.
    async fn answer_approval(&mut self, said: Said, shown: Option<CallId>, handle: &Handle) {
        let Some(ask) = self.open_ask(handle).filter(|ask| Some(ask.call) == shown) else { return };
        let (call, digest) = (ask.call, ask.digest.clone());
        let (choice, workspace) = match self.choice(said, handle) {
            Ok(answer) => answer,
            Err(words) => return self.output.tell(&words),
        };
        let granted = match (&choice, workspace) {
            (Choice::Rule(rule), Some(workspace)) => Some((rule.clone(), workspace)),
            _ => None,
        };
        let answer = Command::Answer { call, digest, choice, by: PERSON.to_owned() };
        if let Err(error) = handle.command(answer).await {
            return self.output.warn(&format!("the answer to {call} was not taken: {error}"));
        }
        if let (Some((rule, workspace)), Some(file)) = (granted, &self.rules_file) {
            match kept::keep(file, &rule, workspace.as_deref()) {
                Ok(number) => {
                    let about = safe_line(&policy::about(&RuleTable::of(&rule))).into_owned();
                    self.output
                        .say(&format!("kept as rule {number}, {about}: agon policy rm {number} removes it"));
                }
                Err(error) => self.output.warn(&Failure::from(error).text()),
            }
        }
    }

    /// Answers the question that the agent asks.
    async fn answer_question(&mut self, text: String, handle: &Handle) {
        if text.trim().is_empty() {
            return;
        }
        if let Err(error) = handle.command(handle.said(text, None, PERSON)).await {
            self.output.warn(&format!("the answer was not taken: {error}"));
        }
    }

    /// The answer in what was said, and for a rule that is kept its workspace, none for all.
    fn choice(&self, said: Said, handle: &Handle) -> Result<(Choice, Option<Option<PathBuf>>), String> {
        match said {
            Said::Answer(choice) => Ok((choice, None)),
            Said::Written(line) => Ok((self.rule(&line, handle)?, None)),
            Said::Keep { rule, everywhere } => {
                let workspace = (!everywhere).then(|| handle.workspace().to_owned());
                Ok((self.rule(&rule, handle)?, Some(workspace)))
            }
            Said::Words(_) | Said::Rule | Said::Unclear | Said::Gone => Err(UNCLEAR.to_owned()),
        }
    }

    /// The rule of a line; of an empty one that for the very call.
    fn rule(&self, line: &str, handle: &Handle) -> Result<Choice, String> {
        let (tool, plan) = self.open_plan(handle).ok_or_else(|| UNCLEAR.to_owned())?;
        let line = if line.is_empty() { rule_text(&tool, &plan) } else { line.to_owned() };
        let rule = read_rule(&line, PERSON, &plan).map_err(|why| format!("{why}\n"))?;
        Ok(Choice::Rule(Box::new(rule)))
    }

    /// What would be done by the call that is asked about, with its tool.
    fn open_plan(&self, handle: &Handle) -> Option<(String, Plan)> {
        let ask = self.open_ask(handle)?;
        Some((ask.tool.clone(), event(&self.entries, ask.prepared)?.plan()?.clone()))
    }

    /// Keeps rules there that a person wants kept.
    #[must_use]
    pub fn keeping(self, config: &Config) -> Self {
        Watch { rules_file: Some(config.places().kept_rules()), ..self }
    }

    /// The first approval that was shown here and still waits: what was answered meanwhile the host knows first.
    pub(super) fn open_ask(&self, handle: &Handle) -> Option<&OpenApproval> {
        let open = handle.asks();
        self.board.approvals.iter().find(|ask| open.iter().any(|one| one.call == ask.call))
    }
}
