//! Mission control without a screen: each line of standard input is a task or a slash command, each answer goes to
//! standard output. What a slash command means is the screen's; how it is shown is the command line's.

use std::io::{IsTerminal, Write};
use std::pin::pin;

use clap::ValueEnum;

use crate::cli::args::{
    ArenaArgs, ChatArgs, ContextArgs, DebatesCommand, DemoArgs, DemoKind, HeldArgs, LookArgs, ReplayArgs,
    SessionsArgs, SessionsCommand,
};
use crate::cli::consent::AtTerminal;
use crate::cli::error::{DONE, Failure, INTERRUPTED};
use crate::cli::interrupts::Interrupts;
use crate::cli::output::Output;
use crate::cli::plan::ShowPlan;
use crate::cli::{debates, plan, replay, run, sessions, typed_lines, why};
use crate::config::{ConfigError, Environment, ModelName, SandboxKind};
use crate::host::{ForkPlan, Host, turn_line};
use crate::projection::{Board, phrases};
use crate::protocol::spec::PermissionLevel;
use crate::tui::{
    INIT_TASK, ModeRequest, Order, SLASHES, Worker, accepted, parse_level, parse_limits, parse_slash,
    undo_wish,
};

use super::mode_request::{self, Company};
use super::session_options::SessionOptions;
use super::setup;

/// What the lines so far have led to.
struct LineMode {
    host: Host,
    kit: SessionOptions,
    /// What this program was started with.
    first: SessionOptions,
    yes: bool,
    output: Output,
    wish: ModeRequest,
    session: Option<String>,
}

/// What came of a line.
enum Came {
    /// A task ended with this exit code.
    Ended(u8),
    /// Something was shown or set.
    Told,
    /// Nothing more is wanted.
    Left,
}

/// Takes tasks line by line, all in one session until a line says otherwise. At a terminal a task that failed is no
/// reason to leave; in a script it is.
pub async fn chat(typed: &ChatArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let asks = std::io::stdin().is_terminal();
    let mut lines = LineMode::begin(typed, environment, output).await?;
    let mut interrupts = Interrupts::listen()?;
    let mut code = None;
    // A blank before it makes it a task, whatever it begins with.
    let mut first = typed.prompt.as_ref().map(|task| format!(" {task}"));
    loop {
        if asks && first.is_none() {
            output.tell(&lines.prompt());
            let _ = std::io::stderr().flush();
        }
        let line = match first.take() {
            Some(task) => Some(task),
            None => tokio::select! {
                biased;
                () = interrupts.next() => return Ok(lines.leave(INTERRUPTED)),
                line = typed_lines::line() => line?,
            },
        };
        let Some(line) = line else { break };
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        let (came, times) = counted(lines.take(line), &mut interrupts).await;
        match came {
            Ok(Came::Ended(ended)) => code = Some(ended),
            Ok(Came::Told) => code = code.or(Some(DONE)),
            Ok(Came::Left) => break,
            Err(failure) => {
                output.fail(&failure);
                code = Some(failure.code);
            }
        }
        // In a script nobody asks a second time, also where no task was there to be interrupted.
        if times > u32::from(asks) {
            return Ok(lines.leave(INTERRUPTED));
        }
        if !asks && code != Some(DONE) {
            break;
        }
        if code.take_if(|code| *code == INTERRUPTED).is_some() {
            // A person who interrupts a task is still there.
            output.tell("interrupted; write on, or leave with /quit or Ctrl-C\n");
        }
    }
    match code {
        Some(code) => Ok(lines.leave(code)),
        None if asks => Ok(lines.leave(DONE)),
        None => Err(Failure::usage("there is no terminal to draw on, and no task came on standard input")
            .hint("agon run \"...\" gives one task; agon --help lists everything")),
    }
}

/// What work comes to, and how often somebody asked for the end meanwhile.
async fn counted<T>(work: impl Future<Output = T>, interrupts: &mut Interrupts) -> (T, u32) {
    let mut work = pin!(work);
    let mut times = 0;
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => times += 1,
            done = &mut work => return (done, times),
        }
    }
}

