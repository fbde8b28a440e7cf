//! Subagents: a spark's call of `spawn` gives a task to a spark of its own, whose end is the call's result. A subagent
//! shares the workspace and only looks. It never has a right that its parent lacks: what it is given is held against what
//! its parent has each time it is asked for.

use crate::protocol::event::{ArenaEvent, Notice, RefusalReason, SparkIgnited, ToolUse};
use crate::protocol::fit;
use crate::protocol::inside::{Inside, InsideCall, Spawn};
use crate::protocol::spec::{Mode, PermissionLevel, Risk, Spec, ToolSpec, is_chosen, names_tools};
use crate::protocol::subagent::Delegated;
use crate::protocol::{EventRef, SparkId};
use serde_json::Value;

use super::Session;
use super::state::{Spark, Use, UseState};

/// How often a task is passed on at most, whatever the limits say.
pub(super) const DEEPEST: u32 = 8;

/// What a subagent hears after its task.
const BRIEF: &str = "You are a subagent: another agent gave you the task above, and your last message, without tool \
calls, is all that it gets from you. You share its workspace and only look: you cannot change anything, and no \
person answers questions. Do the task and nothing else, then answer short and complete, and cite the references of the results \
that your answer rests on.";

const LAST_STEP: &str = "This is your last step. Answer now with what you have found, without calling tools, and say \
what is missing.";

impl Session {
    /// What a spark is given as a subagent; none for one that works for the person.
    pub(super) fn delegated(&self, id: SparkId) -> Option<&Delegated> {
        self.sparks.get(&id)?.delegated.as_deref()
    }

    /// Gives a task to a subagent, unless as many as there may be are at work: then the call waits.
    pub(super) fn delegate(&mut self, parent: SparkId, one: &Use, wanted: &Spawn) {
        let Some(spec) = self.spec.clone() else { return };
        let limits = &spec.limits.subagents;
        let Some((waiting, at_work)) = self.ahead_of(parent, one.id) else { return };
        let begun = self.turn.as_ref().map(|turn| turn.subagents).unwrap_or_default();
        if begun.saturating_add(waiting) >= limits.total {
            let text = format!("a turn has at most {} subagents; do the rest yourself", limits.total);
            return self.refuse(one.id, RefusalReason::Limit, text);
        }
        let made = match self.subagent(parent, one.id, wanted, &spec) {
            Err(why) => return self.refuse(one.id, RefusalReason::BadArguments, why),
            Ok(_) if at_work >= limits.at_once.max(1) => return,
            Ok(made) => made,
        };
        let (id, model) = (made.spark, made.model.clone());
        self.emit(ArenaEvent::SparkIgnited(made));
        self.notice(id, Notice::Subagent, BRIEF);
        self.brief_on_schema(id, &model);
        self.think(id);
    }

    /// How many calls of a spark wait for a subagent before this one, and how many subagents it has at work.
    fn ahead_of(&self, parent: SparkId, one: ToolUse) -> Option<(u32, u32)> {
        let uses = &self.sparks.get(&parent)?.uses;
        let earlier = uses.iter().take_while(|earlier| earlier.id != one);
        let spawns = |earlier: &&Use| self.inside(earlier) == Some(Inside::Spawn);
        let waiting = earlier.filter(|earlier| earlier.state == UseState::Waiting).filter(spawns).count();
        let at_work = uses.iter().filter(|one| matches!(one.state, UseState::Delegated(_))).count();
        Some((u32::try_from(waiting).unwrap_or(u32::MAX), u32::try_from(at_work).unwrap_or(u32::MAX)))
    }

