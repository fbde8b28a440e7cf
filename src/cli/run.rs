//! The commands `run`, `squad`, `demo`, `resume` and `fork`: what is opened, and with which first word.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::assembly::session_status::{Stage, stage_of_debate};
use crate::assembly::{self, Changes, Fork, ForkPlan, Instead, Request, Running, Runs, Sessions, SquadWish};
use crate::cli::args::{ArenaArgs, DemoArgs, DemoKind, ForkArgs, HereArgs, ResumeArgs, RunArgs, SquadArgs};
use crate::cli::consent::{about_workspace, asked, settle};
use crate::cli::error::{DONE, Failure, USAGE};
use crate::cli::output::Output;
use crate::cli::plan::{self, RunPlan, ShowPlan};
use crate::cli::session_folder::{folder_of, known_folder};
use crate::cli::watch::{Watch, check_target};
use crate::config::{Config, Environment, KeyPath, ModelName, Override, Places, Source};
use crate::library::blueprint::DEFAULT;
use crate::library::demo;
use crate::projection::Board;
use crate::protocol::event::TurnCause;
use crate::protocol::spec::{DebatePlan, Mode, Rule};
use crate::protocol::{Command, StopCause};

/// The most a prompt may hold as JSON, so that its entry fits into a line of the log.
const MAX_PROMPT: usize = 700 * 1024;

/// Gives one task to one spark.
pub async fn run(typed: &RunArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let mut typed = typed.clone();
    settle_folder(typed.resume.as_deref(), &mut typed.arena, &environment, output).await?;
    Ok(perform(RunPlan::of(&typed, environment)?, Mode::Solo, output).await?.0)
}

/// Names the folder to work in for a session that was not begun here.
pub(super) async fn settle_folder(
    resume: Option<&str>,
    arena: &mut ArenaArgs,
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    let Some(session) = resume else { return Ok(()) };
    let here = plan::folder(Path::new("."))?;
    let named = arena.workspace.workspace.take();
    let ask = (!arena.json, output);
    arena.workspace.workspace = folder_of(session, (named.as_deref(), &here), environment, ask).await?;
    Ok(())
}

/// Gives one task to a squad.
pub async fn squad(typed: &SquadArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let mut typed = typed.clone();
    settle_folder(typed.resume.as_deref(), &mut typed.arena, &environment, output).await?;
    let plan = RunPlan::of_squad(&typed, environment)?;
    if typed.refresh && !Runs::of(&plan.config).is_on() {
        output.warn("`--refresh` stores nothing: the team cache is switched off in the configuration");
    }
    Ok(perform(plan, Mode::Squad, output).await?.0)
}

pub(super) async fn perform(mut plan: RunPlan, mode: Mode, output: Output) -> Result<(u8, String), Failure> {
    plan.show.output.as_deref().map(check_target).transpose()?;
    super::config::warn(&plan.config, output);
    if plan.resume.is_none()
        && let Some(root) = about_workspace(&plan.config, !plan.show.json, output).await?
    {
        plan.config.allow_workspace(&root);
    }
    let prompt = prompt(plan.prompt, mode, plan.schema)?;
    let running = match &plan.resume {
        Some(session) => {
            refuse_open_turn(&plan.config, session)?;
            take_up(&plan.config, session, &plan.changes, &plan.show, output).await?
        }
        None => {
            let (model, why) = plan.config.choose_model().await?;
            if let Some(why) = why {
                output.say(&format!("using {model}: {why}"));
            }
            let Changes { squad, debate, reads_only, rules, .. } = plan.changes;
            // In a debate each persona's own model counts more than the one for everybody.
            let model_is_wanted = debate.is_none() && is_flag(&plan.config, "model");
            let request = Request { model, model_is_wanted, rules, squad, debate, reads_only, consent: None };
            super::sandbox::offer_image(&plan.config, plan.config.sandbox(), output).await?;
            begin(&plan.config, &request, &plan.show, output).await?
        }
    };
    let id = running.id.clone();
    let code = Watch::new(output, plan.show, "--yes").follow(running, Some(prompt)).await?;
    Ok((code, id))
}

/// Resumes a session; the person at the terminal is asked what it leaves to them.
async fn take_up(
    config: &Config,
    session: &str,
    changes: &Changes,
    show: &ShowPlan,
    output: Output,
) -> Result<Running, Failure> {
    let (mut config, mut changes) = (config.clone(), changes.clone());
    loop {
        // Each yes takes away its own question.
        match assembly::resume(&config, session, &changes, show.is_attended()).await {
            Ok(running) => return Ok(running),
            Err(error) => settle(error, (&mut config, &mut changes), !show.json, output).await?,
        }
    }
}

