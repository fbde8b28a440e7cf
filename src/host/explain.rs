//! What the policy says to a call before it is made: the lines of the order of judgement, one by one.

use crate::assembly::{self, WireError};
use crate::config::Config;
use crate::protocol::need::Need;
use crate::protocol::spec::{PermissionLevel, Rule};
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
    /// The sandbox it would run in.
    pub sandbox: String,
    /// Everything it needs.
    pub needs: Vec<Need>,
    /// The simple commands of its line; none where the line is not fully understood, or there is none.
    pub commands: Option<Vec<String>>,
    /// Why its tool refuses it whatever the rules say; then no line speaks.
    pub refused: Option<String>,
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
    let mut all = config.policy();
    all.add(rules);
    policy::check(&all).map_err(WireError::Policy)?;
    let (spec, planned) = assembly::planned(config, (&call.tool, &call.object), &call.needs).await?;
    let shelter = Shelter { confines: spec.confines(), holds_plans: spec.is_confining() };
    let rights = Rights { policy: &all, grants: &[], level: config.permission(), read_only: false, shelter };
    let refused = Explained {
        level: rights.level,
        sandbox: spec.kind,
        needs: call.needs.clone(),
        commands: None,
        refused: None,
        lines: Vec::new(),
        opens: Vec::new(),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(why) => return Ok(Explained { refused: Some(why), ..refused }),
    };
    let opens = policy::opens(&rights, &call.tool, &plan);
    Ok(Explained {
        commands: plan.command().and_then(policy::understood),
        lines: policy::lines(&rights, &call.tool, &plan).collect(),
        opens: opens.iter().map(|need| need.name().into_owned()).collect(),
        needs: plan.needs.clone(),
        ..refused
    })
}