impl LineMode {
    async fn begin(typed: &ChatArgs, environment: Environment, output: Output) -> Result<Self, Failure> {
        let mut kit = setup::kit(typed, environment)?;
        setup::ask_about_workspace(&mut kit, output).await?;
        let host = Host::at(kit.config.places());
        let person = AtTerminal { can_be_asked: true, output };
        let session = match &typed.resume {
            Some(Some(session)) => Some(host.sessions().find(session)?),
            Some(None) => Some(sessions::choose(host.sessions(), person).await?),
            None if typed.newest => Some(sessions::newest(&host, kit.config.workspace())?),
            None => None,
        };
        let first = kit.with_bounds_of(&kit)?;
        Ok(LineMode { host, kit, first, yes: typed.held.yes, output, wish: ModeRequest::default(), session })
    }

    /// The exit code, once it is said how the session is gone on with; a script has its exit code and the log.
    fn leave(&self, code: u8) -> u8 {
        let is_told = std::io::stdin().is_terminal() || code == INTERRUPTED;
        if let Some(id) = self.session.as_ref().filter(|_| is_told) {
            self.output.tell(&format!("\ncontinue: {}\n", run::way_on(&self.kit.config, id)));
        }
        code
    }

    fn prompt(&self) -> String {
        let level = Some(self.kit.config.permission()).filter(|level| *level != PermissionLevel::Ask);
        let worker = Some(self.wish.worker).filter(|worker| *worker != Worker::Solo);
        let words = worker.map(Worker::word).into_iter().chain(level.map(PermissionLevel::word));
        format!("{}> ", words.collect::<Vec<_>>().join(" "))
    }

    async fn take(&mut self, line: &str) -> Result<Came, Failure> {
        if !line.starts_with('/') {
            return self.task(&self.wish.clone(), line.trim()).await;
        }
        let refused = |why: String| Failure::usage(why);
        let (slash, rest) = parse_slash(line)
            .map_err(|why| Failure::usage(why).hint("a blank before the slash makes the line a task"))?;
        match slash.order {
            Order::Squad | Order::Debate => {
                let worker = if slash.order == Order::Squad { Worker::Squad } else { Worker::Debate };
                let (wish, text) = ModeRequest::of_task(worker, rest).map_err(refused)?;
                return self.task(&wish, text).await;
            }
            Order::Quit => return Ok(Came::Left),
            Order::Accept => return self.accept(rest).await,
            Order::Demo => return self.demo(rest).await,
            Order::Init => return self.task(&ModeRequest::default(), INIT_TASK).await,
            Order::New => self.begin_with(None)?,
            Order::Help => self.help(),
            Order::Fork => self.fork(rest).await?,
            Order::Undo | Order::Redo | Order::Rewind => self.undo(slash.order, rest).await?,
            Order::Resume => {
                let found = self.kit.sessions().find(wanted(slash.name, rest)?)?;
                self.begin_with(Some(found))?;
            }
            Order::Mode
            | Order::Model
            | Order::Effort
            | Order::Persona
            | Order::Policy
            | Order::Permission
            | Order::Sandbox
            | Order::Limits => {
                self.set(slash.order, slash.name, rest)?;
            }
            Order::Sessions
            | Order::Rename
            | Order::Replay
            | Order::Events
            | Order::Cost
            | Order::Status
            | Order::Context
            | Order::Matrix => {
                self.show(slash.order, rest).await?;
            }
            Order::Copy | Order::Theme | Order::Diff | Order::Background => {
                return Err(Failure::usage(format!("{} is for the screen", slash.name)));
            }
        }
        Ok(Came::Told)
    }

    /// Carries out the plan that the last task ended with.
    async fn accept(&mut self, rest: &str) -> Result<Came, Failure> {
        let mut board = Board::default();
        self.kit.sessions().read(&self.session()?)?.entries.iter().for_each(|entry| board.apply(entry));
        let (level, text) = accepted(&board, rest).map_err(Failure::usage)?;
        self.kit = self.kit.with_permission(level)?;
        self.task(&ModeRequest::default(), &text).await
    }

