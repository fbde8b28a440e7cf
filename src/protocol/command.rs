//! What people and programs ask of an arena, in the imperative; knows nothing of how it is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::event::{
    ApprovalAnswered, InterruptRequested, PromptGiven, QuestionAnswered, SettingsChanged, SteeringGiven,
    StopRequested, TurnRewound,
};
use crate::protocol::spec::{Mode, Setting};
use crate::protocol::stored::stored;
use crate::protocol::{ArenaEvent, CallId, SparkId};

/// A wish from outside. The edge stamps it into a fact; the session may refuse it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Gives the next task.
    Prompt {
        /// The task.
        text: String,
        /// Who works on it.
        mode: Mode,
        /// JSON Schema the final answer must fit.
        schema: Option<Value>,
    },
    /// Says something to a spark at work; delivered between its calls.
    Steer {
        /// The spark, or the one that talks with the person when absent.
        spark: Option<SparkId>,
        /// What is said.
        text: String,
    },
    /// Stops a spark, or all of the turn.
    Interrupt {
        /// The spark, or every one when absent.
        spark: Option<SparkId>,
    },
    /// Stops a command in the background.
    StopBackground {
        /// Its call.
        call: CallId,
    },
    /// Answers an open approval.
    Answer {
        /// The ask's call.
        call: CallId,
        /// The digest the answer is for; a different one is refused.
        digest: String,
        /// The answer.
        choice: Choice,
        /// Who answered, for the audit: a user's name or `--yes`.
        by: String,
    },
    /// Answers an open question of a spark.
    Reply {
        /// The question's call.
        call: CallId,
        /// The answer.
        text: String,
        /// Who answered.
        by: String,
    },
    /// Changes settings from the next call on.
    Set {
        /// The new values, whole.
        settings: Vec<Setting>,
    },
    /// Records that turns are taken back; the files are changed by the caller.
    Rewind(TurnRewound),
    /// Ends the session.
    Stop {
        /// Why.
        cause: StopCause,
    },
}

impl From<Command> for ArenaEvent {
    /// The fact that it becomes once stamped.
    fn from(command: Command) -> Self {
        match command {
            Command::Prompt { text, mode, schema } => {
                ArenaEvent::PromptGiven(PromptGiven { text, mode, changed: Vec::new(), schema, by: None })
            }
            Command::Steer { spark, text } => ArenaEvent::SteeringGiven(SteeringGiven { spark, text }),
            Command::Interrupt { spark } => {
                ArenaEvent::InterruptRequested(InterruptRequested { spark, call: None })
            }
            Command::StopBackground { call } => {
                ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: Some(call) })
            }
            Command::Answer { call, digest, choice, by } => {
                ArenaEvent::ApprovalAnswered(ApprovalAnswered { call, digest, choice, by })
            }
            Command::Reply { call, text, by } => {
                ArenaEvent::QuestionAnswered(QuestionAnswered { call, text, by })
            }
            Command::Set { settings } => ArenaEvent::SettingsChanged(SettingsChanged { changed: settings }),
            Command::Rewind(rewound) => ArenaEvent::TurnRewound(rewound),
            Command::Stop { cause } => ArenaEvent::StopRequested(StopRequested { cause }),
        }
    }
}

stored! {
    /// The answer to an approval.
    #[derive(Eq)]
    pub enum Choice of Foreign {
        /// This call only.
        Once,
        /// Calls of the same tool and the same command or paths, for the rest of the session.
        Session,
        /// Everything the rule matches, for the rest of the session.
        Rule(Box<crate::protocol::spec::Rule>),
        /// Not this call; the words are told to the model.
        Deny(String),
    }
}

stored! {
    /// Why a session is stopped.
    #[derive(Copy, Eq)]
    pub enum StopCause of Word {
        /// The work is done.
        Finished,
        /// A person or a signal interrupted it.
        Interrupted,
        /// The person left.
        Quit,
    }
}
