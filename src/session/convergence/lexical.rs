//! The scorer by words: five measures of vocabulary and markers, the seed's weights, its faults mended.

use std::collections::BTreeSet;

use super::{Panel, Scored, mean};

const STOP: &[&str] = &[
    "this", "that", "with", "from", "they", "them", "their", "have", "been", "will", "would", "could",
    "should", "about", "which", "there", "these", "those", "into", "also", "than", "then", "more", "some",
    "such", "what", "when", "each", "make", "like", "does", "just", "over", "very", "well",
];
const CONTRADICTION: &[&str] =
    &["however", "but", "disagree", "on the other hand", "counterpoint", "incorrect", "wrong"];
const RESOLUTION: &[&str] =
    &["agree with", "valid point", "good point", "fair point", "concede", "acknowledge", "building on"];
const EVIDENCE: &[&str] = &[
    "because",
    "data shows",
    "measured",
    "benchmark",
    "according to",
    "example",
    "specifically",
    "in practice",
    "we found",
    "evidence",
    "documentation",
    "rfc",
    "spec",
    "cve",
    "performance test",
    "latency of",
    "throughput of",
    "percentage",
    "ratio",
];
const VAGUE: &[&str] = &[
    "probably",
    "might be",
    "i think",
    "arguably",
    "in theory",
    "should be fine",
    "good enough",
    "seems like",
    "maybe",
];
const PROPOSAL: &[&str] = &["recommend", "suggest", "should", "propose", "approach", "solution"];
const CONSENSUS: &[&str] = &["agree", "consensus", "align", "convergence", "building on", "support this"];
const NEGATION: &[&str] = &["not", "never", "cannot", "no", "don't", "dont", "hardly"];

/// The weighted mean of agreement 250, contradiction 150, evidence 200, proposal 250 and speed 150. With fewer
/// than two texts in the last phase there is nothing to compare, and no score.
pub fn score(panel: &Panel) -> Scored {
    let last = panel.said.last().map(Vec::as_slice).unwrap_or_default();
    if last.len() < 2 {
        return Scored::default();
    }
    let parts = [
        ("agreement", 250, agreement(last)),
        ("contradiction", 150, contradiction(&panel.said)),
        ("evidence", 200, evidence(&panel.said)),
        ("proposal", 250, proposal(last)),
        ("speed", 150, speed(&panel.said)),
    ];
    let sum: u32 = parts.iter().map(|(_, weight, value)| weight * value).sum();
    Scored {
        score_pm: Some((sum + 500) / 1000),
        parts: parts.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect(),
    }
}

/// Mean overlap of vocabulary in the last phase.
fn agreement(texts: &[String]) -> u32 {
    let sets: Vec<_> = texts.iter().map(|text| keywords(text)).collect();
    (overlap(&sets) * 35 / 10 + 200).min(1000)
}

/// Whether contradictions of the first half are answered in the second. Nothing said against anything is
/// neither good nor bad: 500, where the seed gave 700 to silence.
fn contradiction(said: &[Vec<String>]) -> u32 {
    let middle = said.len().div_ceil(2);
    let (early, late) = said.split_at(middle);
    let late = if late.is_empty() { early } else { late };
    if count(early, CONTRADICTION) == 0 {
        return 500;
    }
    let (resolved, contradicted) = (count(late, RESOLUTION), count(late, CONTRADICTION));
    (400 + 600 * resolved / (resolved + contradicted + 1)).min(1000)
}

fn evidence(said: &[Vec<String>]) -> u32 {
    let (firm, vague) = (count(said, EVIDENCE), count(said, VAGUE));
    match firm + vague {
        0 => 500,
        all => 900 * firm / all + 100,
    }
}

/// Mean overlap of the sentences that recommend something.
fn proposal(texts: &[String]) -> u32 {
    let recommended = |text: &String| {
        let sentences = text.split(['.', '!', '?', '\n']);
        let proposing = sentences.filter(|sentence| hits(&words(sentence), PROPOSAL) > 0);
        keywords(&proposing.collect::<Vec<_>>().join(" "))
    };
    let sets: Vec<_> = texts.iter().map(recommended).collect();
    (overlap(&sets) * 4 + 150).min(1000)
}

