//! Names of temporary files that are renamed into place: made, recognised, and known as left over; opens no file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// No exchange takes longer than this: what is older was left by a process that was killed.
const LONGEST: Duration = Duration::from_secs(600);

/// A new name, which tells when it was made.
pub fn name() -> String {
    format!(".agon-{}.tmp", Uuid::now_v7().simple())
}

/// True for such a name. What it names is no content of a workspace.
pub fn is_one(name: &str) -> bool {
    made(name).is_some()
}

/// True for such a name whose process must have been killed.
pub fn is_left(name: &str) -> bool {
    made(name).is_some_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age > LONGEST))
}

fn made(name: &str) -> Option<SystemTime> {
    let id = name.strip_prefix(".agon-")?.strip_suffix(".tmp").filter(|id| id.len() == 32)?;
    let (seconds, nanoseconds) = Uuid::try_parse(id).ok()?.get_timestamp()?.to_unix();
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_our_own_are_told_from_others_and_old_from_new() {
        let (new, old) = (name(), ".agon-01900000000070008000000000000000.tmp");
        assert!(is_one(&new) && !is_left(&new));
        assert!(is_one(old) && is_left(old));
        for other in [".agon-x.tmp", ".agon", "a.tmp", ".agon-00000000000000000000000000000000.tmp"] {
            assert!(!is_one(other), "{other}");
        }
    }
}
