//! Decimal numbers of the configuration kept as whole thousandths or millionths; knows no float arithmetic.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A decimal that is not written as digits with at most `DIGITS` decimals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a number of 0 or more with at most {digits} decimals")]
pub struct BadDecimal {
    /// What was written.
    pub text: String,
    /// How many decimals are kept.
    pub digits: u32,
}

/// A decimal of 0 or more with at most `DIGITS` decimals, kept as a whole number of its smallest unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal<const DIGITS: u32>(pub u64);

/// Dollars, kept as millionths.
pub type Dollars = Decimal<6>;

/// A plain number such as a temperature, kept as thousandths.
pub type Thousandths = Decimal<3>;

impl<const DIGITS: u32> FromStr for Decimal<DIGITS> {
    type Err = BadDecimal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadDecimal { text: text.to_owned(), digits: DIGITS };
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits_only = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let kept = decimals.trim_end_matches('0');
        let width = DIGITS as usize;
        if !digits_only(whole) || !digits_only(decimals) || kept.len() > width {
            return Err(bad());
        }
        let small: u64 = format!("{kept:0<width$}").parse().map_err(|_| bad())?;
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let scaled = whole.checked_mul(10u64.pow(DIGITS)).and_then(|units| units.checked_add(small));
        scaled.map(Decimal).ok_or_else(bad)
    }
}

impl<const DIGITS: u32> fmt::Display for Decimal<DIGITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10u64.pow(DIGITS);
        let width = DIGITS as usize;
        let decimals = format!("{:0>width$}", self.0 % unit);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / unit),
            kept => write!(f, "{}.{kept}", self.0 / unit),
        }
    }
}

impl<const DIGITS: u32> Serialize for Decimal<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const DIGITS: u32> Deserialize<'de> for Decimal<DIGITS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DecimalVisitor<const DIGITS: u32>;
        impl<const DIGITS: u32> Visitor<'_> for DecimalVisitor<DIGITS> {
            type Value = Decimal<DIGITS>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a string such as \"1.25\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            // The shortest text that reads back as this float is what the person wrote.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(DecimalVisitor::<DIGITS>)
    }
}

impl<const DIGITS: u32> JsonSchema for Decimal<DIGITS> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Decimal{DIGITS}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "number"],
            "minimum": 0,
            "pattern": format!("^[0-9]+(\\.[0-9]{{1,{DIGITS}}}0*)?$"),
            "description": format!("A number of 0 or more with at most {DIGITS} decimals, as a number or a string.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_print_as_written() {
        for (text, units, shown) in [
            ("0", 0, "0"),
            ("1.25", 1_250_000, "1.25"),
            ("10", 10_000_000, "10"),
            ("0.000001", 1, "0.000001"),
        ] {
            let dollars: Dollars = text.parse().unwrap();
            assert_eq!(dollars, Decimal(units), "{text}");
            assert_eq!(dollars.to_string(), shown);
        }
        assert_eq!("0.70".parse::<Thousandths>().unwrap(), Decimal(700));
    }

    #[test]
    fn what_cannot_be_kept_exactly_is_refused() {
        for bad in ["", "-1", "1e3", "1.", ".5", "0.0000001", "1,5", "NaN", "inf", "99999999999999999999"] {
            assert!(bad.parse::<Dollars>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_strings_mean_the_same() {
        #[derive(serde::Deserialize)]
        struct Row {
            price: Dollars,
        }
        for text in ["price = 0.1", "price = \"0.1\"", "price = \"0.100\""] {
            assert_eq!(toml::from_str::<Row>(text).unwrap().price, Decimal(100_000), "{text}");
        }
    }
}
