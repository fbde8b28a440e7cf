//! Small turns of text that several floors need; knows nothing of who reads it.

/// Most bytes of a text that agon chooses (a result, a check's output, a mention) that a model is shown.
pub const MOST_SHOWN: usize = 64 * 1024;

/// Cuts the middle out of a text that is longer than `cap` bytes, at char boundaries, and says how many
/// bytes are left out. The second value is true when something was cut. The result keeps at most `cap`
/// bytes of the text; the line that names the gap comes on top.
pub fn cut_middle(text: &str, cap: usize) -> (String, bool) {
    if text.len() <= cap {
        return (text.to_owned(), false);
    }
    let head = &text[..text.floor_char_boundary(cap.div_ceil(2))];
    let tail = &text[text.ceil_char_boundary(text.len() - cap / 2)..];
    let gone = text.len() - head.len() - tail.len();
    (format!("{head}{}{tail}", gap_line(gone as u64)), true)
}

/// The line that stands where bytes were left out.
pub fn gap_line(bytes: u64) -> String {
    format!("\n[… {bytes} bytes left out …]\n")
}

/// A glob pattern that matches exactly this text. `globset::escape` leaves the backslash and the comma alone.
pub fn glob_of(text: &str) -> String {
    globset::escape(&text.replace('\\', "\\\\")).replace(',', "[,]")
}

/// Models like to wrap JSON in a Markdown fence; what is inside counts.
pub fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inner.split_once('\n').map(|(_, body)| body.trim()).unwrap_or(inner)
}

/// Money from millionths of a dollar: `$0.0123`; four decimals below one dollar, two from there on.
///
/// Rounded up, so that a cost is never said to be nothing.
pub fn money(micro_usd: u64) -> String {
    if micro_usd >= 1_000_000 {
        let cents = micro_usd.div_ceil(10_000);
        format!("${}.{:02}", grouped(cents / 100), cents % 100)
    } else {
        let parts = micro_usd.div_ceil(100);
        format!("${}.{:04}", parts / 10_000, parts % 10_000)
    }
}

/// A count with separators: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_stays_as_it_is() {
        assert_eq!(cut_middle("abc", 3), ("abc".to_owned(), false));
        assert_eq!(cut_middle("", 0), (String::new(), false));
    }

    #[test]
    fn head_and_tail_stay_and_the_gap_is_counted() {
        let (text, cut) = cut_middle("aaaaabbbbb", 4);
        assert_eq!((text.as_str(), cut), ("aa\n[… 6 bytes left out …]\nbb", true));
    }

    #[test]
    fn never_inside_a_character() {
        let text = "ä€😀".repeat(50);
        for cap in 0..text.len() {
            let (cut, was_cut) = cut_middle(&text, cap);
            assert!(was_cut);
            let (head, rest) = cut.split_once("\n[… ").unwrap();
            let (count, tail) = rest.split_once(" bytes left out …]\n").unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail) && head.len() + tail.len() <= cap);
            assert_eq!(head.len() + tail.len() + count.parse::<usize>().unwrap(), text.len());
        }
    }
}
