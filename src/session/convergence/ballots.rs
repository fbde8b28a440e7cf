//! The default scorer: agreement of what was voted; the words do not count.

use super::{Panel, Scored, mean};

/// The mean of the agreement on each proposition; none where no two voices rated the same.
pub fn score(panel: &Panel) -> Scored {
    let score_pm = mean((0..panel.propositions).filter_map(|n| agreement(&ratings_on(panel, n))));
    Scored { score_pm, parts: Vec::new() }
}

/// What the voters who are present say to one proposition: rating and confidence.
pub fn ratings_on(panel: &Panel, proposition: u32) -> Vec<(i8, u32)> {
    let present = panel.voters.iter().filter_map(|voter| voter.now.as_ref());
    present
        .filter_map(|ratings| ratings.iter().find(|rating| rating.proposition == proposition))
        .map(|rating| (rating.rating, rating.confidence_pm))
        .collect()
}

/// 1000 minus the mean distance of all pairs, each pair weighted by both confidences. A voice without any
/// confidence still counts a little, so that silence about confidence is not agreement. None for fewer than two.
pub fn agreement(ratings: &[(i8, u32)]) -> Option<u32> {
    let (mut far, mut weight) = (0u64, 0u64);
    for (i, (a, sure_a)) in ratings.iter().enumerate() {
        for (b, sure_b) in ratings.iter().skip(i + 1) {
            let pair = u64::from(sure_a.clamp(&1, &1000) * sure_b.clamp(&1, &1000));
            far += pair * u64::from(distance(*a, *b));
            weight += pair;
        }
    }
    match weight {
        0 => None,
        weight => Some(1000 - u32::try_from((far + weight / 2) / weight).unwrap_or(1000).min(1000)),
    }
}

/// How far two ratings are apart. Being on different sides weighs more than being differently sure of one.
pub fn distance(a: i8, b: i8) -> u32 {
    let apart = u32::from(a.abs_diff(b));
    match a.signum() * b.signum() {
        -1 => 600 + 100 * apart,
        0 => 250 * apart,
        _ => 100 * apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples_of_the_documentation_hold() {
        assert_eq!([distance(2, -2), distance(1, -1), distance(0, 2), distance(2, 1)], [1000, 800, 500, 100]);
        assert_eq!(agreement(&[(2, 900), (2, 500)]), Some(1000));
        assert_eq!(agreement(&[(2, 900), (-2, 500)]), Some(0));
        assert_eq!(agreement(&[(1, 500), (-1, 500)]), Some(200));
        // One dissenter among six, all equally sure: 5 of 15 pairs are fully apart.
        let six = [(2, 800), (2, 800), (2, 800), (2, 800), (2, 800), (-2, 800)];
        assert_eq!(agreement(&six), Some(667));
        assert_eq!((agreement(&[]), agreement(&[(2, 900)])), (None, None), "nothing to compare");
    }
}
