//! What the screen asks for, one act at a time: done at once, or begun.

use std::sync::Arc;

use crate::cli::desk::PERSON;
use crate::cli::error::Failure;
use crate::config::{ConfigError, ModelName, kept};
use crate::host;
use crate::protocol::{Choice, Command, SparkId};
use crate::tui::{Act, ModeRequest, Msg};

use super::controller::{Done, Mission};
use super::line_mode::{demo_kind, sandbox};
use super::mode_request::{self, Company};
use super::session_ops;
use super::session_options::SessionOptions;
use super::text::in_words;

/// Earlier tasks that can be recalled.
const TASKS: usize = 200;

/// What a person wrote for agents to do.
struct Task<'a> {
    text: String,
    wish: &'a ModeRequest,
    /// All that was written, given back when it is refused.
    written: String,
    /// True when it was meant for the turn under way.
    steers: bool,
    to: Option<SparkId>,
}

impl Mission {
    /// Gives a task: to what runs, to what is shown, or to a new session. What was meant for a turn that has ended
    /// meanwhile is a task of its own.
    fn prompt(&mut self, task: Task<'_>) -> Result<Vec<Msg>, Failure> {
        let Task { text, wish, written, steers, to } = task;
        let company = Company::of(wish, &self.kit.config)?;
        let words = steers.then(|| text.clone());
        let first = session_ops::task(text, &company)?;
        let kit = Arc::clone(&self.kit);
        let found = self.found.as_ref().and_then(|found| found.as_ref().ok()).map(|(name, _)| name.clone());
        if let Some(live) = &self.live {
            let handle = live.handle().clone();
            self.pending.push(Box::pin(async move {
                if let Some(words) = words
                    && handle.command(handle.said(words, to, PERSON)).await.is_ok()
                {
                    return Done::News(Vec::new());
                }
                let given = session_ops::give(&kit, &handle, (&company, found), first).await;
                given.map_or_else(|failure| Done::Failed(failure, Some(written)), |()| Done::News(Vec::new()))
            }));
            return Ok(Vec::new());
        }
        let (id, front) = (self.id.clone(), self.front.clone());
        Ok(self.begin("opening…", Some(written), move || async move {
            let opened = match id {
                Some(id) => session_ops::resume(&kit, &id, (&company, found), (&front, Some(first))).await?,
                None => session_ops::begin(&kit, found, &company, (&front, first)).await?,
            };
            Ok(Done::Opened(Box::new(opened)))
        }))
    }

    /// Works with another kit from the next call on.
    fn change(&mut self, kit: SessionOptions, said: String) -> Vec<Msg> {
        self.kit = Arc::new(kit);
        let mut news = vec![Msg::Profile(Box::new(self.profile()))];
        match &self.live {
            Some(live) => {
                let (kit, handle) = (Arc::clone(&self.kit), live.handle().clone());
                self.pending.push(Box::pin(async move {
                    let changed = match kit.config_at(handle.workspace()) {
                        Ok(config) => handle.change(&config, &kit.changes).await.map_err(Failure::from),
                        Err(failure) => Err(failure),
                    };
                    match changed {
                        Ok(0) => Done::News(vec![Msg::Log("nothing is different from before".to_owned())]),
                        Ok(_) => Done::News(vec![Msg::Log(format!("{said}, from the next call on"))]),
                        Err(failure) => Done::Failed(failure, None),
                    }
                }));
            }
            None => news.push(Msg::Log(format!("{said}, from the next task on"))),
        }
        news
    }

    /// Hands in an answer, and keeps the rule that it grants once it was taken.
    fn keep(&mut self, answer: Command, everywhere: bool) {
        let (Some(live), Command::Answer { choice: Choice::Rule(rule), .. }) = (&self.live, &answer) else {
            return;
        };
        let (handle, rule, kit) = (live.handle().clone(), rule.clone(), Arc::clone(&self.kit));
        self.pending.push(Box::pin(async move {
            if let Err(error) = handle.command(answer).await {
                return Done::News(vec![Msg::Log(error.to_string())]);
            }
            let workspace = (!everywhere).then(|| kit.config.workspace());
            match kept::keep(&kit.config.places().kept_rules(), &rule, workspace) {
                Ok(number) => Done::News(vec![Msg::Log(format!(
                    "kept as rule {number}: agon policy rm {number} removes it"
                ))]),
                Err(error) => Done::Failed(error.into(), None),
            }
        }));
    }

