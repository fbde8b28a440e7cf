//! Tools that agon itself answers, without a worker: what they are called with, and what their results say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, ToolAnswered};
use crate::protocol::expand::Lookup;
use crate::protocol::message::{Args, Part};
use crate::protocol::spec::PermissionLevel;
use crate::protocol::stored::stored;
use crate::protocol::subagent::account;

/// Most points of a list, and most choices of a question.
const MOST: usize = 50;

/// Most bytes of a text in one of them.
const LONGEST: usize = 4_000;

/// Most bytes of a subagent's task.
const LONGEST_TASK: usize = 64 * 1024;

/// Most characters of a subagent's name.
const LONGEST_NAME: usize = 24;

stored! {
    /// What a tool that agon answers itself does.
    #[derive(Copy, Eq)]
    pub enum Inside of Word {
        /// Keeps a list of what is to be done.
        Todo,
        /// Asks the person.
        AskUser,
        /// Gives a task to a subagent.
        Spawn,
        /// Ends a command in the background.
        BashStop,
    }
}

/// The list of what is to be done: the arguments of `todo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The whole list, in order; it replaces the one before.
    pub items: Vec<TodoItem>,
}

/// A point of such a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: TodoState,
}

stored! {
    /// How far a point is.
    #[derive(Copy, Eq)]
    pub enum TodoState of Word {
        /// Not begun.
        Open,
        /// Under way.
        Doing,
        /// Done.
        Done,
    }
}

/// A question to the person: the arguments of `ask_user`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question, with all that is needed to answer it.
    pub question: String,
    /// Answers to choose from; the person may give another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// The arguments of `bash_stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashStop {
    /// The number that `bash` gave.
    pub id: u64,
}

/// A task for a subagent: the arguments of `spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// The whole task: the subagent sees nothing of this conversation.
    pub task: String,
    /// A short name under which the person sees it, such as `tests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its persona; yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Its model, `PROVIDER/MODEL`; its persona's or yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools of yours that it gets: names, families and patterns; all that only look when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its permission level, no higher than yours; yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionLevel>,
    /// Model calls it may make at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// JSON Schema that its answer must fit; words when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// A call that agon answers itself, by its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsideCall {
    /// Of `todo`.
    Todo(Todo),
    /// Of `ask_user`.
    AskUser(Question),
    /// Of `spawn`.
    Spawn(Box<Spawn>),
    /// Of `bash_stop`.
    BashStop(BashStop),
}

impl Inside {
    /// Those that this program knows.
    pub const ALL: [Inside; 4] = [Inside::Todo, Inside::AskUser, Inside::Spawn, Inside::BashStop];

    /// The name of the built-in tool.
    pub fn name(self) -> &'static str {
        match self {
            Inside::Todo => "todo",
            Inside::AskUser => "ask_user",
            Inside::Spawn => "spawn",
            Inside::BashStop => "bash_stop",
            Inside::Unknown(word) => word.text(),
        }
    }

    /// What a call asks for; the error's words are for the model.
    pub fn read(self, args: &Args) -> Result<InsideCall, String> {
        let Args::Json(args) = args else { return Err("the arguments are not JSON".to_owned()) };
        let misfit = |error: serde_json::Error| format!("the arguments do not fit: {error}");
        let call = match self {
            Inside::Todo => Todo::deserialize(args).map(InsideCall::Todo).map_err(misfit)?,
            Inside::AskUser => Question::deserialize(args).map(InsideCall::AskUser).map_err(misfit)?,
            Inside::Spawn => Spawn::deserialize(args).map(Box::new).map(InsideCall::Spawn).map_err(misfit)?,
            Inside::BashStop => BashStop::deserialize(args).map(InsideCall::BashStop).map_err(misfit)?,
            Inside::Unknown(_) => return Err("this agon does not know the tool".to_owned()),
        };
        call.check().map(|()| call)
    }
}

impl InsideCall {
    /// A recorded call of a built-in tool, by its name; none for any other.
    pub fn named(tool: &str, args: &Args) -> Option<Self> {
        Inside::ALL.into_iter().find(|inside| inside.name() == tool)?.read(args).ok()
    }

