//! The tools of a session, and how a list chooses among them: by name, by family, by pattern.

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Risk;
use crate::protocol::inside::Inside;
use crate::protocol::stored::stored;

/// Bytes of a result that a model is shown, unless its tool says otherwise.
const OUTPUT_CAP: u32 = 64 * 1024;

stored! {
    /// What a tool is for; a list may name it to choose all of its tools.
    #[derive(Copy, Eq)]
    pub enum Family of Word {
        /// Looks at files and changes them.
        Files,
        /// Runs commands.
        Run,
        /// Looks things up on the network.
        Web,
        /// Has other agents work.
        Agents,
        /// Keeps track of the work.
        Plan,
    }
}

impl Family {
    /// The families that a list can name.
    pub const ALL: [(&str, Family); 5] = [
        ("files", Family::Files),
        ("run", Family::Run),
        ("web", Family::Web),
        ("agents", Family::Agents),
        ("plan", Family::Plan),
    ];

    /// The family of this name.
    pub fn named(word: &str) -> Option<Family> {
        Family::ALL.iter().find(|(name, _)| *name == word).map(|(_, family)| *family)
    }
}

/// One tool, as offered to models and judged by the policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// The most it may do.
    pub risk: Risk,
    /// True when running it twice is as good as once.
    pub repeatable: bool,
    /// Bytes of output shown to the model; the middle is cut beyond.
    pub output_cap: u32,
    /// What it is for; none for the tools of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The source that offers it; none for those that are there when the session is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How agon answers it itself; none for a tool that a worker runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
}

impl ToolSpec {
    /// A tool of no family, whose results are cut at 64 KiB and that may be repeated where it only reads.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value, risk: Risk) -> Self {
        ToolSpec {
            name: name.into(),
            description: description.into(),
            schema,
            risk,
            repeatable: risk == Risk::Read,
            output_cap: OUTPUT_CAP,
            family: None,
            source: None,
            inside: None,
        }
    }
}

/// True for a tool that a list of names, families and patterns (`tracker_*`) chooses.
pub fn is_chosen(list: &[String], tool: &ToolSpec) -> bool {
    list.iter().any(|entry| {
        *entry == tool.name
            || (tool.family.is_some() && Family::named(entry) == tool.family)
            || pattern(entry).is_some_and(|glob| glob.is_match(&tool.name))
    })
}

/// What begins the names of tools of servers: `mcp__SERVER__TOOL`.
pub const OF_A_SERVER: &str = "mcp__";

/// True for an entry of such a list that names something: one of these tools, a family, or a pattern or a server's tool,
/// which may come later.
pub fn names_tools<'a>(entry: &str, mut tools: impl Iterator<Item = &'a ToolSpec>) -> bool {
    let may_come = entry.starts_with(OF_A_SERVER) || pattern(entry).is_some();
    may_come || Family::named(entry).is_some() || tools.any(|tool| tool.name == entry)
}

fn pattern(entry: &str) -> Option<GlobMatcher> {
    let is_pattern = entry.contains(['*', '?', '[', '{']);
    let glob = GlobBuilder::new(entry).build().ok().filter(|_| is_pattern)?;
    Some(glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_chooses_by_name_family_and_pattern() {
        let tool =
            |name: &str, family| ToolSpec { family, ..ToolSpec::new(name, "", Value::Null, Risk::Read) };
        let tools = [
            tool("read_file", Some(Family::Files)),
            tool("bash", Some(Family::Run)),
            tool("tracker_close", None),
        ];
        let chosen = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|entry| (*entry).to_owned()).collect();
            let of = tools.iter().filter(|tool| is_chosen(&list, tool));
            of.map(|tool| tool.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[]), [""; 0]);
        assert_eq!(chosen(&["bash"]), ["bash"]);
        assert_eq!(chosen(&["files", "tracker_*"]), ["read_file", "tracker_close"]);
        assert_eq!(chosen(&["*"]), ["read_file", "bash", "tracker_close"]);
        assert_eq!(chosen(&["web", "read", "[x"]), [""; 0]);
        for (entry, is_there) in
            [("web", true), ("later_*", true), ("bash", true), ("bas", false), ("[x", false)]
        {
            assert_eq!(names_tools(entry, tools.iter()), is_there, "{entry}");
        }
    }
}