/// How early at least half of the voices of a phase say that they agree; one alone was enough for the seed.
fn speed(said: &[Vec<String>]) -> u32 {
    let agrees = |text: &String| hits(&words(text), CONSENSUS) > 0;
    let together = |texts: &Vec<String>| {
        texts.len() >= 2 && 2 * texts.iter().filter(|text| agrees(text)).count() >= texts.len()
    };
    match said.iter().position(together) {
        Some(phase) => 1100u32.saturating_sub(150 * u32::try_from(phase + 1).unwrap_or(9)).clamp(300, 1000),
        None => 300,
    }
}

/// Mean Jaccard overlap of all pairs, per mille; 0 of fewer than two.
fn overlap(sets: &[BTreeSet<String>]) -> u32 {
    let pairs = sets.iter().enumerate().flat_map(|(i, a)| sets.iter().skip(i + 1).map(move |b| (a, b)));
    mean(pairs.map(|(a, b)| {
        let all = a.union(b).count();
        let share = (1000 * a.intersection(b).count()).checked_div(all);
        u32::try_from(share.unwrap_or_default()).unwrap_or_default()
    }))
    .unwrap_or_default()
}

/// Words of four letters or more that carry a meaning, in any script.
fn keywords(text: &str) -> BTreeSet<String> {
    let long = |word: &String| word.chars().count() >= 4 && !STOP.contains(&word.as_str());
    words(text).into_iter().filter(long).collect()
}

/// Lower-case words: letters and digits of any script, apostrophes inside.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn count(said: &[Vec<String>], markers: &[&str]) -> u32 {
    said.iter().flatten().map(|text| hits(&words(text), markers)).sum()
}

/// How often markers stand in a text as whole words, plural or inflected by a common ending; a marker with a
/// negation right before it does not count.
fn hits(words: &[String], markers: &[&str]) -> u32 {
    let found = |marker: &&str| -> usize {
        let wanted: Vec<&str> = marker.split(' ').collect();
        let at = |(i, window): &(usize, &[String])| {
            let negated = i.checked_sub(1).and_then(|before| words.get(before));
            let negated = negated.is_some_and(|word| NEGATION.contains(&word.as_str()));
            !negated && window.iter().zip(&wanted).all(|(word, wanted)| is_form_of(word, wanted))
        };
        words.windows(wanted.len()).enumerate().filter(at).count()
    };
    u32::try_from(markers.iter().map(found).sum::<usize>()).unwrap_or(u32::MAX)
}

fn is_form_of(word: &str, wanted: &str) -> bool {
    word.strip_prefix(wanted)
        .is_some_and(|ending| matches!(ending, "" | "s" | "d" | "ed" | "es" | "ing" | "ment" | "ly"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(text: &str, markers: &[&str]) -> u32 {
        hits(&words(text), markers)
    }

    #[test]
    fn the_faults_of_the_seed_are_mended() {
        assert_eq!(hit("see RFC 9110 and CVE-2024-1", EVIDENCE), 2, "upper case is found");
        assert_eq!(hit("the migration and the configuration", EVIDENCE), 0, "`ratio` is no part of a word");
        assert_eq!(hit("I disagree with that, it is misaligned", CONSENSUS), 0);
        assert_eq!(hit("I disagree with that", RESOLUTION), 0);
        assert_eq!(hit("I do not agree with that", RESOLUTION), 0, "polarity counts");
        assert_eq!(hit("a good point, agreed", CONSENSUS) + hit("a good point", RESOLUTION), 2);
        assert_eq!(keywords("Zuverlässigkeit — надёжность").len(), 2, "any script has keywords");
    }

    #[test]
    fn nothing_said_is_no_agreement() {
        assert_eq!(score(&Panel::default()).score_pm, None);
        let alone = Panel { said: vec![vec!["alone".to_owned()]], ..Panel::default() };
        assert_eq!(score(&alone).score_pm, None);
    }
}