/// Opens a new session; whoever sits at the terminal is asked where nothing confines its tools.
pub(super) async fn begin(
    config: &Config,
    request: &Request,
    show: &ShowPlan,
    output: Output,
) -> Result<Running, Failure> {
    match assembly::open(config, request, show.is_attended()).await {
        Ok(running) => Ok(running),
        Err(error) => {
            let consent = Some(asked(error, !show.json, output).await?);
            let request = Request { consent, ..request.clone() };
            Ok(assembly::open(config, &request, show.is_attended()).await?)
        }
    }
}

/// Runs the built-in script in a project of its own. Its approvals are answered by the demo itself.
pub async fn demo(typed: &DemoArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let (story, mode, squad, debate) = story(typed.show);
    let root = demo_folder(story, typed.arena.workspace.workspace.as_deref())?;
    output.say(&format!("the demo works in {}", root.display()));
    let running = match open_demo(typed, (squad, debate), &root, environment, output).await {
        Ok(running) => running,
        Err(failure) => {
            if typed.arena.workspace.workspace.is_none() {
                // Nothing has worked in it yet, so it is still what was just written.
                let _ = std::fs::remove_dir_all(&root);
            }
            return Err(failure);
        }
    };
    let show = ShowPlan { yes: true, ..ShowPlan::of(&typed.arena) };
    let prompt = prompt(story.prompt.trim_end().to_owned(), mode, None)?;
    Watch::new(output, show, "agon demo").telling().follow(running, Some(prompt)).await
}

/// Opens the session a demo plays in.
async fn open_demo(
    typed: &DemoArgs,
    (squad, debate): (Option<SquadWish>, Option<DebatePlan>),
    root: &Path,
    environment: Environment,
    output: Output,
) -> Result<Running, Failure> {
    let config = Config::load(environment, root, &plan::overrides(&typed.arena.held))?;
    super::config::warn(&config, output);
    let rules = plan::rules_of(typed.arena.held.policy.as_deref())?;
    let request = demo_request(rules, squad, debate)?;
    super::sandbox::offer_image(&config, config.sandbox(), output).await?;
    let show = ShowPlan { yes: true, ..ShowPlan::of(&typed.arena) };
    begin(&config, &request, &show, output).await
}

/// Takes a session up where it stopped. One that was cut off between its answer and its seal is sealed.
pub async fn resume(typed: &ResumeArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let ask = (!typed.json, output);
    let (config, root) = config_of(&typed.session, &typed.here, environment, ask).await?;
    if let Some(id) = Sessions::of(&config).nothing_to_go_on_with(&typed.session)? {
        // Refused before anything is recorded, so that a sealed log stays sealed.
        let hint = format!("give it a new task: {}", way_on(&config, &id));
        return Err(Failure::usage("the session has no open turn to go on with").hint(hint));
    }
    let show = ShowPlan {
        json: typed.json,
        signals: false,
        output: typed.output.clone(),
        yes: typed.yes,
        held: plan::bounds(typed.here.sandbox, typed.here.policy.as_deref()),
    };
    // A debate only reads: whoever writes in the workspace meanwhile is not in its way.
    let turn = Sessions::of(&config).last_turn(&typed.session)?;
    let reads_only = stage_of_debate(&turn) == Some(Stage::Open);
    let rules = plan::rules_of(typed.here.policy.as_deref())?;
    let changes = Changes { reads_only, rules, sandbox: typed.here.sandbox, root, ..Changes::default() };
    go_on(&config, &typed.session, &changes, show, output).await
}

/// Lets a session go on where it was.
pub(super) async fn go_on(
    config: &Config,
    session: &str,
    changes: &Changes,
    show: ShowPlan,
    output: Output,
) -> Result<u8, Failure> {
    show.output.as_deref().map(check_target).transpose()?;
    let running = take_up(config, session, changes, &show, output).await?;
    let seal = (!running.has_open_turn).then_some(Command::Stop { cause: StopCause::Finished });
    Watch::new(output, show, "--yes").follow(running, seal).await
}