    async fn task(&mut self, wish: &ModeRequest, text: &str) -> Result<Came, Failure> {
        let company = Company::of(wish, &self.kit.config)?;
        let show = ShowPlan { yes: plan::yes(self.yes), ..ShowPlan::default() };
        let root = match &self.session {
            Some(session) => {
                let person = AtTerminal { can_be_asked: true, output: self.output };
                self.host.folder_of(session, self.kit.config.workspace(), &person).await?
            }
            None => None,
        };
        let plan = self.kit.plan(text.to_owned(), &company, (self.session.clone(), root), show)?;
        let (code, id) = run::perform(plan, company.mode, self.output).await?;
        self.session = Some(id);
        Ok(Came::Ended(code))
    }

    /// Works otherwise from the next task on.
    fn set(&mut self, order: Order, name: &'static str, rest: &str) -> Result<(), Failure> {
        let refused = |why: String| Failure::usage(why);
        match order {
            Order::Mode => {
                let wish = ModeRequest::of_mode(rest).map_err(refused)?;
                Company::of(&wish, &self.kit.config)?;
                self.wish = wish;
            }
            Order::Limits if rest.is_empty() => return self.say_limits(),
            Order::Limits => {
                let flags = parse_limits(rest).map_err(refused)?;
                self.kit = self.kit.with_limits(&mode_request::limits(&flags)?)?;
            }
            Order::Model => {
                let model: ModelName = wanted(name, rest)?.parse().map_err(ConfigError::from)?;
                self.kit = self.kit.with_model(&model)?;
            }
            Order::Effort => self.kit = self.kit.with_effort(wanted(name, rest)?)?,
            Order::Persona => self.kit = self.kit.with_persona(wanted(name, rest)?)?,
            Order::Policy => self.kit = self.kit.with_policy(wanted(name, rest)?)?,
            Order::Permission if rest.is_empty() => {
                self.output.say(&format!("permission level {}", self.kit.config.permission().word()));
                return Ok(());
            }
            Order::Permission => {
                self.kit = self.kit.with_permission(parse_level(rest).map_err(refused)?)?;
            }
            Order::Sandbox => self.kit = self.kit.with_sandbox(sandbox(wanted(name, rest)?)?)?,
            _ => {}
        }
        self.output.say(&format!("{} {rest}, from the next task on", name.trim_start_matches('/')));
        Ok(())
    }

    /// Shows what the command line shows of the session, or of all.
    async fn show(&self, order: Order, rest: &str) -> Result<(), Failure> {
        let (environment, output) = (&self.kit.environment, self.output);
        let listed = SessionsCommand::List { json: false, check: false };
        let of = |command| SessionsArgs { command: Some(command), json: false, check: false };
        if order == Order::Sessions {
            return sessions::run(of(listed), environment, output);
        }
        let session = self.session()?;
        let replayed = |full| {
            let session = session.clone();
            ReplayArgs {
                session,
                at: None,
                speed: None,
                full,
                json: false,
                tui: false,
                look: LookArgs::default(),
            }
        };
        match order {
            Order::Rename => {
                let name = rest.to_owned();
                sessions::run(of(SessionsCommand::Rename { session, name }), environment, output)
            }
            Order::Cost | Order::Status => {
                sessions::run(of(SessionsCommand::Show { session, json: false }), environment, output)
            }
            Order::Context => why::context(&ContextArgs { session, json: false }, environment, output),
            Order::Matrix => {
                debates::run(Some(DebatesCommand::Show { session, json: false }), environment, output)
            }
            Order::Events => replay::replay(&replayed(true), environment, output).await,
            _ => replay::replay(&replayed(false), environment, output).await,
        }
    }

    /// Those of the session, or those it would begin with.
    fn say_limits(&self) -> Result<(), Failure> {
        let mut limits = self.kit.config.limits();
        if let Some(session) = &self.session {
            let mut board = Board::default();
            self.kit.sessions().read(session)?.entries.iter().for_each(|entry| board.apply(entry));
            limits = self.kit.changes.limits.over(&board.limits);
        }
        self.output.say(&format!("in force: {}", phrases::limits(&limits)));
        Ok(())
    }

