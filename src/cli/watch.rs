//! Follows a running session to its end: shows it, answers for the person, and turns the end into an exit code.

mod answers;
mod ends;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use crate::cli::desk::{Desk, Said};
use crate::cli::error::{DONE, FAILED, Failure, INTERRUPTED, LIMIT, PAUSED, USAGE};
use crate::cli::interrupts::Interrupts;
use crate::cli::live_line::LiveLine;
use crate::cli::output::Output;
use crate::cli::plain::{self, Options, Renderer};
use crate::cli::plan::ShowPlan;
use crate::cli::whole_file;
use crate::host::{Ending, Handle, Update, Updates};
use crate::projection::cache_summary::CacheSheet;
use crate::projection::phrases;
use crate::projection::report;
use crate::projection::squad::SquadSheet;
use crate::projection::{Board, Costs};
use crate::protocol::event::{ArenaEvent, CacheStep, TurnCause};
use crate::protocol::spec::Mode;
use crate::protocol::text::unfenced;
use crate::protocol::{CallId, Command, Entry, EventRef, Signal, StopCause};

/// One view on one session.
pub struct Watch {
    output: Output,
    show: ShowPlan,
    /// True when the story is told on standard error as it happens.
    tells: bool,
    live: LiveLine,
    renderer: Renderer,
    board: Board,
    costs: Costs,
    squad: SquadSheet,
    cache: CacheSheet,
    /// Entries of the newest task, and before it those that hold settings: what the end is told from.
    entries: Vec<Arc<Entry>>,
    /// Position of the first entry that was made here.
    first: u64,
    /// The person at the terminal, and the ask that was last put to them.
    desk: Option<Desk>,
    asking: Option<CallId>,
    /// Where rules are kept.
    rules_file: Option<PathBuf>,
    /// True once the turn this view waits for is closed.
    is_closed: bool,
    /// True when the last prompt asked for an answer that fits a schema.
    is_typed: bool,
    /// True once a signal asked for the end.
    is_interrupted: bool,
    /// True once the answer stands in the file that was asked for.
    is_kept: std::cell::Cell<bool>,
}

/// What woke the view.
enum News {
    Update(Update),
    Said(Said),
    Interrupt,
}

impl Watch {
    /// A view that has seen nothing yet.
    pub fn new(output: Output, show: ShowPlan) -> Self {
        let tells = output.is_live() && !show.json && !show.loud.quiet;
        let desk = (show.answers().has_people()).then(Desk::default);
        let (color, columns) = (output.has_colour(), output.talk_columns());
        let options =
            Options { color, summed_up: true, columns, full: show.loud.verbose, ..Options::default() };
        Watch {
            output,
            show,
            tells,
            live: LiveLine::new(tells, output),
            renderer: Renderer::new(options),
            board: Board::default(),
            costs: Costs::default(),
            squad: SquadSheet::default(),
            cache: CacheSheet::default(),
            entries: Vec::new(),
            first: 0,
            desk,
            asking: None,
            rules_file: None,
            is_closed: false,
            is_typed: false,
            is_interrupted: false,
            is_kept: std::cell::Cell::new(false),
        }
    }

    /// Tells the story even where standard error is no terminal.
    #[must_use]
    pub fn telling(mut self) -> Self {
        self.tells = !self.show.json && !self.show.loud.quiet;
        self.live = LiveLine::new(self.tells, self.output);
        self
    }

