//! A unified diff of one file, as previews and results show it.

use std::time::Duration;

use similar::{Algorithm, TextDiff};

use crate::protocol::text::name_shown;

/// Beyond this the diff may be less tidy, never wrong.
const PATIENCE: Duration = Duration::from_secs(2);

/// The diff from `old` (`None`: no such file) to `new`, with headers.
pub fn diff(path: &str, old: Option<&[u8]>, new: &str) -> String {
    let Some(old) = old else { return render("/dev/null", path, "", new) };
    match std::str::from_utf8(old) {
        Ok(old) => render(&name_shown(&format!("a/{path}")), path, old, new),
        Err(_) => {
            let words = format!(
                "`{}` holds {} bytes that are not text; they are replaced by:\n",
                name_shown(path),
                old.len()
            );
            words + &render("/dev/null", path, "", new)
        }
    }
}

fn render(from: &str, path: &str, old: &str, new: &str) -> String {
    if old == new {
        return match from {
            "/dev/null" => {
                format!("--- /dev/null\n+++ {}\n(an empty file)\n", name_shown(&format!("b/{path}")))
            }
            _ => format!("`{}` stays as it is\n", name_shown(path)),
        };
    }
    TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(PATIENCE)
        .diff_lines(old, new)
        .unified_diff()
        .header(from, &name_shown(&format!("b/{path}")))
        .to_string()
}
