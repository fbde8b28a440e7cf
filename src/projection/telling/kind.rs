//! The kinds of things that are told: the word, the mark, the usual look and weight of each.

use crate::protocol::SparkId;

/// Whose words or work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The person's.
    You,
    /// That of the spark the event is of, which its call may name; agon's own where there is none.
    Its,
    /// Of this spark, whatever the event is of.
    Spark(SparkId),
}

/// What a colour may say again of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// It is of little weight.
    Quiet,
    /// It begins something.
    Strong,
    /// A tool runs.
    Tool,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// A person may have to look at it.
    Warn,
}

/// Which views show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// All.
    News,
    /// Those with room, and those that show everything.
    Aside,
    /// Only those that show everything.
    Routine,
}

/// How a view without a column for the word says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// The head says it all.
    Alone,
    /// The word begins the sentence: `resumed by agon 0.1.0`.
    Begins,
    /// The word is a label: `limit: 2 of 2 model calls`.
    Label,
}

macro_rules! kinds {
    ($( $kind:ident $word:literal $mark:literal $spoken:ident $tone:ident $weight:ident; )+) => {
        /// The kinds of things that are told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $( #[doc = $word] $kind, )+ }

        impl Kind {
            /// In one word, or two.
            pub fn word(self) -> &'static str {
                match self { $( Kind::$kind => $word, )+ }
            }

            /// In one character.
            pub fn mark(self) -> char {
                match self { $( Kind::$kind => $mark, )+ }
            }

            /// How a view without a column for the word says it.
            pub fn spoken(self) -> Spoken {
                match self { $( Kind::$kind => Spoken::$spoken, )+ }
            }

            pub(super) fn usual(self) -> (Tone, Weight) {
                match self { $( Kind::$kind => (Tone::$tone, Weight::$weight), )+ }
            }
        }
    };
}

kinds! {
    Opened "open" '∙' Label Strong News;
    Resumed "resumed" '∙' Begins Strong News;
    Forked "forked" '∙' Begins Strong News;
    Paused "paused" '∙' Label Warn News;
    Repaired "repaired" '!' Label Warn News;
    Setting "setting" '⚙' Alone Quiet Aside;
    Prompt "prompt" '❯' Alone Strong News;
    Question "question" '❯' Alone Strong News;
    Steer "steer" '❯' Alone Strong News;
    Stop "stop" '■' Alone Warn News;
    Undo "undo" '↶' Alone Strong News;
    Reply "reply" '└' Alone Good News;
    Turn "turn" '∙' Begins Quiet Routine;
    Joins "joins" '∙' Begins Quiet News;
    Task "task" '∙' Label Quiet News;
    Notice "notice" '∙' Alone Warn News;
    Read "read" '∙' Begins Quiet News;
    Ended "ended" '■' Label Quiet Routine;
    End "end" '─' Alone Bad News;
    Limit "limit" '■' Label Bad News;
    Compact "compact" '∙' Alone Quiet News;
    Phase "phase" '▌' Alone Strong News;
    Call "call" '∙' Begins Quiet Routine;
    Thought "thought" '∙' Label Quiet Aside;
    Says "says" '∙' Alone Plain News;
    Answer "answer" '∙' Alone Good News;
    Wants "wants" '→' Alone Quiet Routine;
    Usage "usage" '∙' Label Quiet Routine;
    CutOff "cut off" '✂' Alone Quiet News;
    Failed "failed" '✗' Alone Bad News;
    Rejected "rejected" '!' Alone Warn News;
    OtherModel "model" '↷' Alone Warn News;
    Retry "retry" '↻' Begins Warn News;
    Dropped "dropped" '↷' Alone Quiet News;
    Fallback "fallback" '↷' Label Warn News;
    Reserve "reserve" '∙' Begins Quiet Routine;
    Settle "settle" '∙' Begins Quiet Routine;
    Order "order" '∙' Begins Quiet Routine;
    Prepared "prepared" '∙' Begins Quiet Routine;
    Policy "policy" '∙' Label Quiet Routine;
    Gate "gate" '◆' Label Quiet Routine;
    Ask "ask" '?' Alone Warn News;
    Asks "asks" '?' Alone Warn News;
    Tool "tool" '○' Alone Tool News;
    Result "result" '●' Alone Good News;
    Refused "refused" '⊘' Alone Bad News;
    Steps "steps" '●' Alone Good News;
    Answered "answered" '●' Alone Good Routine;
    Lost "lost" '?' Alone Bad News;
    Cancel "cancel" '∙' Begins Quiet Routine;
    Ignored "ignored" '∙' Label Quiet Routine;
    Timer "timer" '∙' Begins Quiet Routine;
    Tools "tools" '∙' Alone Quiet Routine;
    Check "check" '✓' Begins Good News;
    Diff "diff" '±' Alone Plain News;
    Recorded "recorded" '∙' Begins Quiet Routine;
    Cache "cache" '↺' Label Plain News;
    Plan "plan" '◆' Begins Plain News;
    Proposes "proposes" '◆' Begins Plain News;
    Work "work" '±' Label Plain Routine;
    Review "review" '✓' Alone Good News;
    Finding "finding" '✓' Begins Good News;
    Sent "sent" '→' Begins Quiet Aside;
    Absent "absent" '✗' Label Bad News;
    Flag "flag" '!' Alone Warn News;
    Round "asks" '∙' Begins Quiet News;
    Ballot "ballot" '▪' Begins Quiet News;
    Ratings "ratings" '▪' Begins Quiet News;
    Holds "holds" '▪' Begins Plain News;
    Dispute "dispute" '◆' Label Strong News;
    Reveal "reveal" '◆' Label Strong News;
    Score "score" '◆' Label Strong News;
    Gated "gate" '◆' Alone Good News;
    Shortened "short" '◆' Alone Good News;
    Verdict "verdict" '◆' Label Good News;
    Ruling "ruling" '◆' Alone Plain News;
    Dissent "dissent" '▪' Begins Warn News;
    Unknown "unknown" '∙' Alone Warn News;
}