    /// Gives the first command, if any, and follows the session to its end.
    pub async fn follow(mut self, handle: Handle, first: Option<Command>) -> Result<u8, Failure> {
        super::run::warn_of_sandbox(&handle, self.show.loud.quiet, self.output);
        self.first = handle.recorded();
        let mut updates = handle.subscribe(0);
        let mut signals = Interrupts::listen()?;
        if let Some(command) = first {
            handle.command(command).await?;
        }
        let ending = loop {
            let news = next(&mut updates, &mut signals, &mut self.desk).await?;
            if let News::Update(Update::Signal(signal)) = news {
                self.signal(&signal)?;
                continue;
            }
            self.live.clear(self.output);
            match news {
                News::Update(Update::Entries(entries)) => self.take(&handle, entries)?,
                News::Update(Update::NotTaken(words)) => self.output.warn(&words),
                News::Update(Update::Signal(_)) => {}
                News::Update(Update::Ended(ending)) => break ending,
                News::Said(Said::Gone) => {
                    // Nobody can answer any more: the question stays open for a resume.
                    handle.cut_off().await;
                    break Ending::Paused;
                }
                News::Said(said) => self.hear(said, &handle).await,
                News::Interrupt if self.is_interrupted => {
                    handle.cut_off().await;
                    break Ending::Stopped;
                }
                // The roles' conversations would be lost with the turn: it stays open, as after a crash.
                News::Interrupt if self.squad.is_squad && self.board.cause.is_none() => {
                    self.is_interrupted = true;
                    self.output.say("interrupted; the turn stays open");
                    handle.pause().await;
                }
                News::Interrupt => {
                    self.is_interrupted = true;
                    self.output.say(match matches!(self.board.mode, Some(Mode::Debate(_))) {
                        true => "interrupted; the debate ends with what it reached (once more: it waits for nothing)",
                        false => "interrupted; once more ends it at once",
                    });
                    // A session that ended meanwhile needs no stop.
                    let _ = handle.command(Command::Stop { cause: StopCause::Interrupted }).await;
                }
            }
            self.act(&handle).await;
        };
        // What was recorded until a hard end.
        loop {
            match updates.next().await.map_err(unread)? {
                Update::Entries(entries) => self.take(&handle, entries)?,
                Update::Signal(_) | Update::NotTaken(_) => {}
                Update::Ended(_) => break,
            }
        }
        self.finish(&handle, ending)
    }

    /// Takes entries in, and prints their lines as they are recorded where the log is asked for.
    fn take(&mut self, handle: &Handle, entries: Vec<Arc<Entry>>) -> Result<(), Failure> {
        let Some(last) = entries.last().map(|entry| entry.seq) else { return Ok(()) };
        let from = entries[0].seq.max(self.first);
        if self.show.json && from <= last {
            let (mut seq, mut printed) = (from, Ok(()));
            let read = handle.lines(from, &mut |line| {
                printed = self.output.json_lines(line);
                seq += 1;
                printed.is_ok() && seq <= last
            });
            read.map_err(unread)?;
            printed?;
        }
        for entry in entries {
            self.remember(&entry);
            if entry.seq < self.first {
                self.renderer.skip(&entry);
                self.fold(&entry);
                self.is_closed = false;
                continue;
            }
            if !self.tells && !self.show.loud.quiet {
                let lines = self.renderer.beginning(&entry, &|at| event(&self.entries, at));
                lines.iter().for_each(|line| self.output.say(line));
                self.renderer.skip(&entry);
            }
            self.tell(&entry);
            if !self.show.loud.quiet {
                let notes = entry.effective().flat_map(|(_, event)| event.told());
                notes.for_each(|line| self.output.note(line));
            }
            self.fold(&entry);
            self.tell_of_unused_run(&entry);
        }
        Ok(())
    }

    /// A new task drops what went before, so that a long session takes no more room than its longest turn.
    fn remember(&mut self, entry: &Arc<Entry>) {
        use ArenaEvent as E;
        if matches!(entry.fact(), Some(E::PromptGiven(_))) && !entry.is_void() {
            let has_settings = |fact: &E| matches!(fact, E::SessionOpened(_)) || !fact.changed().is_empty();
            self.entries.retain(|kept| kept.fact().is_some_and(has_settings));
        }
        self.entries.push(Arc::clone(entry));
    }

    /// Says before the first model call that a recorded run is not used after all: who allowed it to be applied
    /// allowed no spending.
    fn tell_of_unused_run(&self, entry: &Entry) {
        let reason = entry.effective().find_map(|(_, event)| match event {
            ArenaEvent::CacheSkipped(data) if data.step == CacheStep::Use => Some(data.reason.clone()),
            ArenaEvent::PatchRefused(data) if data.body.path.is_empty() => Some(data.body.reason.clone()),
            ArenaEvent::PatchRefused(data) => Some(format!("{}: {}", data.body.path, data.body.reason)),
            _ => None,
        });
        if let Some(reason) = reason.filter(|_| !self.show.json) {
            self.output.warn(&format!(
                "the recorded run is not used: {reason}; the squad works now and calls its models"
            ));
        }
    }

    fn tell(&mut self, entry: &Entry) {
        if self.tells {
            let entries = &self.entries;
            let text = self.renderer.entry(entry, &|at| event(entries, at));
            // The question is put anew beneath what comes in its way.
            if !text.is_empty() && self.asking.take().is_some() {
                self.output.tell("\n");
            }
            self.output.tell(&text);
        }
    }

