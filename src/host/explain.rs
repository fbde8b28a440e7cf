//! What the policy says to a call before it is made: the lines of the order of judgement, one by one.

use crate::assembly::{self, WireError};
use crate::config::Config;
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
    /// Why the call would be refused before it is judged, in the sandbox of here.
    pub refused: Option<String>,
    /// The needs that `--yes` does not answer.
    pub opens: Vec<String>,
}

impl Explained {
    /// The line that decides.
    pub fn ruling(&self) -> Option<&Ruling> {
        self.lines.iter().find_map(|(_, ruling)| ruling.as_ref())
    }
}

/// Judges a call as a new session here would. `rules` are those besides the configuration's. A command is prepared as the
/// session would prepare it; of another call it is what its words say.
pub async fn explain(config: &Config, call: &Call, rules: &[Rule]) -> Result<Explained, WireError> {
    let mut all = config.policy();
    all.add(rules);
    policy::check(&all).map_err(WireError::Policy)?;
    let (mut plan, mut refused) = (in_words(call)?, None);
    let line = if call.tool == "bash" { call.object.as_str() } else { "true" };
    let planned = assembly::command_plan(config, (line, &call.needs)).await;
    let (shelter, kind) = match planned {
        Ok((spec, planned)) => {
            match planned {
                Ok(prepared) if call.tool == "bash" => plan = prepared,
                Err(why) if call.tool == "bash" => refused = Some(why),
                _ => {}
            }
            (Shelter { confines: spec.confines(), holds_plans: spec.is_confining() }, spec.kind)
        }
        Err(error) => {
            // Then no session begins either.
            refused = Some(error.to_string());
            (Shelter::default(), "none available".to_owned())
        }
    };
    let rights = Rights { policy: &all, grants: &[], level: config.permission(), read_only: false, shelter };
    let opens =
        policy::opens(&rights, &call.tool, &plan).iter().map(|need| need.name().into_owned()).collect();
    Ok(Explained {
        level: rights.level,
        sandbox: kind,
        commands: plan.command().and_then(policy::understood),
        lines: policy::lines(&rights, &call.tool, &plan).collect(),
        refused,
        opens,
        needs: plan.needs,
    })
}

/// A call as its words say it.
fn in_words(call: &Call) -> Result<Plan, WireError> {
    let risk = risk_of(&call.tool)?;
    let file = || PathBase { path: call.object.clone(), sha256: None };
    let first = match risk {
        Risk::Read => Need::Read(file()),
        Risk::Write => Need::Write(file()),
        _ if call.tool == "bash" => Need::Command(call.object.clone()),
        _ => Need::Tool(call.object.clone()),
    };
    let needs = std::iter::once(first).chain(call.needs.iter().cloned()).collect();
    Ok(Plan { needs, cwd: String::new(), preview: String::new(), risk, digest: String::new() })
}

/// What a built-in tool may do; any other may do anything.
fn risk_of(tool: &str) -> Result<Risk, WireError> {
    let tools = assembly::builtin_tools()?;
    Ok(tools.iter().find(|spec| spec.name == tool).map_or(Risk::Execute, |spec| spec.risk))
}