/// Copies a session and goes on differently.
pub async fn fork(typed: &ForkArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let here = plan::folder(Path::new("."))?;
    let root = known_folder(&typed.session, (typed.here.workspace.as_deref(), &here), &environment)?;
    let config = config_for_copy((&typed.session, root.as_deref(), &here), environment, &[])?;
    super::config::warn(&config, output);
    let model = typed.model.as_deref().map(str::parse::<ModelName>).transpose();
    let model = model.map_err(crate::config::ConfigError::from)?;
    let rules = plan::rules_of(typed.here.policy.as_deref())?;
    let (persona, sandbox) = (typed.persona.clone(), typed.here.sandbox);
    let changes = Changes { model, persona, rules, sandbox, root, ..Changes::default() };
    let instead = match (&typed.prompt, &typed.set_result) {
        (Some(text), _) if text.trim().is_empty() => return Err(Failure::usage("`--prompt` is empty")),
        (Some(text), _) => Some(Instead::Prompt(text.clone())),
        (None, Some(written)) => Some(plan::result_of(written)?),
        (None, None) => None,
    };
    let plan = ForkPlan { session: typed.session.clone(), at: typed.at, changes, instead, goes_on: false };
    let held = plan::bounds(typed.here.sandbox, typed.here.policy.as_deref());
    let show = ShowPlan { yes: typed.yes, held, ..ShowPlan::default() };
    copy(&config, &plan, show, typed.no_run, output).await
}

/// Makes a copy, and lets it go on unless it shall only be made.
pub(super) async fn copy(
    config: &Config,
    plan: &ForkPlan,
    show: ShowPlan,
    no_run: bool,
    output: Output,
) -> Result<u8, Failure> {
    let fork = prepare_copy(config, plan, &show, output).await?;
    if no_run || !fork.has_open_turn {
        let id = fork.id.clone();
        fork.record().await?;
        output.data(&format!("{id}\n"))?;
        output.say(&format!("hint: {}", way_on(config, &id)));
        return Ok(DONE);
    }
    Watch::new(output, show, "--yes").follow(fork.start().await?, None).await
}

/// Makes a copy, tells where it works and what it lacks.
pub(super) async fn prepare_copy(
    config: &Config,
    plan: &ForkPlan,
    show: &ShowPlan,
    output: Output,
) -> Result<Fork, Failure> {
    let attended = show.is_attended();
    let (mut config, mut plan) = (config.clone(), plan.clone());
    let mut fork = loop {
        match Fork::prepare(&config, &plan, attended).await {
            Ok(fork) => break fork,
            Err(error) => settle(error, (&mut config, &mut plan.changes), !show.json, output).await?,
        }
    };
    output.say(&format!("forked into {}, which works in {}", fork.id, fork.workspace.display()));
    if let Some(lacks) = &fork.lacks {
        output.warn(lacks);
    }
    tell_of_place(&std::mem::take(&mut fork.notes), output);
    Ok(fork)
}

/// How a session is gone on with: its open turn, else its next task by the kind of whoever worked last.
pub(super) fn way_on(config: &Config, id: &str) -> String {
    // What cannot be read was told before.
    let (board, _) = board_of(&Sessions::of(config), id).unwrap_or_default();
    next_step(&board, id)
}

/// The same for a session that was folded.
pub(super) fn next_step(board: &Board, id: &str) -> String {
    match (board.has_open_turn(), &board.mode) {
        (true, _) => format!("agon resume {id}"),
        (false, Some(Mode::Squad)) => format!("agon squad --resume {id} \"...\""),
        (false, Some(Mode::Debate(_)))
            if matches!(board.cause, Some(TurnCause::Stopped | TurnCause::Interrupted)) =>
        {
            format!("agon debate --resume {id}")
        }
        (false, _) => format!("agon run --resume {id} \"...\""),
    }
}

/// How a session stands, and whether its log is whole.
fn board_of(sessions: &Sessions, session: &str) -> Result<(Board, bool), Failure> {
    let mut board = Board::default();
    let fault = sessions.scan(session, &mut |entry| {
        board.apply(&entry);
        true
    })?;
    Ok((board, fault.is_none()))
}

/// A new task waits for the end of the one before: refused before anything is recorded. Damage is left to
/// whoever opens the log.
fn refuse_open_turn(config: &Config, session: &str) -> Result<(), Failure> {
    let sessions = Sessions::of(config);
    sessions.check_free(session)?;
    let (board, is_whole) = board_of(&sessions, session)?;
    if !is_whole || !board.has_open_turn() {
        return Ok(());
    }
    let asks = board.approvals.iter().map(|ask| format!("{}: {}", ask.tool, ask.target));
    let asks = asks.collect::<Vec<_>>().join(", ");
    let id = &board.id;
    Err(match asks.is_empty() {
        true => {
            Failure::usage("its last task is not done yet").hint(format!("go on with it: agon resume {id}"))
        }
        false => Failure::usage(format!("an approval is open: {asks}"))
            .hint(format!("answer it first: agon resume {id} (--yes says yes)")),
    })
}

