//! What the session adds to an order so that a worker can do it: from what is folded, again at every resume.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::effect::{
    Bare, CheckContext, DiffContext, Effect, FinishedRun, GateContext, GateOrder, HostRule, MentionContext,
    ModelContext, ModelOrder, Order, ToolCall,
};
use crate::protocol::event::{ArenaEvent, PathBase, Selected, ToolUse};
use crate::protocol::expand::declaration;
use crate::protocol::message::{Args, Pictures, Request, ToolDecl};
use crate::protocol::spec::{Limits, PermissionLevel, Risk, WorkspaceSpec};
use crate::protocol::{CallId, EventRef, SparkId};

use super::state::Call;
use super::{Session, policy};

impl Session {
    /// The whole effect of an outstanding call, or none when it is not outstanding.
    pub fn effect(&self, call: CallId) -> Option<Effect> {
        let call = self.calls.get(&call).filter(|call| !call.is_waiting())?;
        let limits = &self.spec.as_ref()?.limits;
        Some(match call.order.clone() {
            Order::Model(order) => Effect::Model { context: self.request(call, &order, limits)?, order },
            Order::Prepare(order) => {
                Effect::Prepare { context: self.tool_call(call, order.tool_use)?, order }
            }
            Order::Tool(order) => Effect::Tool { context: self.tool_call(call, order.tool_use)?, order },
            Order::Check(order) => Effect::Check { context: self.check(limits), order },
            Order::Mention(order) => Effect::Mention { context: self.reader()?, order },
            Order::CachePut(order) => Effect::CachePut { context: self.finished_run(order.answer)?, order },
            Order::Ask(order) => Effect::Ask { order, context: Bare },
            Order::Background(order) => Effect::Background { order, context: Bare },
            Order::Gate(order) => Effect::Gate { context: self.judged(call, &order)?, order },
            Order::Question(order) => Effect::Question { order, context: Bare },
            Order::Timer(order) => Effect::Timer { order, context: Bare },
            Order::Tools(order) => Effect::Tools { order, context: Bare },
            Order::Fingerprint(order) => Effect::Fingerprint { order, context: Bare },
            Order::Checkpoint(order) => Effect::Checkpoint { order, context: Bare },
            Order::Diff(order) => {
                Effect::Diff { order, context: DiffContext { output_cap: self.most_shown(1) } }
            }
            Order::CacheGet(order) => Effect::CacheGet { order, context: Bare },
            Order::Patch(order) => Effect::Patch { order, context: Bare },
            Order::Unknown(_) => return None,
        })
    }

    /// What was ordered with an outstanding call.
    pub fn order_of(&self, call: CallId) -> Option<&Order> {
        self.calls.get(&call).map(|call| &call.order)
    }

    fn request(&self, call: &Call, order: &ModelOrder, limits: &Limits) -> Option<ModelContext> {
        let ArenaEvent::ModelCalled(called) = self.event(order.called)? else { return None };
        let request = Request {
            spark: self.sparks.get(&called.spark).map(|s| s.role.clone()).unwrap_or_default(),
            model: called.model.clone(),
            params: called.params.clone(),
            messages: call.request.messages(&|at| self.event(at)).ok()?,
            tools: called.tools.iter().map(|tool| self.declared(tool)).collect::<Option<_>>()?,
            pictures: Pictures::default(),
        };
        let takes_images = self.model_spec(&called.model).is_some_and(|model| model.images);
        Some(ModelContext { request, timeout_ms: limits.model_timeout_ms, takes_images })
    }

    fn declared(&self, tool: &Selected) -> Option<Arc<ToolDecl>> {
        let known = self.places.declaration(tool).cloned();
        known.or_else(|| declaration(tool, &|at| self.event(at)).ok().map(Arc::new))
    }

    fn check(&self, limits: &Limits) -> CheckContext {
        CheckContext { timeout_ms: limits.tool_timeout_ms, output_cap: self.most_shown(1) }
    }

    fn judged(&self, call: &Call, order: &GateOrder) -> Option<GateContext> {
        let plan = self.plan(order.prepared)?.clone();
        Some(GateContext { call: self.tool_call(call, order.tool_use)?, plan })
    }

    fn reader(&self) -> Option<MentionContext> {
        Some(MentionContext {
            denied: policy::denied_to_reader(&self.spec.as_ref()?.policy, self.foreign_words),
            output_cap: self.most_shown(self.mentions()),
        })
    }

