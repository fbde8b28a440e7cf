//! The slash commands, once: what completion offers, help lists, the documentation prints and `update` obeys.

use crate::protocol::fit::did_you_mean;

/// What a slash command does; in words, its row of [`SLASHES`].
#[expect(missing_docs, reason = "each is explained once, in the table that help and documentation print")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Help,
    New,
    Squad,
    Debate,
    Mode,
    Sessions,
    Resume,
    Rename,
    Fork,
    Undo,
    Redo,
    Rewind,
    Replay,
    Events,
    Cost,
    Context,
    Diff,
    Matrix,
    Model,
    Effort,
    Background,
    Persona,
    Policy,
    Permission,
    Accept,
    Sandbox,
    Limits,
    Theme,
    Copy,
    Demo,
    Init,
    Status,
    Quit,
}

/// A flag of a slash command, the same as its twin's on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// With its dashes.
    pub name: &'static str,
    /// What its value is.
    pub takes: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// One slash command.
#[derive(Clone, Copy, Debug)]
pub struct Slash {
    /// With its slash.
    pub name: &'static str,
    /// What may follow it.
    pub takes: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The same on the command line; empty when it is about the screen alone.
    pub twin: &'static str,
    /// Words that may follow it, for completion.
    pub words: &'static [&'static str],
    /// Flags that may follow it.
    pub flags: &'static [Flag],
    /// What people type who know other tools.
    pub aliases: &'static [&'static str],
    /// What it does, for programs.
    pub order: Order,
}

const fn slash(
    name: &'static str,
    takes: &'static str,
    help: &'static str,
    twin: &'static str,
    order: Order,
) -> Slash {
    Slash { name, takes, help, twin, words: &[], flags: &[], aliases: &[], order }
}

impl Slash {
    const fn words(self, words: &'static [&'static str]) -> Slash {
        Slash { words, ..self }
    }

    const fn aliases(self, aliases: &'static [&'static str]) -> Slash {
        Slash { aliases, ..self }
    }

    const fn flags(self, flags: &'static [Flag]) -> Slash {
        Slash { flags, ..self }
    }
}

const fn flag(name: &'static str, takes: &'static str, help: &'static str) -> Flag {
    Flag { name, takes, help }
}

const SQUAD: &[Flag] = &[
    flag("--blueprint", "NAME|FILE", "Follow this blueprint"),
    flag("--check", "'COMMAND'", "Run this after each turn of a role that writes"),
];

const DEBATE: &[Flag] = &[
    flag("--personas", "ID,ID", "Who debates; default all six"),
    flag("--rounds", "N", "Phases in total, 2 to 12"),
    flag("--moderator", "ID", "Who writes the verdict"),
    flag("--scorer", "ballots|lexical", "How convergence is scored"),
    flag("--with-model", "ID=PROVIDER/MODEL", "Give one persona a model"),
];

const UNDO: &[Flag] = &[flag("--force", "", "Take back files that were changed since as well")];

const LIMITS: &[Flag] = &[
    flag("--max-tokens", "N", "Tokens of the session, input and output"),
    flag("--max-usd", "DOLLARS", "Cost of the session"),
    flag("--max-seconds", "N", "Seconds of work of a turn"),
    flag("--max-steps", "N|none", "Model calls of a turn"),
];