/// The configuration for the workspace a session is taken up in, and that workspace where it had to be named.
async fn config_of(
    session: &str,
    here: &HereArgs,
    environment: Environment,
    (can_ask, output): (bool, Output),
) -> Result<(Config, Option<PathBuf>), Failure> {
    let present = plan::folder(Path::new("."))?;
    let folders = (here.workspace.as_deref(), present.as_path());
    let root = folder_of(session, folders, &environment, (can_ask, output)).await?;
    let config = config_for((session, root.as_deref()), environment, &[])?;
    super::config::warn(&config, output);
    Ok((config, root))
}

/// The configuration for a copy. Of a session from elsewhere it is that of the present folder.
pub(super) fn config_for_copy(
    (session, root, here): (&str, Option<&Path>, &Path),
    environment: Environment,
    overrides: &[Override],
) -> Result<Config, Failure> {
    let own = Sessions::at(&Places::find(&environment)?).home(session).is_ok();
    let root = root.or((!own).then_some(here));
    config_for((session, root), environment, overrides)
}

/// The same with flags, and its warnings left to the caller.
pub(super) fn config_for(
    (session, root): (&str, Option<&Path>),
    environment: Environment,
    overrides: &[Override],
) -> Result<Config, Failure> {
    let root = match root {
        Some(root) => root.to_owned(),
        None => plan::recorded_workspace(session, &environment)?,
    };
    Ok(Config::load(environment, &root, overrides)?)
}

/// The command that gives the task, refused when its entry could not be a line of the log.
pub(super) fn prompt(
    text: String,
    mode: Mode,
    schema: Option<serde_json::Value>,
) -> Result<Command, Failure> {
    let command = Command::Prompt { text, mode, schema };
    let bytes = serde_json::to_string(&command)?.len();
    match bytes > MAX_PROMPT {
        true => Err(Failure::usage(format!("the prompt has {bytes} bytes; a prompt may have {MAX_PROMPT}"))
            .hint("put what is long into a file of the workspace and name the file")),
        false => Ok(command),
    }
}

/// What a demo shows: its story, and who works on it.
pub(super) fn story(show: DemoKind) -> (&'static demo::Story, Mode, Option<SquadWish>, Option<DebatePlan>) {
    match show {
        DemoKind::Run => (&demo::RUN, Mode::Solo, None, None),
        DemoKind::Squad => {
            let checks = demo::SQUAD.checks.iter().map(|check| (*check).to_owned()).collect();
            let wish = SquadWish { blueprint: Some(DEFAULT.to_owned()), checks };
            (&demo::SQUAD, Mode::Squad, Some(wish), None)
        }
        DemoKind::Debate => {
            let plan = demo::debate::plan();
            (&demo::DEBATE, Mode::Debate(plan.clone()), None, Some(plan))
        }
    }
}

/// What the session of a demo is opened with.
pub(super) fn demo_request(
    rules: Vec<Rule>,
    squad: Option<SquadWish>,
    debate: Option<DebatePlan>,
) -> Result<Request, Failure> {
    let model: ModelName = demo::MODEL.parse().map_err(crate::config::ConfigError::from)?;
    Ok(Request { model, model_is_wanted: true, rules, squad, debate, reads_only: false, consent: None })
}

/// A folder with the demo's project: the one that was named, which must be empty, or a new temporary one.
pub(super) fn demo_folder(story: &demo::Story, wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = match wanted {
        Some(folder) => std::fs::create_dir_all(folder).map(|()| folder.to_owned()),
        None => tempfile::Builder::new().prefix("agon-demo-").tempdir().map(tempfile::TempDir::keep),
    };
    let made = folder.and_then(|folder| folder.canonicalize());
    let root =
        made.context("cannot make a folder for the demo").map_err(|error| Failure::new(USAGE, error))?;
    let is_empty = std::fs::read_dir(&root).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty {
        return Err(Failure::usage(format!(
            "`{}` is not empty; the demo wants a folder of its own",
            root.display()
        )));
    }
    let written = story.write_project(&root).context("cannot write the demo's project");
    written.map_err(|error| Failure::new(USAGE, error))?;
    Ok(root)
}

/// Nobody works without a sandbox unawares.
pub(super) fn warn_of_sandbox(running: &Running, output: Output) {
    if running.sandbox.kind == "none" {
        output.alarm(&format!("UNCONFINED: {}", running.sandbox.gaps.join("; ")));
    }
    tell_of_place(&running.notes, output);
}

/// What people have to know of how a workspace was opened.
fn tell_of_place(told: &[String], output: Output) {
    told.iter().for_each(|line| output.note(line));
}

/// True when a value was given on the command line.
fn is_flag(config: &Config, key: &str) -> bool {
    let leaf = config.layer().0.get(&KeyPath::of(&[key]));
    leaf.is_some_and(|leaf| matches!(leaf.sources.first(), Some(Source::Flag(_))))
}
