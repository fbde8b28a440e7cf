//! The tools that agon answers itself: known here by name and schema only, for no worker runs them.

use async_trait::async_trait;

use super::tool::spec;
use crate::ports::{Preparation, Sandbox, Tool};
use crate::protocol::effect::ToolCall;
use crate::protocol::inside::{BashStop, Inside, Question, Spawn, Todo};
use crate::protocol::spec::{Family, Risk, ToolSpec};

const TODO: &str = "Keeps the list of steps of a task that has several; the person sees it. Give the whole list each \
time, one step `doing`. Not for a task of one or two steps.";

const ASK_USER: &str = "Asks the person a question and waits for the answer, which may take long. Only for what you \
cannot find out yourself and must know to go on: a choice that is theirs, or a fact that only they have.";

const SPAWN: &str = "Gives a task to a subagent: another agent that looks around in the same workspace, changes \
nothing, and sees nothing of this conversation. Its answer is the result. Call it several times at once for tasks that \
do not depend on each other, such as searching large parts of a project; what you can do in a few calls do yourself.";

const BASH_STOP: &str = "Ends a command in the background and says what it printed last.";

/// One of them.
pub struct AnsweredInside(pub Inside);

#[async_trait]
impl Tool for AnsweredInside {
    fn spec(&self) -> ToolSpec {
        let name = self.0.name();
        let made = match self.0 {
            Inside::Spawn => spec::<Spawn>(name, SPAWN, Risk::Read),
            Inside::BashStop => spec::<BashStop>(name, BASH_STOP, Risk::Read),
            Inside::Todo => spec::<Todo>(name, TODO, Risk::Read),
            Inside::AskUser | Inside::Unknown(_) => spec::<Question>(name, ASK_USER, Risk::Read),
        };
        let family = match self.0 {
            Inside::Spawn => Family::Agents,
            Inside::BashStop => Family::Run,
            _ => Family::Plan,
        };
        ToolSpec { family: Some(family), inside: Some(self.0), ..made }
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        Err(format!("agon answers `{}` itself", self.0.name()))
    }
}
