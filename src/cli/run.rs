//! The commands `run`, `squad`, `demo`, `resume` and `fork`: what is opened, and with which first word.

use std::path::{Path, PathBuf};

use crate::cli::args::{
    ArenaArgs, DemoArgs, DemoKind, EarlierArgs, ForkArgs, HereArgs, ResumeArgs, RunArgs, SquadArgs,
};
use crate::cli::consent::{AtTerminal, about_workspace};
use crate::cli::desk::PERSON;
use crate::cli::error::{DONE, Failure};
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::Output;
use crate::cli::plan::{self, RunPlan, ShowPlan};
use crate::cli::sessions;
use crate::cli::watch::{Watch, check_target};
use crate::config::{Config, Environment, ModelName};
use crate::host::{
    self, Changes, Demo, ForkPlan, Handle, Host, Instead, Prepared, Runs, Sessions, Stage, stage_of_debate,
};
use crate::projection::{Board, phrases};
use crate::protocol::event::TurnCause;
use crate::protocol::spec::Mode;
use crate::protocol::{Command, StopCause};

/// Gives one task to one spark.
pub async fn run(typed: &RunArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let mut typed = typed.clone();
    settle(&mut typed.earlier, &mut typed.arena, &environment, output).await?;
    Ok(perform(RunPlan::of(&typed, environment)?, Mode::Solo, output).await?.0)
}

/// Names the session that is continued, and the folder to work in when it was not begun here.
pub(super) async fn settle(
    earlier: &mut EarlierArgs,
    arena: &mut ArenaArgs,
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    if std::mem::take(&mut earlier.newest) {
        let here = plan::workspace(&arena.workspace)?;
        earlier.resume = Some(sessions::newest(&Host::of(environment)?, &here)?);
    }
    let Some(session) = earlier.resume.as_deref() else { return Ok(()) };
    let person = AtTerminal { can_be_asked: !arena.json, output };
    let named = arena.workspace.workspace.take();
    arena.workspace.workspace = folder_of(session, named.as_deref(), environment, person).await?;
    Ok(())
}

/// The folder that was named, else the one a session from elsewhere may work in.
async fn folder_of(
    session: &str,
    named: Option<&Path>,
    environment: &Environment,
    person: AtTerminal,
) -> Result<Option<PathBuf>, Failure> {
    let here = plan::folder(Path::new("."))?;
    match named {
        Some(named) => Ok(Some(plan::folder(named)?)),
        None => Host::of(environment)?.folder_of(session, &here, &person).await,
    }
}

/// Gives one task to a squad.
pub async fn squad(typed: &SquadArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let mut typed = typed.clone();
    settle(&mut typed.earlier, &mut typed.arena, &environment, output).await?;
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
        && let Some(root) = about_workspace(&plan.config, plan.show.person(output)).await?
    {
        plan.config.allow_workspace(&root);
    }
    let prompt = host::task(plan.prompt, mode, plan.schema)?;
    let host = Host::at(plan.config.places());
    let handle = match &plan.resume {
        Some(session) => {
            host.check_idle(session)?;
            let who = (plan.show.answers(), &plan.show.person(output));
            host.resume((&plan.config, session), &plan.changes, who).await?
        }
        None => {
            let (model, why) = plan.config.choose_model().await?;
            if let Some(why) = why.filter(|_| plan.show.loud.verbose) {
                output.say(&format!("using {model}: {why}"));
            }
            super::sandbox::offer_image(&plan.config, plan.config.sandbox(), output).await?;
            let who = (plan.show.answers(), &plan.show.person(output));
            host.open((&plan.config, &model), &plan.changes, who).await?
        }
    };
    let id = handle.id().to_owned();
    let code = Watch::new(output, plan.show).keeping(&plan.config).follow(handle, Some(prompt)).await?;
    Ok((code, id))
}

/// Runs the built-in script in a project of its own. Its approvals are answered by the demo itself.
pub async fn demo(typed: &DemoArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let demo = demo_of(typed.show);
    let mut folder = demo.folder(typed.arena.workspace.workspace.as_deref())?;
    if !typed.arena.loud.quiet {
        let until = if folder.is_temporary() { ", which is removed at its end" } else { "" };
        output.say(&format!("the demo works in {}{until}", folder.root.display()));
    }
    let handle = open_demo(typed, &demo, &folder.root, environment, output).await?;
    let ended = Watch::new(output, demo_show(typed)).telling().follow(handle, Some(demo.task())).await;
    if !matches!(ended, Ok(DONE)) {
        // What was cut off can be resumed there.
        folder.keep();
    }
    ended
}