/// Every slash command, in the order of the help.
pub const SLASHES: &[Slash] = &[
    slash("/squad", "[FLAGS] TASK", "Give one task to a squad", "agon squad", Order::Squad).flags(SQUAD),
    slash("/debate", "[FLAGS] TOPIC", "Let personas debate a question", "agon debate", Order::Debate)
        .flags(DEBATE),
    slash(
        "/mode",
        "solo|squad|debate [FLAGS]",
        "Say who works on the tasks to come",
        "agon run, squad, debate",
        Order::Mode,
    )
    .words(&["solo", "squad", "debate"]),
    slash("/new", "", "Leave this session for a new one", "agon", Order::New).aliases(&["/clear"]),
    slash(
        "/sessions",
        "",
        "Search, open, fork, rename and remove sessions",
        "agon sessions",
        Order::Sessions,
    ),
    slash("/resume", "[SESSION]", "Open a session; alone, choose one", "agon -r", Order::Resume),
    slash("/rename", "[NAME]", "Give this session a name of its own", "agon sessions rename", Order::Rename),
    slash(
        "/fork",
        "[SEQ]",
        "Copy this session up to an entry; Enter goes on in the copy",
        "agon fork",
        Order::Fork,
    ),
    slash("/undo", "[--force]", "Take back what the last turn changed and said", "agon undo", Order::Undo)
        .flags(UNDO),
    slash("/redo", "", "Take the last undo back", "agon undo --redo", Order::Redo),
    slash(
        "/rewind",
        "[TURN [files|words]]",
        "Go back to before a turn; alone, list the turns with their diffs",
        "agon undo --turn",
        Order::Rewind,
    ),
    slash("/replay", "", "Play this session from its beginning", "agon replay", Order::Replay),
    slash(
        "/events",
        "",
        "List every event; Enter opens one as agon made it",
        "agon replay --json",
        Order::Events,
    ),
    slash("/cost", "", "Show tokens and money by spark, role and model", "agon cost", Order::Cost),
    slash("/context", "", "Show what fills the context window, part by part", "agon context", Order::Context),
    slash("/diff", "", "Show what this session changed, file by file", "agon report", Order::Diff),
    slash("/matrix", "", "Show the positions of a debate", "agon debates show", Order::Matrix),
    slash(
        "/model",
        "[PROVIDER/MODEL]",
        "Use another model from the next call on; alone, list them to pick one",
        "agon models",
        Order::Model,
    ),
    slash(
        "/effort",
        "low|medium|high",
        "Let models think less or more from the next call on",
        "agon run --effort",
        Order::Effort,
    )
    .words(&["low", "medium", "high"]),
    slash(
        "/background",
        "[stop NUMBER]",
        "List the commands that run in the background, or end one",
        "",
        Order::Background,
    ),
    slash(
        "/persona",
        "ID",
        "Work as another persona from the next call on",
        "agon run --persona",
        Order::Persona,
    ),
    slash(
        "/policy",
        "FILE",
        "Add the rules of a file from the next call on",
        "agon run --policy",
        Order::Policy,
    ),
    slash(
        "/permission",
        "[LEVEL]",
        "Set how much tools do without asking, from the next call on",
        "agon run --permission",
        Order::Permission,
    )
    .words(&["plan", "ask", "edits", "auto"]),
    slash(
        "/accept",
        "[LEVEL]",
        "Carry out the plan on the screen; default at level edits",
        "",
        Order::Accept,
    )
    .words(&["edits", "ask", "auto"]),
    slash(
        "/sandbox",
        "KIND",
        "Confine the tools otherwise from the next task on",
        "agon run --sandbox",
        Order::Sandbox,
    )
    .words(&["auto", "local", "docker", "none"]),
    slash(
        "/limits",
        "[FLAGS]",
        "Set limits from the next call on; alone, show those in force",
        "agon run --max-tokens ...",
        Order::Limits,
    )
    .flags(LIMITS),
    slash(
        "/demo",
        "[run|squad|debate]",
        "Watch the built-in script work: no key, no network",
        "agon demo",
        Order::Demo,
    )
    .words(&["run", "squad", "debate"]),
    slash("/init", "", "Let the agent write AGENTS.md for this workspace", "agon run", Order::Init),
    slash(
        "/status",
        "",
        "Show session, model, sandbox and what was used",
        "agon sessions show",
        Order::Status,
    ),
    slash("/copy", "", "Copy the last answer to the terminal's clipboard", "", Order::Copy),
    slash("/theme", "dark|light|plain", "Change the colours", "", Order::Theme)
        .words(&["dark", "light", "plain"]),
    slash("/help", "", "Show keys and commands", "agon help", Order::Help),
    slash("/quit", "", "Leave agon", "", Order::Quit).aliases(&["/exit", "/q"]),
];

/// The task of `/init`.
pub const INIT_TASK: &str = "Look at this workspace and write AGENTS.md at its root: what the project is, how it is built and \
                    tested (the exact commands), how its code is laid out, and the rules that a change must keep. \
                    Keep it under 60 lines. If there is one already, correct and shorten it.";

/// The commands that begin like this.
pub(super) fn starting(word: &str) -> impl Iterator<Item = &'static Slash> {
    SLASHES
        .iter()
        .filter(move |slash| [slash.name].iter().chain(slash.aliases).any(|name| name.starts_with(word)))
}

/// What other tools have and agon does by itself, with what to do instead.
const NOT_HERE: &[(&str, &str)] = &[(
    "/compact",
    "agon summarises by itself when the window is nearly full; /new begins with an empty one",
)];

/// The command and the rest of a line; in words what is wrong when there is no such command.
pub fn parse(line: &str) -> Result<(&'static Slash, &str), String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let found = SLASHES.iter().find(|slash| slash.name == word || slash.aliases.contains(&word));
    found.map(|slash| (slash, rest.trim())).ok_or_else(|| {
        if let Some((_, instead)) = NOT_HERE.iter().find(|(name, _)| *name == word) {
            return format!("there is no {word}: {instead}");
        }
        let names: Vec<&str> =
            SLASHES.iter().flat_map(|slash| slash.aliases.iter().chain([&slash.name])).copied().collect();
        format!("there is no {word}{}; /help lists what there is", did_you_mean(word, &names))
    })
}

/// Values that are known on this screen: word and explanation.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub models: Vec<(String, String)>,
    pub personas: Vec<(String, String)>,
    pub sessions: Vec<(String, String)>,
}

impl Values {
    fn of(&self, order: Order) -> &[(String, String)] {
        match order {
            Order::Model => &self.models,
            Order::Persona => &self.personas,
            Order::Resume => &self.sessions,
            _ => &[],
        }
    }
}

/// What may stand where a word of a command is being written: word and explanation.
pub(super) fn following(before: &str, word: &str, values: &Values) -> Vec<(String, String)> {
    let Ok((slash, rest)) = parse(before) else { return Vec::new() };
    let is_first = rest.is_empty();
    let flags = match (slash.order, rest.split_whitespace().next()) {
        (Order::Mode, Some("squad")) => SQUAD,
        (Order::Mode, Some("debate")) => DEBATE,
        _ => slash.flags,
    };
    let words = slash.words.iter().filter(|_| is_first).map(|name| ((*name).to_owned(), String::new()));
    let is_shown = word.starts_with("--") || is_first && word.is_empty();
    let flags = flags.iter().filter(|_| is_shown);
    let flags = flags.map(|flag| (flag.name.to_owned(), format!("{}  {}", flag.takes, flag.help)));
    let values = values.of(slash.order).iter().filter(|_| is_first).cloned();
    words.chain(values).chain(flags).filter(|(name, _)| name.starts_with(word)).collect()
}