    /// The subagent that a call asks for, or why there is none; the words are for the model.
    fn subagent(
        &self,
        parent: SparkId,
        tool_use: ToolUse,
        wanted: &Spawn,
        spec: &Spec,
    ) -> Result<SparkIgnited, String> {
        let of = self.sparks.get(&parent).ok_or("its spark is gone")?;
        let persona = match &wanted.persona {
            Some(id) if spec.personas.iter().any(|known| known.id == *id) => id.clone(),
            Some(id) => return Err(unknown("persona", id, spec.personas.iter().map(|one| one.id.as_str()))),
            None => of.persona.clone(),
        };
        let model = match &wanted.model {
            Some(name) if self.model_spec(name).is_some() => name.clone(),
            Some(name) => {
                return Err(unknown("model", name, spec.models.iter().map(|one| one.name.as_str())));
            }
            None => {
                let own = spec.personas.iter().find(|one| one.id == persona && wanted.persona.is_some());
                let own = own.and_then(|own| own.model.clone());
                own.filter(|own| self.model_spec(own).is_some()).unwrap_or_else(|| of.model.clone())
            }
        };
        if let Some(Err(why)) = wanted.answer.as_ref().map(fit::is_schema) {
            return Err(format!("`answer` is not a JSON Schema: {why}"));
        }
        let (level, most) = (self.level_of(parent), spec.limits.subagents.max_steps);
        let permission = wanted.permission.unwrap_or(level);
        if permission.stricter(level) != permission {
            return Err(format!(
                "the permission level is `{}`, and a subagent has no higher one",
                level.word()
            ));
        }
        Ok(SparkIgnited {
            spark: SparkId(self.next_spark),
            role: self.subagent_name(wanted),
            persona: persona.clone(),
            model,
            delegated: Some(Box::new(Delegated {
                parent,
                tool_use,
                depth: self.delegated(parent).map_or(0, |above| above.depth).saturating_add(1),
                tools: self.tools_given(of, &persona, wanted, spec)?,
                permission,
                max_steps: wanted.max_steps.map_or(most, |steps| steps.min(most)),
            })),
            ..SparkIgnited::default()
        })
    }

    /// No role and no persona has a name with a blank, so that no subagent is taken for one of them.
    fn subagent_name(&self, wanted: &Spawn) -> String {
        let number = self.turn.as_ref().map_or(1, |turn| turn.subagents.saturating_add(1));
        let name = wanted.short_name().unwrap_or_else(|| number.to_string());
        let name = format!("agent {name}");
        match self.sparks.values().any(|spark| spark.role == name) {
            true => format!("{name}-{number}"),
            false => name,
        }
    }

    /// The tools of its parent that a subagent gets: those that only look, as the call and its persona choose.
    fn tools_given(
        &self,
        parent: &Spark,
        persona: &str,
        wanted: &Spawn,
        spec: &Spec,
    ) -> Result<Vec<String>, String> {
        let theirs: Vec<&ToolSpec> = self.offered_to(parent).map(|tool| &tool.spec).collect();
        for entry in wanted.tools.iter().flatten() {
            if !names_tools(entry, theirs.iter().copied()) {
                return Err(unknown("tool", entry, theirs.iter().map(|tool| tool.name.as_str())));
            }
            if theirs.iter().any(|tool| tool.name == *entry && !only_looks(tool)) {
                return Err(format!("`{entry}` is not for subagents, which only look; use it yourself"));
            }
        }
        let persona = spec.personas.iter().find(|known| known.id == persona);
        let of_persona = persona.and_then(|persona| persona.tools.as_deref());
        let is_given = |tool: &&&ToolSpec| {
            only_looks(tool)
                && wanted.tools.as_deref().is_none_or(|list| is_chosen(list, tool))
                && of_persona.is_none_or(|list| is_chosen(list, tool))
        };
        Ok(theirs.iter().filter(is_given).map(|tool| tool.name.clone()).collect())
    }