/// The demo of a name.
pub(super) fn demo_of(kind: DemoKind) -> Demo {
    match kind {
        DemoKind::Run => Demo::solo(),
        DemoKind::Squad => Demo::squad(),
        DemoKind::Debate => Demo::debate(),
    }
}

/// Opens the session a demo plays in.
async fn open_demo(
    typed: &DemoArgs,
    demo: &Demo,
    root: &Path,
    environment: Environment,
    output: Output,
) -> Result<Handle, Failure> {
    let config = Config::load(environment, root, &plan::overrides(&typed.arena.held))?;
    super::config::warn(&config, output);
    let rules = plan::rules_of(typed.arena.held.policy.as_deref(), &typed.arena.held.permission)?;
    let (model, changes) = demo.changes()?;
    super::sandbox::offer_image(&config, config.sandbox(), output).await?;
    let show = demo_show(typed);
    let who = (show.answers(), &show.person(output));
    Host::at(config.places()).open((&config, &model), &Changes { rules, ..changes }, who).await
}

fn demo_show(typed: &DemoArgs) -> ShowPlan {
    ShowPlan { yes: Some("agon demo"), ..ShowPlan::of(&typed.arena) }
}

/// Takes a session up where it stopped. One that was cut off between its answer and its seal is sealed.
pub async fn resume(typed: &ResumeArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let person = AtTerminal { can_be_asked: !typed.json, output };
    let session = match &typed.session {
        Some(session) => session.clone(),
        None => sessions::choose(Host::of(&environment)?.sessions(), person).await?,
    };
    let (config, root) = config_of(&session, &typed.here, environment, person).await?;
    if let Some(id) = Sessions::of(&config).nothing_to_go_on_with(&session)? {
        // Refused before anything is recorded, so that a sealed log stays sealed.
        let hint = format!("give it a new task: {}", way_on(&config, &id));
        return Err(Failure::usage("the session has no open turn to continue").hint(hint));
    }
    if typed.answer.is_some() && !Sessions::of(&config).asks(&session)? {
        return Err(Failure::usage("the session asks nothing that `--answer` could answer")
            .hint(format!("agon resume {}", session)));
    }
    let show = ShowPlan {
        json: typed.json,
        signals: false,
        output: typed.output.clone(),
        yes: plan::yes(typed.yes),
        held: plan::bounds(typed.here.sandbox, typed.here.policy.as_deref(), &typed.here.permission),
        loud: typed.loud,
    };
    // A debate only reads: whoever writes in the workspace meanwhile is not in its way.
    let turn = Sessions::of(&config).last_turn(&session)?;
    let reads_only = stage_of_debate(&turn) == Some(Stage::Open);
    let rules = plan::rules_of(typed.here.policy.as_deref(), &typed.here.permission)?;
    let answer = typed.answer.clone().map(|text| (text, PERSON.to_owned()));
    let (sandbox, permission) = (typed.here.sandbox, typed.here.permission.level);
    let changes = Changes { reads_only, rules, permission, sandbox, root, answer, ..Changes::default() };
    go_on(&config, &session, &changes, show, output).await
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
    let who = (show.answers(), &show.person(output));
    let handle = Host::at(config.places()).resume((config, session), changes, who).await?;
    let seal = (!handle.has_open_turn()).then_some(Command::Stop { cause: StopCause::Finished });
    Watch::new(output, show).keeping(config).follow(handle, seal).await
}

/// Copies a session and goes on differently.
pub async fn fork(typed: &ForkArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    one_change(typed)?;
    let here = plan::folder(Path::new("."))?;
    let host = Host::of(&environment)?;
    let root = match typed.here.workspace.as_deref() {
        Some(named) => Some(plan::folder(named)?),
        None => host.known_folder(&typed.session, &here)?,
    };
    let config = host.config_for_copy((&typed.session, root.as_deref(), &here), environment, &[])?;
    super::config::warn(&config, output);
    let model = typed.model.as_deref().map(str::parse::<ModelName>).transpose();
    let model = model.map_err(crate::config::ConfigError::from)?;
    let rules = plan::rules_of(typed.here.policy.as_deref(), &typed.here.permission)?;
    let (persona, sandbox, permission) =
        (typed.persona.clone(), typed.here.sandbox, typed.here.permission.level);
    let changes = Changes { model, persona, rules, permission, sandbox, root, ..Changes::default() };
    let instead = match (&typed.prompt, &typed.set_result) {
        (Some(text), _) if text.trim().is_empty() => return Err(Failure::usage("`--prompt` is empty")),
        (Some(text), _) => Some(Instead::Prompt(text.clone())),
        (None, Some(written)) => Some(plan::result_of(written)?),
        (None, None) => None,
    };
    let plan = ForkPlan { session: typed.session.clone(), at: typed.at, changes, instead, goes_on: false };
    let held = plan::bounds(typed.here.sandbox, typed.here.policy.as_deref(), &typed.here.permission);
    let show = ShowPlan { yes: plan::yes(typed.yes), held, loud: typed.loud, ..ShowPlan::default() };
    copy(&config, &plan, show, typed.no_run, output).await
}

