//! A text that must never be shown; knows nothing of what it opens.

use std::fmt;

/// A key or another text that is never printed, logged or serialised.
///
/// There is no `Serialize`, no `Display`, and `Debug` shows stars. [`Secret::reveal`] is the only way in.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself: for the one header that needs it, and for redaction.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
