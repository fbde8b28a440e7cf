//! The slash commands, once: what completion offers, help lists, the documentation prints and `update` obeys.

/// What a slash command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Help,
    New,
    Sessions,
    Resume,
    Fork,
    Replay,
    Events,
    Cost,
    Model,
    Theme,
    Copy,
    Demo,
    Quit,
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
    pub(super) order: Order,
}

const fn slash(
    name: &'static str,
    takes: &'static str,
    help: &'static str,
    twin: &'static str,
    order: Order,
) -> Slash {
    Slash { name, takes, help, twin, order }
}

/// Every slash command, in the order of the help.
pub const SLASHES: &[Slash] = &[
    slash("/new", "", "Leave this session for a new one", "agon", Order::New),
    slash("/sessions", "", "Search, open and remove sessions", "agon sessions", Order::Sessions),
    slash("/resume", "SESSION", "Open a session by the start of its id", "agon resume", Order::Resume),
    slash("/fork", "[SEQ]", "Copy this session up to an entry and go on there", "agon fork", Order::Fork),
    slash("/replay", "", "Play this session from its beginning", "agon replay", Order::Replay),
    slash(
        "/events",
        "",
        "List every event; Enter opens one as agon made it",
        "agon replay --json",
        Order::Events,
    ),
    slash("/cost", "", "Show tokens and money by spark, role and model", "agon replay", Order::Cost),
    slash(
        "/model",
        "PROVIDER/MODEL",
        "Use another model from the next task on",
        "agon run --model",
        Order::Model,
    ),
    slash("/demo", "", "Watch the built-in script work: no key, no network", "agon demo", Order::Demo),
    slash("/copy", "", "Copy the last answer to the terminal's clipboard", "", Order::Copy),
    slash("/theme", "dark|light|plain", "Change the colours", "", Order::Theme),
    slash("/help", "", "Show keys and commands", "agon help", Order::Help),
    slash("/quit", "", "Leave agon", "", Order::Quit),
];

/// The commands that begin like this.
pub(super) fn starting(word: &str) -> impl Iterator<Item = &'static Slash> {
    SLASHES.iter().filter(move |slash| slash.name.starts_with(word))
}

/// The command and the rest of a line.
pub(super) fn parse(line: &str) -> Option<(&'static Slash, &str)> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    SLASHES.iter().find(|slash| slash.name == word).map(|slash| (slash, rest.trim()))
}
