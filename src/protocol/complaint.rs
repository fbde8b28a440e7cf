//! Says what a parser complained about in the words of the person who wrote the file; knows no file and no parser.

/// A deserializer's message in plain words; a message of a form it does not know comes back as it is.
///
/// `invalid type: string "ten", expected u32` becomes ``"ten"` is not a whole number of 0 or more``.
pub fn plain(message: &str) -> String {
    let message = message.trim();
    let told = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = told.and_then(|told| told.split_once(", expected ")) {
        return format!("{} is not {}", value(found), kind(wanted));
    }
    if let Some((found, wanted)) = split(message, "unknown variant ", ", expected one of ") {
        return format!("{found} is none of {wanted}");
    }
    if let Some((found, wanted)) = split(message, "unknown variant ", ", expected ") {
        return format!("{found} is not {wanted}");
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("{name} is missing");
    }
    if let Some(kinds) = message.strip_prefix("wanted ") {
        return format!("it must be a {kinds}");
    }
    match message.strip_prefix("string values must be quoted") {
        Some(_) => "a value is missing, or text stands without quotes".to_owned(),
        None => message.to_owned(),
    }
}

fn split<'a>(message: &'a str, before: &str, between: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(before)?.split_once(between)
}

/// What was found: the value itself where the parser names it, else its kind.
fn value(found: &str) -> String {
    let found = found.strip_suffix(" as i128").or_else(|| found.strip_suffix(" as u128")).unwrap_or(found);
    if let Some(text) = found.strip_prefix("string ") {
        return format!("`{text}`");
    }
    for number in ["integer ", "floating point ", "boolean "] {
        if let Some(text) = found.strip_prefix(number) {
            return text.to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// What was wanted.
fn kind(wanted: &str) -> String {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more that fits",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number that fits",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" | "a borrowed string" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn no_name_of_a_type_reaches_the_reader() {
        for (said, told) in [
            (
                "invalid value: integer `-1`, expected u32",
                "`-1` is not a whole number of 0 or more that fits",
            ),
            (
                "invalid type: string \"ten\", expected u32",
                "`\"ten\"` is not a whole number of 0 or more that fits",
            ),
            (
                "invalid type: floating point `1.5`, expected u64",
                "`1.5` is not a whole number of 0 or more that fits",
            ),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u64",
                "`99999999999999999999` is not a whole number of 0 or more that fits",
            ),
            ("invalid type: string \"big\", expected struct PriceTable", "`\"big\"` is not a table"),
            ("invalid type: map, expected a sequence", "a table is not a list"),
            (
                "unknown variant `openia`, expected `openai` or `script`",
                "`openia` is not `openai` or `script`",
            ),
            ("unknown variant `alow`, expected one of `allow`, `deny`", "`alow` is none of `allow`, `deny`"),
            ("missing field `kind`", "`kind` is missing"),
            ("wanted string or table", "it must be a string or table"),
            ("duplicate key `a`", "duplicate key `a`"),
        ] {
            assert_eq!(plain(said), told);
        }
    }

    #[test]
    fn the_parser_in_use_still_speaks_this_way() {
        #[derive(serde::Deserialize, Debug)]
        struct Wanted {
            #[expect(dead_code, reason = "only read")]
            steps: u32,
        }
        let of = |text: &str| plain(toml::from_str::<Wanted>(text).unwrap_err().message());
        assert_eq!(of("steps = \"ten\""), "`\"ten\"` is not a whole number of 0 or more that fits");
        assert_eq!(of("steps = -1"), "`-1` is not a whole number of 0 or more that fits");
        assert_eq!(of(""), "`steps` is missing");
        assert_eq!(of("steps = "), "a value is missing, or text stands without quotes");
    }
}