    fn check(&self) -> Result<(), String> {
        let texts: Vec<&str> = match self {
            InsideCall::Spawn(spawn) => return spawn.check(),
            InsideCall::BashStop(_) => return Ok(()),
            InsideCall::Todo(list) => list.items.iter().map(|item| item.text.as_str()).collect(),
            InsideCall::AskUser(asked) => {
                std::iter::once(&asked.question).chain(&asked.choices).map(String::as_str).collect()
            }
        };
        match texts.iter().find(|text| text.trim().is_empty() || text.len() > LONGEST) {
            Some(_) => Err(format!("each text must have 1 to {LONGEST} bytes")),
            None if texts.len() > MOST => Err(format!("at most {MOST} entries are kept")),
            None => Ok(()),
        }
    }
}

impl Todo {
    /// How many points are done.
    pub fn done(&self) -> usize {
        self.items.iter().filter(|item| item.state == TodoState::Done).count()
    }

    /// The point under way, else the first that is not done.
    pub fn next(&self) -> Option<&TodoItem> {
        let doing = self.items.iter().find(|item| item.state == TodoState::Doing);
        doing.or_else(|| self.items.iter().find(|item| item.state == TodoState::Open))
    }

    /// On one line: `2 of 5 done; next: …`.
    pub fn words(&self) -> String {
        let next = self.next().map(|item| format!("; next: {}", item.text)).unwrap_or_default();
        format!("{} of {} done{next}", self.done(), self.items.len())
    }

    /// A line for each point.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.items.iter().map(|item| {
            let mark = match item.state {
                TodoState::Open | TodoState::Unknown(_) => ' ',
                TodoState::Doing => '>',
                TodoState::Done => 'x',
            };
            format!("[{mark}] {}", item.text)
        })
    }
}

impl Question {
    /// The answer that a person's words stand for: the choice of that number, else the words themselves.
    pub fn answer<'a>(&'a self, words: &'a str) -> &'a str {
        let number = words.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        number.and_then(|n| self.choices.get(n)).map_or(words.trim(), String::as_str)
    }

    /// The question, then a numbered line for each choice.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let choices = (1..).zip(&self.choices).map(|(n, choice)| format!("  {n}  {choice}"));
        self.question.lines().map(str::to_owned).chain(choices)
    }
}

impl Spawn {
    fn check(&self) -> Result<(), String> {
        if self.task.trim().is_empty() || self.task.len() > LONGEST_TASK {
            return Err(format!("the task must have 1 to {LONGEST_TASK} bytes"));
        }
        if self.max_steps == Some(0) {
            return Err("`max_steps` must be at least 1".to_owned());
        }
        Ok(())
    }

    /// Its name as a part of what the person sees: letters, digits and dashes.
    pub fn short_name(&self) -> Option<String> {
        let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = self.name.as_deref()?.trim().chars().take(LONGEST_NAME).map(plain).collect();
        Some(name.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
    }

    /// Where the task is in the answer that holds this part.
    pub fn pointer(part: u16) -> String {
        format!("/body/message/{part}/call/args/json/task")
    }
}

/// What the result of such a call says.
pub fn words(answered: &ToolAnswered, lookup: Lookup<'_>) -> Option<String> {
    let answer = lookup(answered.from)?;
    match answer {
        ArenaEvent::QuestionAnswered(data) => Some(data.text.clone()),
        ArenaEvent::SparkCompleted(data) => Some(account(data, lookup)),
        ArenaEvent::BackgroundEnded(data) => Some(data.body.words()),
        ArenaEvent::ModelAnswered(_) => {
            match call_of(answered.tool_use.answer, answered.tool_use.part, lookup)? {
                InsideCall::Todo(list) => Some(list.words()),
                InsideCall::AskUser(_) | InsideCall::Spawn(_) | InsideCall::BashStop(_) => None,
            }
        }
        _ => None,
    }
}

/// The call in this part of an answer.
pub fn call_of(answer: EventRef, part: u16, lookup: Lookup<'_>) -> Option<InsideCall> {
    let ArenaEvent::ModelAnswered(answer) = lookup(answer)? else { return None };
    match answer.body.message.get(usize::from(part))? {
        Part::Call { name, args, .. } => InsideCall::named(name, args),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_chooses_and_anything_else_is_the_answer_itself() {
        let asked = Question { question: "which?".into(), choices: vec!["tabs".into(), "spaces".into()] };
        assert_eq!(asked.answer("2"), "spaces");
        for words in ["3", "0", "tabs, please"] {
            assert_eq!(asked.answer(words), words);
        }
    }
}