    /// Limits and the sandbox that were set on the screen were for the session on it.
    fn forget_bounds(&mut self) -> Result<(), Failure> {
        self.kit = Arc::new(self.kit.with_bounds_of(&self.first)?);
        Ok(())
    }

    fn sandbox(&mut self, name: &str) -> Result<Vec<Msg>, Failure> {
        if self.live.as_ref().is_some_and(|live| live.handle().has_open_turn()) {
            return Err(Failure::usage("the sandbox can be changed once this turn is over"));
        }
        let kind = sandbox(name)?;
        let kit = self.kit.with_sandbox(kind)?;
        let was_live = self.live.is_some();
        self.leave();
        let mut news = if was_live { vec![Msg::Ended] } else { Vec::new() };
        news.extend(self.change(kit, format!("sandbox {}", kind.word())));
        Ok(news)
    }

    /// Tasks of earlier sessions are there to be given again.
    pub(super) fn recall(&mut self) {
        self.small(|kit| Ok(vec![Msg::History(kit.sessions().tasks(TASKS).unwrap_or_default())]));
    }

    fn small(&mut self, work: impl FnOnce(&SessionOptions) -> Result<Vec<Msg>, Failure> + Send + 'static) {
        let kit = Arc::clone(&self.kit);
        self.pending.push(Box::pin(async move {
            let done = session_ops::apart(move || async move { work(&kit) }).await;
            done.map_or_else(|failure| Done::Failed(failure, None), Done::News)
        }));
    }

    /// Runs a person's own command next to the session.
    fn shell(&mut self, command: String) -> Vec<Msg> {
        let (kit, said) = (Arc::clone(&self.kit), format!("running `{command}`\u{2026}"));
        self.pending.push(Box::pin(async move {
            let line = command.clone();
            let ran =
                session_ops::apart(move || async move { Ok(host::run_command(&kit.config, &line).await?) });
            match ran.await {
                Ok(ran) => Done::News(vec![
                    Msg::Busy(None),
                    Msg::Ran { command, output: ran.output, exit: ran.exit },
                ]),
                Err(failure) => Done::News(vec![Msg::Busy(None), Msg::Log(in_words(&failure))]),
            }
        }));
        vec![Msg::Busy(Some(said))]
    }

    fn remove(&mut self, id: String) -> Vec<Msg> {
        if self.id.as_deref() == Some(&id) {
            return vec![Msg::Log("this session is on the screen; /new leaves it".to_owned())];
        }
        self.small(move |kit| {
            kit.sessions().remove(&id)?;
            Ok(vec![Msg::Sessions(session_ops::list(kit)?), Msg::Log("removed".to_owned())])
        });
        Vec::new()
    }