    fn fold(&mut self, entry: &Entry) {
        self.board.apply(entry);
        self.costs.apply(entry);
        self.squad.apply(entry);
        self.cache.apply(entry);
        for (_, event) in entry.effective() {
            match event {
                ArenaEvent::TurnClosed(_) => self.is_closed = true,
                ArenaEvent::PromptGiven(given) => {
                    self.is_closed = false;
                    self.is_typed = given.schema.is_some();
                }
                _ => {}
            }
        }
    }

    /// Asks the person for the next answer and ends the session once the turn is closed.
    async fn act(&mut self, handle: &Handle) {
        let question = self.board.questions().next().map(|open| open.call);
        let approval = self.open_ask(handle).map(|ask| ask.call);
        if let Some(call) = approval.or(question)
            && let Some(desk) = &mut self.desk
            && self.asking != Some(call)
        {
            match approval {
                Some(_) => desk.ask(self.output),
                None => desk.ask_words(self.output),
            }
            self.asking = Some(call);
        }
        if std::mem::take(&mut self.is_closed) && !self.is_interrupted {
            // A session that ended meanwhile needs no stop.
            let _ = handle.command(Command::Stop { cause: StopCause::Finished }).await;
        }
    }

    fn signal(&mut self, signal: &Signal) -> Result<(), Failure> {
        self.board.hint(signal);
        if self.asking.is_none() {
            self.live.show(&self.board, signal, self.output);
        }
        if self.show.json && self.show.signals {
            let line = serde_json::to_string(&serde_json::json!({ "signal": signal }))?;
            self.output.json_lines((line + "\n").as_bytes())?;
        }
        Ok(())
    }

    /// Prints the answer and the summary.
    fn finish(&self, handle: &Handle, ending: Ending) -> Result<u8, Failure> {
        let (debate, id) = (self.debate(), phrases::short_id(handle.id()));
        let costs = match ending {
            // Nobody waits any more for what still runs.
            Ending::Stopped => self.costs.clone().at_the_end(),
            _ => self.costs.clone(),
        };
        if let Some(debate) = &debate {
            let outcome = report::plain::outcome(debate);
            match &ending {
                Ending::Sealed(Some(_)) if debate.verdict.is_some() => self.answer(&outcome)?,
                _ => self.output.tell(&format!("\n{outcome}\n")),
            }
        } else if let Ending::Sealed(Some(closed)) = &ending
            && let Some(text) = closed.answer.and_then(|answer| event(&self.entries, answer)?.answer_text())
        {
            // A typed answer is for a program: without the fence that models like to put around JSON.
            match (self.squad.is_squad, self.is_typed) {
                (true, _) => self.answer(&self.squad.words(unfenced(&text)))?,
                (false, true) => self.answer(unfenced(&text))?,
                // The story has just told it on the same terminal.
                (false, false) if self.tells && self.output.is_terminal() => self.keep(&text)?,
                (false, false) => self.answer(&text)?,
            }
        } else if let Some(standing) = self.standing(&ending) {
            match self.is_typed {
                true => self.output.tell(&format!("\n{standing}\n")),
                false => self.answer(&standing)?,
            }
        }
        if let Some(file) = self.show.output.as_ref().filter(|_| !self.is_kept.get()) {
            let old = if file.exists() { "; what it held before is still there" } else { "" };
            self.output.warn(&format!("nothing was written to `{}`{old}", file.display()));
        }
        for flag in self.squad.flags.iter().filter(|flag| !self.squad.is_squad && flag.said.is_some()) {
            self.output.warn(&format!("{}: {}", phrases::claim_named(flag), flag.reason));
        }
        let complaint = self.complaint(&ending, debate.as_ref(), id);
        if let Some((words, _)) = &complaint {
            self.output.say(&format!("error: {words}"));
        }
        // What is lacking has just been said.
        let lacks = self.squad.lacks().filter(|_| complaint.is_none());
        let team = plain::TeamWords { lacks, cache: self.cache.words() };
        self.sum_up(&costs, &team, handle);
        match ending {
            Ending::Failed(error) => {
                let code = exit_code(&Ending::Failed(error.clone()), self.is_interrupted);
                Err(Failure::new(code, error).hint(format!("agon resume {id}{}", self.show.held)))
            }
            Ending::Paused => {
                let opens = self.board.approvals.iter().flat_map(|ask| &ask.opens);
                let needs: String = opens.map(|need| format!(" --allow {need}")).collect();
                let flag = match self.board.approvals.is_empty() && self.board.questions().next().is_some() {
                    true => " --answer TEXT",
                    false => "",
                };
                let yes = if flag.is_empty() || self.show.yes.is_some() { " --yes" } else { "" };
                if !needs.is_empty() {
                    let one = format!("hint: agon resume {id}{}  # asks you at the terminal", self.show.held);
                    self.output.say(&format!("{one}; the next line allows every call with these needs"));
                }
                self.output.say(&format!("hint: agon resume {id}{}{needs}{flag}{yes}", self.show.held));
                Ok(PAUSED)
            }
            ending => {
                let go_on = self.go_on(&ending, id);
                if let Some(hint) = complaint.map(|(_, hint)| hint).or(go_on) {
                    self.output.say(&format!("hint: {hint}"));
                }
                Ok(exit_code(&ending, self.is_interrupted))
            }
        }
    }