    /// What the open turn came to, for the team cache.
    fn finished_run(&self, answer: EventRef) -> Option<FinishedRun> {
        let ArenaEvent::ModelAnswered(answered) = self.event(answer)? else { return None };
        let (turn, squad) = (self.turn.as_ref()?, self.squad.as_ref()?);
        let (tokens, micro_usd) = turn.spent_before;
        let sparks = squad.roles.iter().filter_map(|role| role.spark);
        let models: BTreeSet<String> =
            sparks.filter_map(|id| self.sparks.get(&id)).map(|spark| spark.model.clone()).collect();
        Some(FinishedRun {
            session: self.id.clone(),
            request: self.asked_for(),
            answer: answered.body.text(),
            ran_commands: !squad.runs.is_empty() || squad.ran_command,
            calls: turn.steps,
            tokens: self.ledger.tokens.saturating_sub(tokens),
            micro_usd: self.ledger.micro_usd.saturating_sub(micro_usd),
            models: models.into_iter().collect(),
            flags: squad.flags.clone(),
        })
    }

    /// What the person asked for in the open turn.
    fn asked_for(&self) -> String {
        match self.turn.as_ref().and_then(|turn| self.event(turn.prompt)) {
            Some(ArenaEvent::PromptGiven(data)) => data.text.clone(),
            _ => String::new(),
        }
    }

    fn tool_call(&self, call: &Call, tool_use: ToolUse) -> Option<ToolCall> {
        let spark = call.spark?;
        let (name, args) = self.asked(tool_use)?;
        let Args::Json(args) = args else { return None };
        let tool = &self.places.tools.get(name)?.spec;
        // A command may only put back what was written here; what was read may hold a person's work.
        let known = self.sparks.get(&spark)?;
        let bases = if name == "bash" { &known.written } else { &known.seen };
        // The recorded tool may be wrong about itself; what was prepared here is not.
        let one = self.sparks.get(&spark)?.uses.iter().find(|one| one.id == tool_use);
        let risks: Vec<Risk> = one.and_then(|one| one.risk).into_iter().chain([tool.risk]).collect();
        // Other tools may mean something else by that name.
        let asked_ms = (name == "bash").then(|| args["timeout_ms"].as_u64()).flatten();
        Some(ToolCall {
            tool_use,
            spark,
            tool: name.to_owned(),
            // What an argument of another program's tool means is that program's to say.
            args: if tool.source.is_none() { self.at_home(args) } else { args.clone() },
            bases: bases
                .iter()
                .map(|(path, sha256)| PathBase { path: path.clone(), sha256: sha256.clone() })
                .collect(),
            place: self.place_of(spark),
            denied: policy::denied_paths(&self.spec.as_ref()?.policy, name, &risks),
            hosts: one
                .and_then(|one| one.plan.as_ref())
                .map_or_else(Vec::new, |(at, _)| self.hosts_for(spark, name, *at)),
            timeout_ms: self.spec.as_ref()?.limits.command_ms(asked_ms),
            output_cap: tool.output_cap.min(self.most_shown_to(spark)),
        })
    }

    /// What rules and grants say of hosts that a prepared call connects to.
    pub(super) fn hosts_for(&self, spark: SparkId, tool: &str, prepared: EventRef) -> Vec<HostRule> {
        let judged = self.rights(spark).zip(self.plan(prepared));
        judged.map(|(rights, plan)| policy::on_hosts(&rights, tool, plan)).unwrap_or_default()
    }

    /// Arguments whose paths beneath a folder that this session is a copy from are paths of its own workspace: what
    /// a spark read before the copy was made names the folder of then.
    fn at_home(&self, args: &Value) -> Value {
        let mut args = args.clone();
        for name in ["path", "cwd"] {
            let Some(Value::String(path)) = args.get_mut(name) else { continue };
            let inside = self.former_roots.iter().find_map(|root| Path::new(&*path).strip_prefix(root).ok());
            if let Some(inside) = inside {
                *path = inside.to_string_lossy().into_owned();
            }
        }
        args
    }

    /// The place of its own that a spark's calls run in: its role's, or that of the level `plan`.
    pub(super) fn place_of(&self, spark: SparkId) -> Option<String> {
        let squad = self.squad.as_ref();
        let role = squad.and_then(|squad| squad.roles.get(squad.role_of(spark)?)).map(|role| &role.spec);
        if let Some(role) = role.filter(|role| role.has_place()) {
            return Some(role.name.clone());
        }
        let spec = self.spec.as_deref()?;
        let plans = self.level_of(spark) == PermissionLevel::Plan && spec.workspace.holds_plans();
        plans.then(|| WorkspaceSpec::PLANNING.to_owned())
    }
}