    pub(super) fn try_perform(&mut self, act: Act) -> Result<Vec<Msg>, Failure> {
        match act {
            Act::Prompt { text, wish, written, steers, to } => {
                let given = self.prompt(Task { text, wish: &wish, written: written.clone(), steers, to });
                return Ok(given.unwrap_or_else(|failure| {
                    vec![Msg::Refused { text: written, why: in_words(&failure) }]
                }));
            }
            Act::Mode(wish) => {
                Company::of(&wish, &self.kit.config)?;
                return Ok(vec![Msg::Mode(wish)]);
            }
            Act::Consent(answer) => {
                // Whoever asked may have given up meanwhile.
                let _ = self.question.take().map(|question| question.send(answer));
            }
            Act::Submit(command) => self.submit(command, None),
            Act::Keep { answer, everywhere } => self.keep(answer, everywhere),
            Act::New => return self.empty(),
            Act::Open(name) => {
                self.forget_bounds()?;
                return Ok(self.open(name));
            }
            Act::Remove(id) => return Ok(self.remove(id)),
            Act::Rename { id, name } => self.small(move |kit| {
                kit.sessions().rename(&id, &name)?;
                Ok(vec![Msg::Sessions(session_ops::list(kit)?), Msg::Log("renamed".to_owned())])
            }),
            Act::List => self.small(|kit| Ok(vec![Msg::Sessions(session_ops::list(kit)?)])),
            Act::Personas => self.small(|kit| Ok(vec![Msg::Personas(personas(kit))])),
            Act::Files => {
                self.small(|kit| Ok(vec![Msg::Files(host::workspace_files(kit.config.workspace()))]))
            }
            Act::Fork { id, seq } => {
                self.forget_bounds()?;
                return Ok(self.fork(id, seq));
            }
            Act::GoOn => return self.go_on(),
            Act::Undo(request) => return Ok(self.undo(request)),
            Act::Turns => self.list_turns(),
            Act::Models => self.list_models(),
            act @ (Act::Model(_)
            | Act::Effort(_)
            | Act::Persona(_)
            | Act::Policy(_)
            | Act::Permission(_)
            | Act::Limits(_)) => return self.set(act),
            Act::Sandbox(name) => return self.sandbox(&name),
            Act::Accept { level, task } => {
                self.kit = Arc::new(self.kit.with_permission(level)?);
                let mut news = self.try_perform(*task)?;
                news.insert(0, Msg::Profile(Box::new(self.profile())));
                return Ok(news);
            }
            Act::Shell(line) => return Ok(self.shell(line)),
            Act::Demo(name) => {
                let kind = demo_kind(&name)?;
                self.forget_bounds()?;
                return Ok(self.demo(kind, None));
            }
            // These are the screen's own.
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Works with another setting from the next call on.
    fn set(&mut self, act: Act) -> Result<Vec<Msg>, Failure> {
        let (kit, said) = match act {
            Act::Model(name) => {
                let name: ModelName = name.parse().map_err(ConfigError::from)?;
                (self.kit.with_model(&name)?, format!("model {name}"))
            }
            Act::Effort(word) => (self.kit.with_effort(&word)?, format!("effort {word}")),
            Act::Persona(id) => (self.kit.with_persona(&id)?, format!("persona {id}")),
            Act::Policy(file) => (self.kit.with_policy(&file)?, format!("policy of {file}")),
            Act::Permission(level) => {
                (self.kit.with_permission(level)?, format!("permission level {}", level.word()))
            }
            Act::Limits(flags) => {
                let said = format!("limits {}", flags.join(" "));
                (self.kit.with_limits(&mode_request::limits(&flags)?)?, said)
            }
            _ => return Ok(Vec::new()),
        };
        Ok(self.change(kit, said))
    }

    /// Leaves the session on the screen for none.
    fn empty(&mut self) -> Result<Vec<Msg>, Failure> {
        self.leave();
        self.id = None;
        self.forget_bounds()?;
        let record = Box::default();
        Ok(vec![
            Msg::Profile(Box::new(self.profile())),
            Msg::SessionView { record, is_live: false, is_elsewhere: false },
        ])
    }

    fn fork(&mut self, id: Option<String>, seq: Option<u64>) -> Vec<Msg> {
        let Some(session) = id.or_else(|| self.id.clone()) else { return Vec::new() };
        let (kit, front) = (Arc::clone(&self.kit), self.front.clone());
        self.begin("copying…", None, move || async move {
            let (seen, note) = session_ops::fork(&kit, session, seq, &front).await?;
            Ok(Done::Copied(Box::new(seen), note))
        })
    }

    /// Takes the session up that is shown, without new words.
    fn go_on(&mut self) -> Result<Vec<Msg>, Failure> {
        let Some(id) = self.id.clone().filter(|_| self.live.is_none()) else { return Ok(Vec::new()) };
        let company = Company::of(&ModeRequest::default(), &self.kit.config)?;
        let (kit, front) = (Arc::clone(&self.kit), self.front.clone());
        Ok(self.begin("going on…", None, move || async move {
            let opened = session_ops::resume(&kit, &id, (&company, None), (&front, None)).await?;
            Ok(Done::Opened(Box::new(opened)))
        }))
    }
}

/// Every persona with what it is.
fn personas(kit: &SessionOptions) -> Vec<(String, String)> {
    let library = host::personas(&kit.config);
    library.all().map(|(persona, _)| (persona.id.clone(), persona.description.clone())).collect()
}
