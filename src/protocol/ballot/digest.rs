//! Renders what one reader of a debate is shown of it: propositions, its own ballot, its peers' by letter.

use std::fmt::Write as _;

use super::names::{Alias, rename, title};
use super::{Ballot, ballot_of, changes_of, propositions};
use crate::protocol::event::{ArenaEvent, Ask, Rated, Rating, RatingsCast, RoundOpened, Standing};
use crate::protocol::expand::Lookup;
use crate::protocol::text::{cut_middle, words_of_others};
use crate::protocol::{EventRef, SparkId};

/// Bytes of one claim, position or reason that others are shown.
const SHOWN: usize = 600;

/// Bytes of the reason for one change of a rating; there may be many.
const SHOWN_REASON: usize = 300;

/// Bytes of a cited tool result the moderator is shown.
const SHOWN_EVIDENCE: usize = 1500;

/// What the reader of `order[at]` is shown. A function of the event and of what it names, nothing else.
pub fn digest(round: &RoundOpened, at: usize, lookup: Lookup<'_>) -> String {
    let Some(order) = round.order.get(at) else { return String::new() };
    let view = View { round, reader: order.spark, peers: &order.peers, lookup };
    let mut text = String::new();
    view.propositions(&mut text);
    if let Some(own) = round.debaters.iter().find(|one| one.spark == order.spark) {
        view.standing(&mut text, "Your last ballot", own);
    }
    for (n, peer) in order.peers.iter().enumerate() {
        if let Some(standing) = round.debaters.iter().find(|one| one.spark == *peer) {
            view.standing(&mut text, &title(round, order.spark, n), standing);
        }
    }
    view.evidence(&mut text);
    text.truncate(text.trim_end().len());
    text
}

struct View<'a, 'l> {
    round: &'a RoundOpened,
    reader: SparkId,
    peers: &'a [SparkId],
    lookup: Lookup<'l>,
}

impl View<'_, '_> {
    fn propositions(&self, text: &mut String) {
        let stated = propositions(&self.round.propositions, self.lookup);
        if stated.is_empty() {
            return;
        }
        text.push_str("# The propositions\n\n");
        // Stated by the moderator or, where it failed, positions of ballots: no name belongs into them.
        let aliases = self.aliases(None);
        for (n, proposition) in stated.iter().enumerate() {
            let _ = writeln!(text, "{}. {}", n + 1, clipped(&rename(proposition, &aliases)));
        }
        text.push('\n');
    }

    fn standing(&self, text: &mut String, heading: &str, standing: &Standing) {
        let Some(cast) = standing.ballot else { return };
        let Some(ballot) = ballot_of(cast, self.lookup) else { return };
        let own = standing.spark == self.reader;
        let aliases = self.aliases(standing.read.map(|read| (standing.spark, read)));
        let say = |words: &str| match own {
            true => words_of_others(words),
            false => clipped(&rename(words, &aliases)),
        };
        let _ = writeln!(text, "# {heading}\n");
        self.ballot(text, &ballot, &say);
        self.ratings(text, standing);
        for pair in standing.course.windows(2) {
            self.moves(text, standing.spark, &pair[0], &pair[1]);
        }
        text.push('\n');
    }

    /// What really changed between two ratings, with the reason that was given with the second: a change that is
    /// only claimed is none.
    fn moves(&self, text: &mut String, spark: SparkId, before: &Rated, after: &Rated) {
        let cast = |at: EventRef| match (self.lookup)(at)? {
            ArenaEvent::RatingsCast(data) => Some(data),
            _ => None,
        };
        let (Some(was), Some(now)) = (cast(before.ratings), cast(after.ratings)) else { return };
        let aliases = self.aliases(Some((spark, after.read)));
        let reasons = changes_of(after.ratings, self.lookup);
        for (from, to) in changed(was, now) {
            let what = if from.signum() == to.rating.signum() { "Moved" } else { "Changed sides" };
            let given = reasons.iter().find(|(proposition, _)| *proposition == to.proposition);
            let why = match given.map(|(_, because)| because.trim()).filter(|because| !because.is_empty()) {
                Some(because) => clipped_to(&rename(because, &aliases), SHOWN_REASON),
                None => "no reason was given".to_owned(),
            };
            let (phase, number) = (now.phase.replace('-', " "), to.proposition + 1);
            let _ = writeln!(text, "{what} on {number} in {phase}, {from:+} to {:+}: {why}", to.rating);
        }
    }

