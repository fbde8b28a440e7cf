//! Reads how long a provider asks to wait: off the headers of its answer, else off its words.

use std::time::SystemTime;

/// Longest wait that is believed: a day, in milliseconds.
const MAX_WAIT: u64 = 86_400_000;

/// `retry-after-ms`, then `Retry-After` in seconds or as a date, in milliseconds; a day at most. A date is measured against
/// the answer's own `Date` so that a wrong clock here does not matter, and against `now` only without one.
pub(super) fn of_headers(header: &dyn Fn(&str) -> Option<String>, now: SystemTime) -> Option<u64> {
    if let Some(ms) = header("retry-after-ms").and_then(|text| millis(1.0, &text)) {
        return Some(ms);
    }
    let after = header("retry-after")?;
    if let Some(ms) = millis(1000.0, &after) {
        return Some(ms);
    }
    let until = httpdate::parse_http_date(after.trim()).ok()?;
    let from = header("date").and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(now);
    let wait = until.duration_since(from).unwrap_or_default();
    Some(u64::try_from(wait.as_millis()).unwrap_or(MAX_WAIT).min(MAX_WAIT))
}

/// The same from a message. OpenAI, Groq: `Please try again in 7m12.5s`, `in 280ms`. Gemini: `Please retry in 31.5s`.
/// Azure: `Please retry after 8 seconds`.
pub(super) fn of_words(words: &str) -> Option<u64> {
    let words = words.to_lowercase();
    let (_, mut rest) =
        ["try again in ", "retry in ", "retry after "].iter().find_map(|said| words.split_once(said))?;
    let mut sum: Option<u64> = None;
    loop {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(number.unwrap_or(rest.len()));
        let after = after.strip_prefix(' ').unwrap_or(after);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let factor = match unit {
            "ms" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
            "m" | "min" | "mins" | "minute" | "minutes" => 6e4,
            "h" | "hour" | "hours" => 3.6e6,
            "d" | "day" | "days" => 8.64e7,
            _ => return sum,
        };
        let Some(more) = millis(factor, number) else { return sum };
        sum = Some(sum.unwrap_or_default().saturating_add(more).min(MAX_WAIT));
        rest = after;
    }
}

fn millis(factor: f64, text: &str) -> Option<u64> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0)?;
    Some(((value * factor).ceil() as u64).min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn headers() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"; // `now`
        let later = "Sun, 06 Nov 1994 08:50:07 GMT";
        let wait = |pairs: &[(&str, &str)], now| {
            let find = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            of_headers(&find, now)
        };
        assert_eq!(wait(&[("retry-after", "7")], now), Some(7_000));
        assert_eq!(wait(&[("retry-after", "0.25")], now), Some(250));
        assert_eq!(wait(&[("retry-after", later)], now), Some(30_000));
        assert_eq!(wait(&[("retry-after", later), ("date", date)], SystemTime::UNIX_EPOCH), Some(30_000));
        assert_eq!(wait(&[("retry-after", date), ("date", later)], now), Some(0));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "9")], now), Some(1_500));
        assert_eq!(wait(&[("retry-after", "1e300")], now), Some(MAX_WAIT));
        assert_eq!(wait(&[("retry-after", "soon")], now), None);
        assert_eq!(wait(&[], now), None);
    }

    #[test]
    fn words() {
        let rows = [
            (
                "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 6s. Visit https://platform.openai.com",
                Some(6_000),
            ),
            ("Please try again in 280ms.", Some(280)),
            ("Limit 100000, Used 99000. Please try again in 7m12.5s.", Some(432_500)),
            ("Please try again in 6h3m0s.", Some(21_780_000)),
            ("You exceeded your current quota. \nPlease retry in 31.5s.", Some(31_500)),
            ("Please retry after 8 seconds.", Some(8_000)),
            ("try again in 9999999 days", Some(MAX_WAIT)),
            ("the server is busy, try again in a while", None),
            ("try again in 5", None),
            ("try again later", None),
            ("", None),
        ];
        for (said, wait) in rows {
            assert_eq!(of_words(said), wait, "{said}");
        }
    }
}
