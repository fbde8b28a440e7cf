//! Whether a spark may overwrite a file: only what it has seen as it is now.

use crate::protocol::event::PathBase;

/// Accepts a file that does not exist, or that holds what the spark last saw; else words for the model.
pub fn may_replace(bases: &[PathBase], path: &str, now: Option<&str>) -> Result<(), String> {
    let Some(now) = now else { return Ok(()) };
    let seen = bases.iter().rev().find(|base| base.path == path).and_then(|base| base.sha256.as_deref());
    match seen {
        Some(seen) if seen == now => Ok(()),
        Some(_) => Err(format!("`{path}` has changed since you last read it; read it again before writing")),
        None => Err(format!("`{path}` exists and you have not read it; read it first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_as_it_is() {
        let base =
            |path: &str, sha: Option<&str>| PathBase { path: path.into(), sha256: sha.map(Into::into) };
        let bases = [base("a", Some("1")), base("gone", None), base("a", Some("2"))];
        assert_eq!(may_replace(&bases, "new", None), Ok(()));
        assert_eq!(may_replace(&bases, "a", Some("2")), Ok(()));
        assert!(may_replace(&bases, "a", Some("1")).unwrap_err().contains("changed since you last read"));
        assert!(may_replace(&bases, "b", Some("1")).unwrap_err().contains("read it first"));
        assert!(may_replace(&bases, "gone", Some("1")).unwrap_err().contains("read it first"));
    }
}