    fn ballot(&self, text: &mut String, ballot: &Ballot, say: &dyn Fn(&str) -> String) {
        let _ = writeln!(text, "Position: {}", say(&ballot.position));
        let _ = writeln!(text, "Confidence: {} of 100", ballot.confidence);
        for claim in &ballot.claims {
            let _ = writeln!(text, "- {}", say(claim));
        }
        for evidence in &ballot.evidence {
            match evidence.reference.parse::<EventRef>() {
                Ok(at) => _ = writeln!(text, "- evidence {at}: {}", say(&evidence.shows)),
                Err(_) => _ = writeln!(text, "- evidence without a reference: {}", say(&evidence.shows)),
            }
        }
        let _ = writeln!(text, "Would change this: {}", say(&ballot.would_change));
    }

    fn ratings(&self, text: &mut String, standing: &Standing) {
        let cast = |at: Option<EventRef>| match (self.lookup)(at?)? {
            ArenaEvent::RatingsCast(data) => Some(rated(&data.ratings)),
            _ => None,
        };
        if self.round.ask == Ask::Verdict
            && standing.sealed != standing.ratings
            && let Some(sealed) = cast(standing.sealed)
        {
            let _ = writeln!(text, "Ratings before any talk: {sealed}");
        }
        if let Some(last) = cast(standing.ratings) {
            let _ = writeln!(text, "Ratings: {last}");
        }
    }

    fn evidence(&self, text: &mut String) {
        if self.round.evidence.is_empty() {
            return;
        }
        text.push_str("# Evidence the ballots cite\n\n");
        for at in &self.round.evidence {
            if let Some(ArenaEvent::ToolResolved(result)) = (self.lookup)(*at) {
                let found = clipped_to(&result.body.content, SHOWN_EVIDENCE);
                let _ = writeln!(text, "[{at}] {found}\n");
            }
        }
    }

    /// What this reader calls everybody, in a text by `writer`: names, and the letters the writer knew.
    fn aliases(&self, writer: Option<(SparkId, EventRef)>) -> Vec<Alias> {
        let mut aliases: Vec<Alias> =
            self.round.debaters.iter().map(|one| Alias::of_name(&one.name, self.call(one.spark))).collect();
        let Some((writer, read)) = writer else { return aliases };
        if let Some(ArenaEvent::RoundOpened(read)) = (self.lookup)(read)
            && let Some(order) = read.order.iter().find(|order| order.spark == writer)
        {
            let letters = order.peers.iter().enumerate();
            aliases
                .extend(letters.map(|(n, peer)| Alias::of_letter(&title(read, writer, n), self.call(*peer))));
        }
        aliases
    }

    fn call(&self, spark: SparkId) -> String {
        if spark == self.reader {
            return "you".to_owned();
        }
        match self.peers.iter().position(|peer| *peer == spark) {
            Some(n) => title(self.round, self.reader, n),
            None => "another debater".to_owned(),
        }
    }
}

fn clipped(words: &str) -> String {
    clipped_to(words, SHOWN)
}

fn clipped_to(words: &str, cap: usize) -> String {
    words_of_others(&cut_middle(words.trim(), cap).0)
}

/// Every rating that is not what it was, with what it was.
fn changed<'r>(was: &'r RatingsCast, now: &'r RatingsCast) -> impl Iterator<Item = (i8, &'r Rating)> {
    now.ratings.iter().filter_map(|to| {
        let from = was.ratings.iter().find(|from| from.proposition == to.proposition)?;
        (from.rating != to.rating).then_some((from.rating, to))
    })
}

fn rated(ratings: &[Rating]) -> String {
    let one = |rating: &Rating| {
        format!("{}: {:+} ({})", rating.proposition + 1, rating.rating, rating.confidence_pm / 10)
    };
    ratings.iter().map(one).collect::<Vec<_>>().join(", ")
}
