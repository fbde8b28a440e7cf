//! What applying a recorded run would do to a workspace, as a person is shown it; changes nothing.

use std::collections::BTreeMap;

use crate::ports::{FileChange, FileContent, FileError, Files};
use crate::protocol::event::{PathBase, Plan};
use crate::protocol::need::Need;
use crate::protocol::spec::Risk;
use crate::toolvault::unified;

/// Bytes of one file that are compared line by line.
const COMPARED_MAX: u64 = 1024 * 1024;

/// Bytes of a preview: nobody approves what was cut, so a run with a longer one is not used.
const PREVIEW_MAX: usize = 512 * 1024;

/// The plan of a patch, with `digest` as what an approval binds to. Refused when a file is not what it was
/// before the recorded run.
pub fn of(
    files: &dyn Files,
    changes: &[FileChange],
    contents: &BTreeMap<String, Vec<u8>>,
    digest: String,
) -> Result<Plan, String> {
    let (mut preview, mut needs) = (String::new(), Vec::new());
    for change in changes {
        let held = files.digest(&change.path).map_err(|error| error.to_string())?;
        if held != change.before.as_ref().map(|before| before.sha256.clone()) {
            return Err(format!("`{}` is not what it was before the recorded run", change.path));
        }
        preview.push_str(&shown(files, change, contents)?);
        if preview.len() > PREVIEW_MAX {
            return Err(format!("its changes take more than {PREVIEW_MAX} bytes to show"));
        }
        needs.push(Need::Write(PathBase { path: change.path.clone(), sha256: held }));
    }
    Ok(Plan { needs, cwd: String::new(), preview, risk: Risk::Write, digest })
}

fn shown(
    files: &dyn Files,
    change: &FileChange,
    contents: &BTreeMap<String, Vec<u8>>,
) -> Result<String, String> {
    let path = &change.path;
    let Some(after) = &change.after else { return Ok(format!("`{path}` is removed\n")) };
    let mode = match (change.before.as_ref().is_some_and(|before| before.exec), after.exec) {
        (false, true) => format!("`{path}` becomes executable\n"),
        (true, false) => format!("`{path}` is no longer executable\n"),
        _ => String::new(),
    };
    let new = contents.get(&after.sha256).ok_or_else(|| format!("the content of `{path}` is not there"))?;
    let Ok(text) = std::str::from_utf8(new) else {
        return Ok(format!("{mode}{}", described(path, after, new.len())));
    };
    let old = match &change.before {
        None => None,
        Some(_) => match files.read(path, COMPARED_MAX) {
            Ok(old) => Some(old),
            Err(FileError::TooLarge { .. }) => {
                return Ok(format!("{mode}{}", described(path, after, new.len())));
            }
            Err(error) => return Err(error.to_string()),
        },
    };
    Ok(mode + &unified::diff(path, old.as_deref(), text))
}

fn described(path: &str, after: &FileContent, bytes: usize) -> String {
    let short: String = after.sha256.chars().take(12).collect();
    format!("`{path}` is replaced by {bytes} bytes that are not compared (SHA-256 {short}…)\n")
}