/// What differs between a fork and its parent is to have one cause.
fn one_change(typed: &ForkArgs) -> Result<(), Failure> {
    let given = [
        ("--model", typed.model.is_some()),
        ("--persona", typed.persona.is_some()),
        ("--prompt", typed.prompt.is_some()),
        ("--set-result", typed.set_result.is_some()),
        ("--policy", typed.here.policy.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    match given.as_slice() {
        [] | [_] => Ok(()),
        all => Err(Failure::usage(format!("a fork changes one thing, and {} were given", all.join(" and ")))
            .hint("make one fork for each, or fork the fork: agon fork FORK --model …")),
    }
}

/// Makes a copy, and lets it go on unless it shall only be made.
pub(super) async fn copy(
    config: &Config,
    plan: &ForkPlan,
    show: ShowPlan,
    no_run: bool,
    output: Output,
) -> Result<u8, Failure> {
    let copy = prepare_copy(config, plan, &show, output).await?;
    if no_run || !copy.has_open_turn {
        let id = copy.id.clone();
        copy.record().await?;
        output.data(&format!("{id}\n"))?;
        output.say(&format!("hint: {}", way_on(config, &id)));
        return Ok(DONE);
    }
    let handle = Host::at(config.places()).start(copy, show.answers()).await?;
    Watch::new(output, show).keeping(config).follow(handle, None).await
}

/// Makes a copy, tells where it works and what it lacks.
pub(super) async fn prepare_copy(
    config: &Config,
    plan: &ForkPlan,
    show: &ShowPlan,
    output: Output,
) -> Result<Prepared, Failure> {
    let who = (show.answers(), &show.person(output));
    let mut copy = unless_interrupted(Host::at(config.places()).fork(config, plan, who)).await??;
    if !show.loud.quiet {
        let id = phrases::short_id(&copy.id);
        output.say(&format!("forked into {id}, which works in {}", copy.workspace.display()));
    }
    if let Some(lacks) = &copy.lacks {
        output.warn(lacks);
    }
    tell_of_place(&std::mem::take(&mut copy.notes), output);
    Ok(copy)
}

/// How a session is gone on with: its open turn, else its next task by the kind of whoever worked last.
pub(super) fn way_on(config: &Config, id: &str) -> String {
    let mut board = Board::default();
    // What cannot be read was told before.
    let _ = Sessions::of(config).scan(id, &mut |entry| {
        board.apply(&entry);
        true
    });
    next_step(&board, id)
}

/// The same for a session that was folded.
pub(super) fn next_step(board: &Board, id: &str) -> String {
    let id = phrases::short_id(id);
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

/// The configuration for the workspace a session is taken up in, and that workspace where it had to be named.
async fn config_of(
    session: &str,
    here: &HereArgs,
    environment: Environment,
    person: AtTerminal,
) -> Result<(Config, Option<PathBuf>), Failure> {
    let root = folder_of(session, here.workspace.as_deref(), &environment, person).await?;
    let config = Host::of(&environment)?.config_for((session, root.as_deref()), environment, &[])?;
    super::config::warn(&config, person.output);
    Ok((config, root))
}

/// Nobody works without a sandbox unawares.
pub(super) fn warn_of_sandbox(handle: &Handle, is_quiet: bool, output: Output) {
    let sandbox = handle.sandbox();
    if !sandbox.is_confining() {
        output.alarm(&format!("UNCONFINED: {}", sandbox.gaps.join("; ")));
    }
    if !is_quiet {
        tell_of_place(handle.notes(), output);
    }
}

/// What people have to know of how a workspace was opened.
fn tell_of_place(told: &[String], output: Output) {
    told.iter().for_each(|line| output.note(line));
}