    /// The end of the talk: a line, or all there is to know.
    fn sum_up(&self, costs: &Costs, team: &plain::TeamWords, handle: &Handle) {
        let loud = self.show.loud;
        if loud.quiet {
            return;
        }
        if !loud.verbose {
            return self.output.tell(&plain::trailer(&self.board, costs, team));
        }
        let is_team = self.squad.is_squad || matches!(self.board.mode, Some(Mode::Debate(_)));
        if is_team && self.costs.total.calls > 0 {
            self.output.tell(&plain::role_table(costs));
        }
        self.output.tell(&plain::ending(&self.board, costs, team, Some(&handle.head())));
    }

    fn answer(&self, text: &str) -> Result<(), Failure> {
        if !self.show.json {
            self.output.answer(&line_of(text))?;
        }
        self.keep(text)
    }

    /// Writes the answer to the file that was asked for.
    fn keep(&self, text: &str) -> Result<(), Failure> {
        if let Some(file) = &self.show.output {
            let written = whole_file::write_whole(file, line_of(text).as_bytes());
            let written = written.with_context(|| format!("cannot write the answer to `{}`", file.display()));
            written.map_err(|error| Failure::new(USAGE, error))?;
            self.is_kept.set(true);
        }
        Ok(())
    }
}

fn line_of(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

/// Makes sure, before anything is asked of a model, that an answer can be written there.
pub(super) fn check_target(file: &Path) -> Result<(), Failure> {
    let checked = whole_file::check(file);
    let checked = checked.with_context(|| format!("cannot write the answer to `{}`", file.display()));
    checked.map_err(|error| Failure::new(USAGE, error))
}

/// The exit code of an end. A log that can no longer be written is the system's refusal, not the agents'.
pub fn exit_code(ending: &Ending, is_interrupted: bool) -> u8 {
    match ending {
        _ if is_interrupted => INTERRUPTED,
        Ending::Sealed(Some(closed)) => match closed.cause {
            TurnCause::Done => DONE,
            TurnCause::Limit => LIMIT,
            TurnCause::Interrupted | TurnCause::Stopped => INTERRUPTED,
            _ => FAILED,
        },
        Ending::Sealed(None) => FAILED,
        Ending::Paused => PAUSED,
        Ending::Stopped => INTERRUPTED,
        Ending::Failed(_) => USAGE,
    }
}

/// Finds an event among the entries that are kept.
fn event(entries: &[Arc<Entry>], at: EventRef) -> Option<&ArenaEvent> {
    let place = entries.binary_search_by_key(&at.seq, |entry| entry.seq).ok()?;
    entries.get(place)?.events.get(usize::from(at.i))
}

fn unread(error: std::io::Error) -> Failure {
    Failure::new(USAGE, anyhow::Error::from(error).context("cannot read the log back"))
}

/// Waits for whatever comes first.
async fn next(
    updates: &mut Updates,
    interrupts: &mut Interrupts,
    desk: &mut Option<Desk>,
) -> Result<News, Failure> {
    let said = async {
        match desk {
            Some(desk) => desk.said().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = interrupts.next() => Ok(News::Interrupt),
        update = updates.next() => update.map(News::Update).map_err(unread),
        said = said => Ok(News::Said(said)),
    }
}
