//! What the policy says to a call before it is made: the lines of the order of judgement, one by one.

use crate::assembly::{self, WireError};
use crate::config::{Config, SandboxKind};
use crate::protocol::event::{PathBase, Plan};
use crate::protocol::need::Need;
use crate::protocol::spec::{PermissionLevel, Risk, Rule};
use crate::session::policy::{self, Line, Rights, Ruling, Shelter};

/// A call in words, `TOOL: COMMAND or PATH`, with what else it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The command line, or the path.
    pub object: String,
    /// Further needs, by the names rules have for them.
    pub needs: Vec<Need>,
}

/// What is said to it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The level it is judged at.
    pub level: PermissionLevel,
    /// The sandbox it would run in, and why it is that one where it is weaker than wanted.
    pub sandbox: String,
    /// Everything it needs.
    pub needs: Vec<Need>,
    /// The simple commands of its line; none where the line is not fully understood, or there is none.
    pub commands: Option<Vec<String>>,
    /// Each line of the order with what it says, if it speaks.
    pub lines: Vec<(Line, Option<Ruling>)>,
    /// The needs that `--yes` does not answer.
    pub opens: Vec<String>,
}

impl Explained {
    /// The line that decides.
    pub fn ruling(&self) -> Option<&Ruling> {
        self.lines.iter().find_map(|(_, ruling)| ruling.as_ref())
    }
}

/// Judges a call as a new session here would. `rules` are those besides the configuration's.
pub async fn explain(config: &Config, call: &Call, rules: &[Rule]) -> Result<Explained, WireError> {
    let mut needs = call.needs.clone();
    let risk = risk_of(&call.tool)?;
    let file = || PathBase { path: call.object.clone(), sha256: None };
    needs.insert(
        0,
        match risk {
            Risk::Read => Need::Read(file()),
            Risk::Write => Need::Write(file()),
            _ if call.tool == "bash" => Need::Command(call.object.clone()),
            _ => Need::Tool(call.object.clone()),
        },
    );
    let mut all = config.policy();
    all.add(rules);
    policy::check(&all).map_err(WireError::Policy)?;
    let open = Shelter::default();
    let (shelter, kind) = match config.sandbox() {
        SandboxKind::None => (open, "none".to_owned()),
        _ => match assembly::sandbox(config).await {
            Ok((spec, _)) => {
                (Shelter { confines: spec.confines(), holds_plans: spec.is_confining() }, spec.kind)
            }
            Err(error) => (open, format!("none available: {error}")),
        },
    };
    let rights = Rights { policy: &all, grants: &[], level: config.permission(), read_only: false, shelter };
    let plan = Plan { needs, cwd: String::new(), preview: String::new(), risk, digest: String::new() };
    let opens =
        policy::opens(&rights, &call.tool, &plan).iter().map(|need| need.name().into_owned()).collect();
    Ok(Explained {
        level: rights.level,
        sandbox: kind,
        commands: plan.command().and_then(policy::understood),
        lines: policy::lines(&rights, &call.tool, &plan).collect(),
        opens,
        needs: plan.needs,
    })
}

/// What a built-in tool may do; any other may do anything.
fn risk_of(tool: &str) -> Result<Risk, WireError> {
    let tools = assembly::builtin_tools()?;
    Ok(tools.iter().find(|spec| spec.name == tool).map_or(Risk::Execute, |spec| spec.risk))
}