    /// True for a tool of this kind that agon answers a spark of this depth.
    pub(super) fn answers_inside(&self, inside: Inside, depth: u32) -> bool {
        let is_alone = self.turn.as_ref().is_none_or(|turn| turn.mode == Mode::Solo);
        let limits = self.spec.as_ref().map(|spec| &spec.limits.subagents);
        is_alone
            && match inside {
                Inside::Spawn => {
                    limits.is_some_and(|limits| depth < limits.depth.min(DEEPEST) && limits.total > 0)
                }
                // A person is asked, and a list is shown, by the one agent they talk with.
                _ => depth == 0,
            }
    }

    /// The tools that a subagent's parent has now; none for a spark that works for the person.
    pub(super) fn tools_above(&self, spark: &Spark) -> Option<Vec<&str>> {
        let parent = self.sparks.get(&spark.delegated.as_ref()?.parent);
        Some(parent.map(|parent| self.tools_for(parent).collect()).unwrap_or_default())
    }

    /// The permission level of a spark: the session's, as far as nothing above it is stricter.
    pub(super) fn level_of(&self, id: SparkId) -> PermissionLevel {
        let level = self.spec.as_ref().map(|spec| spec.permission).unwrap_or_default();
        let above = self.delegated(id).map(|own| own.permission.stricter(self.level_of(own.parent)));
        above.map_or(level, |above| above.stricter(level))
    }

    /// Model calls that a subagent may still make.
    pub(super) fn steps_left(&self, id: SparkId) -> Option<u32> {
        let spark = self.sparks.get(&id)?;
        Some(spark.delegated.as_ref()?.max_steps.saturating_sub(spark.steps))
    }

    /// What a subagent found is lost unless it says so in time.
    pub(super) fn ask_for_last_words(&mut self, id: SparkId) {
        let is_new = self.sparks.get(&id).is_some_and(|spark| spark.steps == 0);
        if self.steps_left(id) == Some(1) && !is_new {
            self.notice(id, Notice::Subagent, LAST_STEP);
        }
    }

    /// The event that a spark's task is in: the prompt, or the call that gives it to a subagent.
    pub(super) fn task_of(&self, id: SparkId) -> Option<EventRef> {
        let given = self.delegated(id).map(|delegated| delegated.tool_use.answer);
        given.or_else(|| self.turn.as_ref().map(|turn| turn.prompt))
    }

    /// Open sparks, a subagent before the spark that waits for it.
    pub(super) fn open_sparks(&self) -> Vec<SparkId> {
        let open = self.sparks.iter().filter(|(_, spark)| spark.completed.is_none());
        let (mut below, others): (Vec<SparkId>, Vec<SparkId>) =
            open.map(|(id, _)| *id).partition(|id| self.delegated(*id).is_some());
        below.reverse();
        below.extend(others);
        below
    }

    /// True while a spark waits for a subagent.
    pub(super) fn has_subagents(&self, id: SparkId) -> bool {
        let waits = |spark: &Spark| {
            spark.completed.is_none() && spark.delegated.as_ref().is_some_and(|of| of.parent == id)
        };
        self.sparks.values().any(waits)
    }

    /// A subagent's end is the result of the call that waited for it.
    pub(super) fn report_back(&mut self, tool_use: ToolUse, ended: EventRef) {
        let parent = self.owner(tool_use);
        self.answer_use(tool_use, ended);
        if parent.is_some_and(|parent| !self.is_stopping(parent)) {
            self.advance();
        }
    }

    /// The JSON Schema that a subagent's answer must fit.
    pub(super) fn subagent_schema(&self, delegated: &Delegated) -> Option<Value> {
        let (_, args) = self.asked(delegated.tool_use)?;
        match Inside::Spawn.read(args).ok()? {
            InsideCall::Spawn(wanted) => wanted.answer,
            _ => None,
        }
    }
}

fn only_looks(tool: &ToolSpec) -> bool {
    match tool.inside {
        None => matches!(tool.risk, Risk::Read | Risk::Network),
        Some(inside) => inside == Inside::Spawn,
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let hint = fit::did_you_mean(name, &known);
    format!("there is no {what} `{name}` to give{hint}; there are: {}", known.join(", "))
}