    async fn fork(&mut self, rest: &str) -> Result<(), Failure> {
        let session = self.session()?;
        let at = match rest {
            "" => None,
            seq => Some(
                seq.trim_start_matches('e')
                    .parse()
                    .map_err(|_| Failure::usage(format!("`{seq}` is no entry, which looks like `e42`")))?,
            ),
        };
        let (config, changes) = self.kit.for_copy(&session)?;
        let plan = ForkPlan { session, at, changes, instead: None, goes_on: false };
        let show = ShowPlan { yes: plan::yes(self.yes), ..ShowPlan::default() };
        let copy = run::prepare_copy(&config, &plan, &show, self.output).await?;
        let id = copy.id.clone();
        copy.record().await?;
        self.begin_with(Some(id))
    }

    async fn undo(&self, order: Order, rest: &str) -> Result<(), Failure> {
        let session = self.session()?;
        if (order, rest) == (Order::Rewind, "") {
            let rows = self.host.turns(&session)?.rows;
            rows.iter().for_each(|row| self.output.say(&turn_line(row)));
            return Ok(());
        }
        let wish = undo_wish(order, rest).map_err(Failure::usage)?;
        let undo = self.host.undo(&session, wish).await?;
        undo.lines(true).iter().for_each(|line| self.output.say(line));
        Ok(())
    }

    /// Leaves the session for another one or none. What bounded it on this screen bounds no other.
    fn begin_with(&mut self, session: Option<String>) -> Result<(), Failure> {
        self.kit = self.kit.with_bounds_of(&self.first)?;
        self.session = session;
        Ok(())
    }

    async fn demo(&mut self, rest: &str) -> Result<Came, Failure> {
        let show = demo_kind(if rest.is_empty() { "run" } else { rest })?;
        let held = HeldArgs { sandbox: self.kit.changes.sandbox, ..HeldArgs::default() };
        let arena = ArenaArgs { held, ..ArenaArgs::default() };
        let demo = DemoArgs { show, tui: false, look: LookArgs::default(), arena };
        Ok(Came::Ended(run::demo(&demo, self.kit.environment.clone(), self.output).await?))
    }

    fn session(&self) -> Result<String, Failure> {
        self.session.clone().ok_or_else(|| {
            Failure::usage("there is no session yet").hint("a task begins one; /resume SESSION opens one")
        })
    }

    fn help(&self) {
        let told =
            SLASHES.iter().filter(|slash| !matches!(slash.order, Order::Copy | Order::Theme | Order::Diff));
        for slash in told {
            self.output.tell(&format!("{:<34} {}\n", format!("{} {}", slash.name, slash.takes), slash.help));
            for flag in slash.flags {
                self.output.tell(&format!(
                    "  {:<32} {}\n",
                    format!("{} {}", flag.name, flag.takes),
                    flag.help
                ));
            }
        }
        self.output.tell("Any other line is a task; a blank before a slash makes it one as well.\n");
    }
}

fn wanted<'a>(name: &str, rest: &'a str) -> Result<&'a str, Failure> {
    let row = SLASHES.iter().find(|slash| slash.name == name);
    match rest {
        "" => Err(Failure::usage(format!(
            "{name} expects {}",
            row.map_or("a value", |row| row.takes.trim_matches(['[', ']']))
        ))),
        rest => Ok(rest),
    }
}

/// The sandbox of a name.
pub(super) fn sandbox(name: &str) -> Result<SandboxKind, Failure> {
    SandboxKind::from_str(name, true).map_err(|_| {
        Failure::usage(format!("no sandbox is called `{name}`")).hint("auto, local, docker or none")
    })
}

/// The demo of a name.
pub(super) fn demo_kind(name: &str) -> Result<DemoKind, Failure> {
    DemoKind::from_str(name, true)
        .map_err(|_| Failure::usage(format!("no demo is called `{name}`: run, squad or debate")))
}
